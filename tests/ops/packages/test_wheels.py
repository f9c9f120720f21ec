"""Man pages and completions in packages: added to a wheel below the prefix; a missing or a stale one is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.packages.environment import PackageError
from ops.packages.wheels import add_manual, check_manual, read_modules
from tests.ops.packages.test_backend import RECORD, content, record_row, wheel

PAGE = "share/man/man1/w.1"


def test_a_wheel_gets_its_manual(tmp_path: Path) -> None:
    """As data, which pip installs below the prefix; the record has it."""
    path = wheel(tmp_path, {"w.py": b"x"})
    add_manual(path, {PAGE: "the page"})
    assert read_modules(path) == {"w.py", PAGE}
    files = content(path)
    assert files[f"w-1.data/data/{PAGE}"] == b"the page"
    assert ",".join(record_row(f"w-1.data/data/{PAGE}", b"the page")) in files[RECORD].decode().splitlines()


@pytest.mark.parametrize(
    ("text", "said"), [(None, f"no {PAGE}"), ("an older page", "is not that of these commands"), ("the page", "")]
)
def test_a_missing_or_stale_page_fails_the_check(text: str | None, said: str, tmp_path: Path) -> None:
    """In an installation; one that is right passes."""
    page = tmp_path / PAGE
    page.parent.mkdir(parents=True)
    if text is not None:
        page.write_text(text)
    if said:
        with pytest.raises(PackageError, match=said):
            check_manual(tmp_path, {PAGE: "the page"})
    else:
        check_manual(tmp_path, {PAGE: "the page"})
