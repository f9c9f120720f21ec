"""Completions in packages: added to a wheel below the prefix; a missing or a stale one is found."""

import pytest

from ops.packages.__main__ import PackageError, add_completions, check_completions, read_modules
from ops.packages.backend import record_row
from tests.ops.packages.test_backend import RECORD, content, wheel

FILE = "share/fish/w.fish"


def test_a_wheel_gets_its_completions(tmp_path):
    path = wheel(tmp_path, {"w.py": b"x"})
    add_completions(path, {FILE: "the words"})
    assert read_modules(path) == {"w.py", FILE}
    files = content(path)
    assert files[f"w-1.data/data/{FILE}"] == b"the words"
    assert ",".join(record_row(f"w-1.data/data/{FILE}", b"the words")) in files[RECORD].decode().splitlines()


@pytest.mark.parametrize(
    ("text", "said"), [(None, f"no {FILE}"), ("older words", "is not that of these commands"), ("the words", "")]
)
def test_a_missing_or_stale_file_fails_the_check(text, said, tmp_path):
    file = tmp_path / FILE
    file.parent.mkdir(parents=True)
    if text is not None:
        file.write_text(text)
    if said:
        with pytest.raises(PackageError, match=said):
            check_completions(tmp_path, {FILE: "the words"})
    else:
        check_completions(tmp_path, {FILE: "the words"})
