"""The file of wanted instances: its three forms, and what is refused with line and field."""

from __future__ import annotations

import json

import pytest

from scorer.commands.wanted_file import InvalidWanted, read_wanted

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
    assert read_wanted("") == read_wanted("[]") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
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
        ('{"id": "a", "count": 10000}\n{"id": "b"}', "more than 10000 instances"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    """The message names line and field."""
    with pytest.raises(InvalidWanted) as error:
        read_wanted(text)
    assert message in str(error.value)
