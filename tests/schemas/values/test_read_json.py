"""JSON of others: whatever is wrong with it, one error is raised, and no reader ends with another."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from schemas.messages.operator import drained
from schemas.messages.process import read_processes, read_worker
from schemas.messages.sample import MachineFacts
from schemas.tables.learned import Learned, read_learned
from schemas.values.read_json import DEPTH_MAX, read_as, read_json
from scorer.background.checker import LastCheck
from scorer.live.loader import Loader
from tests.rows import each_row

DEEP = b"[" * 2_000 + b"]" * 2_000
WRONG = {
    "deep": DEEP,
    "deep in a field": b'{"labels":' + DEEP + b"}",
    "deep in an unknown field": b'{"x":' + DEEP + b"}",
    "not UTF-8": b'"\xff"',
    "torn": b'{"a":',
    "empty": b"",
}


class _Wire:
    """Answers everything with the same bytes."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def one(self, *_: object) -> bytes:
        return self._raw


def _last_check(raw: bytes) -> object:
    found = object.__new__(LastCheck)
    found._wire, found._key = _Wire(raw), "checked"  # type: ignore[assignment]
    return found.read()


READERS: dict[str, Callable[[bytes], object]] = {
    "rules of operators": lambda raw: Loader._rules_in([b"m", raw]),
    "what is drained": lambda raw: drained(raw, raw),
    "heartbeats": lambda raw: read_processes({b"\xff": raw}),
    "workers": read_worker,
    "learned values": read_learned,
    "the last check": _last_check,
}


@each_row("raw", WRONG.values(), WRONG)
@each_row("read", READERS.values(), READERS)
def test_no_entry_of_another_ends_a_reader(read: Callable[[bytes], object], raw: bytes) -> None:
    """An entry that nests 2,000 deep is left out as one that is torn, or only its unknown field is (Python 3.13)."""
    found = read(raw)
    assert not found or found == Learned()


@each_row("raw", WRONG.values(), WRONG)
def test_there_is_one_error(raw: bytes) -> None:
    for read in (read_json, lambda given: read_as(given, MachineFacts)):
        with pytest.raises(msgspec.DecodeError):
            read(raw)


@each_row("depth, good", [(DEPTH_MAX, True), (DEPTH_MAX + 1, False), (900, False)])
def test_depth_without_a_type_is_bounded(depth: int, good: bool) -> None:
    """What the parser can read but others could not walk through is refused, in lists and in objects."""
    for raw in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        if good:
            assert read_json(raw)
        else:
            with pytest.raises(msgspec.DecodeError, match="deep"):
                read_json(raw)


def test_json_is_read_in_one_place() -> None:
    """No module of the product decodes a text by itself, without the one error."""
    root = Path(__file__).parents[3]
    command = ["git", "grep", "-l", "msgspec.json.decode(", "--", "schemas", "streams", "scorer", "ops"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.split()
    assert found == []
