"""The file of wanted instances: its three forms, and what is refused with line and field."""

from __future__ import annotations

import json
from io import BytesIO
from types import SimpleNamespace

import pytest

from scorer.commands.planning import wanted_file
from scorer.commands.planning.wanted_file import read_text, read_wanted
from scorer.planning.wanted import requests
from scorer.planning.wanted.requests import InvalidWanted
from tests.rows import each_row

ONE = {"id": "a", "cpu": 2, "memory": "1G"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"id": "a", "cpu": 2, "memory": "1G"}\n\n{"id": "b", "cpu": 1}\n', id="lines"),
        pytest.param(json.dumps([ONE, {"id": "b", "cpu": 1}], indent=1), id="a list"),
        pytest.param(json.dumps({"instances": [ONE, {"id": "b"}], "cpu": 1}), id="an object with a shared field"),
    ],
)
def test_the_forms(text: str) -> None:
    """All are the same."""
    assert [(one.id, one.cpu) for one in read_wanted(text)] == [("a", 2.0), ("b", 1.0)]


def test_a_count_has_ids() -> None:
    """As in a placement."""
    assert [one.id for one in read_wanted(json.dumps(ONE | {"count": 3}))] == ["a-1", "a-2", "a-3"]
    assert read_wanted("[]") == []


@each_row(
    ("text", "message"),
    [
        ("", "it is empty; [] says that no instance is wanted"),
        (" \n", "it is empty"),
        ("{", "line 1: not JSON"),
        ("[1", "not JSON"),
        ('{"id": "a"}\n{"id": ', "line 2: not JSON"),
        ('{"id": "a"}\n{"id": "a"}', "line 2: id 'a' is listed twice"),
        ('{"cpu": 1}', "line 1: id is required"),
        ('[{"id": "a", "cpu": "lots"}]', "entry 1: cpu: 'lots' is not an amount"),
        ('[{"id": "a", "tape": 1}]', "entry 1: "),
        ("[1]", "entry 1: "),
        ('{"instances": 1}', "instances: expected a list"),
        ('{"instances": [], "id": "a"}', "id: does not go together with instances"),
        ('{"id": "a", "dry_run": true}', "line 1: dry_run: says how one call is answered"),
        ('{"id": "a", "machine": "a b"}', "line 1: "),
        ('{"id": "a\\u0007"}', "characters that cannot be printed"),
        ('{"id": "a\\ud800"}', "line 1: a text in it is not valid Unicode"),
        ('{"id": "a", "count": 10000}\n{"id": "b"}', "line 2: more than 10000 instances; split it"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    """The message names line and field."""
    with pytest.raises(InvalidWanted) as error:
        read_wanted(text)
    assert message in str(error.value)


def test_a_long_file_is_read_no_further_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither beyond so many bytes, nor beyond the line that has one instance too many."""
    monkeypatch.setattr(wanted_file, "BYTES_MAX", 2**20)
    file = BytesIO(b" " * (2**20 + 500))
    with pytest.raises(InvalidWanted, match="more than 1 MiB; split it"):
        read_text(file)
    assert file.tell() == 2**20 + 1
    with pytest.raises(InvalidWanted, match="byte 3 is no UTF-8"):
        read_text(BytesIO(b"{}\xff"))
    read = []
    monkeypatch.setattr(requests, "BATCH_MAX", 2)
    monkeypatch.setattr(
        wanted_file, "json", SimpleNamespace(loads=lambda text: read.append(text) or json.loads(text), dumps=json.dumps)
    )
    with pytest.raises(InvalidWanted, match="line 3: more than 2 instances"):
        read_wanted("\n".join(json.dumps({"id": f"i{n}"}) for n in range(100)))
    assert len(read) <= 4
