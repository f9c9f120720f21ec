"""Each stored or sent format has a golden file that today's reader takes, and that today's writer writes again.

The files are made by `tests.golden`. `check_history` is what a format with more than one number has to pass: its older
files are read, too. Until there is one, it is proven with an invented format 2 of samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from schemas.messages.sample import Rejected, decode
from schemas.tables.window_table import TableError, decode_table
from streams.state.manifest import decode_manifest
from tests.golden import FORMATS, Golden
from tests.rows import each_row

BY_NAME = {one.path.rpartition("/")[2].partition(".")[0]: one for one in FORMATS}


def check_history(files: Mapping[int, bytes], again: Callable[[bytes], bytes]) -> None:
    """Assert that every file is read, and that what is written then is the newest format, and stays as it is."""
    newest = max(files)
    assert again(files[newest]) == files[newest]
    for raw in files.values():
        written = again(raw)
        assert again(written) == written


@each_row("one", FORMATS, ids=BY_NAME)
def test_each_format_is_read_and_written_again(one: Golden) -> None:
    """To the byte: a format that is changed gets a new file (`python -m tests.golden`)."""
    check_history({1: one.file.read_bytes()}, one.again)


def test_every_golden_file_is_of_a_format() -> None:
    folders = {one.file.parent for one in FORMATS}
    assert {file for folder in folders for file in folder.iterdir()} == {one.file for one in FORMATS}


def to_two(message: dict[str, Any]) -> dict[str, Any]:
    """A sample of format 1 as one of the invented format 2, which has the length of its interval in milliseconds."""
    assert message["v"] == 1
    return {name: value for name, value in message.items() if name != "interval_s"} | {
        "v": 2,
        "interval_ms": message["interval_s"] * 1000,
    }


def release_two(raw: bytes, steps: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]) -> bytes:
    """Read and write samples as a release with format 2; ``steps`` lead from each older format to the next."""
    found = []
    for line in raw.splitlines():
        message = json.loads(line)
        while message["v"] != 2:
            message = steps[message["v"]](message)
        assert message["interval_ms"] > 0
        found.append(json.dumps(message).encode() + b"\n")
    return b"".join(found)


def test_the_first_releases_file_is_read_by_a_second_format() -> None:
    """A release with format 2 passes with the file of format 1; it fails once its reader no longer takes that."""
    first = BY_NAME["sample"].file.read_bytes()
    second = b"".join(json.dumps(to_two(json.loads(line))).encode() + b"\n" for line in first.splitlines())
    check_history({1: first, 2: second}, lambda raw: release_two(raw, {1: to_two}))
    with pytest.raises(KeyError):
        check_history({1: first, 2: second}, lambda raw: release_two(raw, {}))


def test_a_newer_format_is_refused() -> None:
    """Gone back from the invented format 2: a sample, a table and a manifest are refused, never misread."""
    line = BY_NAME["sample"].file.read_bytes().splitlines()[0]
    with pytest.raises(Rejected, match="v is 2, this reader knows 1"):
        decode(json.dumps(to_two(json.loads(line))).encode())
    for name in ("window_table", "vitals", "position", "hour", "instance_table"):
        raw = BY_NAME[name].file.read_bytes()
        with pytest.raises(TableError, match="major version 2; this reader knows 1"):
            decode_table(raw[:7] + b"\x02" + raw[8:])
    raw = BY_NAME["manifest"].file.read_bytes()
    assert decode_manifest(raw[:4] + b"\x02" + raw[5:]) is None
