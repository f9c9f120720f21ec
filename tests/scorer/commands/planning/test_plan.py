"""``windward plan`` from a file: the table, JSON, exit codes; and what is said of steps that were undone."""

import json
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from scorer.commands.planning.plan import main, undone, undone_words
from scorer.planning.wanted import requests
from scorer.planning.wanted.requests import InvalidWanted, read_text, read_wanted

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
FLEET = str(EXAMPLES / "hot.json")


def run(capsys, file, *words, code):
    assert main([str(file), "--fleet-file", FLEET, *words], {}) == code
    return capsys.readouterr().out


def test_every_kind_of_step(capsys):
    shown = run(capsys, EXAMPLES / "wanted.jsonl", "--prune", code=3).splitlines()
    assert [line.split()[:2] for line in shown[1:-1]] == [
        ["-", "db-1"], ["~", "web-2"], [">", "web-1"], ["+", "cache-1"], ["+", "cache-2"], ["!", "huge"],
    ]  # fmt: skip
    assert shown[-1].startswith(
        "2 to place, 1 to move, 1 to change, 0 to update, 1 to release, 1 refused, 0 unchanged (3 machines"
    )
    answer = json.loads(run(capsys, EXAMPLES / "wanted.jsonl", "--json", code=3))
    assert answer["counts"] == {
        "place": 2, "move": 1, "change": 1, "update": 0, "release": 0, "refuse": 1, "same": 0,
    }  # fmt: skip
    assert (answer["others"], answer["applied"]) == (1, False)


def test_exit_codes(capsys, tmp_path):
    file = tmp_path / "wanted.json"
    file.write_text('{"id": "web-1", "cpu": 4, "memory": "8G"}')
    assert run(capsys, file, code=0).startswith("0 to place, 0 to move, 0 to change, 0 to update, 0 to rele")
    file.write_text('{"id": "web-1", "cpu": 1, "memory": "8G"}')
    run(capsys, file, code=1)
    for text in ("{", '{"id": "a", "selector": "= ="}'):
        file.write_text(text)
        assert main([str(file), "--fleet-file", FLEET], {}) == 255
        assert "windward plan: file: " in capsys.readouterr().err
    assert main([str(tmp_path / "none"), "--fleet-file", FLEET], {}) == 255
    assert main([str(file), "--fleet-file", str(tmp_path / "none")], {}) == 255
    assert main([str(file), "--fleet-file", FLEET, "--profile", "none"], {}) == 255


def test_what_cannot_be_undone_is_told():
    """How many are undone, and why others are not; nothing else is said to be unchanged."""
    told = [{"id": "i", "action": "change", "done": True}, {"id": "j", "action": "place"}]
    told[1]["done"] = True
    steps = [dict(one) for one in told]
    assert undone(steps, {}) == {"undone": True}
    words = undone_words({"steps": steps}, "RESOURCE_EXHAUSTED")
    assert words == "2 steps before it are undone: nothing has changed"
    steps = [dict(one) for one in told]
    assert undone(steps, {0: "too much cpu promised"}) == {"undone": False}
    words = undone_words({"steps": steps}, "RESOURCE_EXHAUSTED")
    assert words == "the step before it is undone, 1 cannot be: 'i' (change): too much cpu promised"


def test_an_unknown_outcome_is_not_called_unchanged():
    """Where no scorer answered, nobody knows whether the last step was carried out."""
    assert "whether it was carried out itself is not known" in undone_words({"steps": []}, "UNAVAILABLE")
    assert undone_words({"steps": []}, "RESOURCE_EXHAUSTED") == "nothing has changed"


ONE = {"id": "a", "cpu": 2, "memory": "1G"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"id": "a", "cpu": 2, "memory": "1G"}\n\n{"id": "b", "cpu": 1}\n', id="lines"),
        pytest.param(json.dumps([ONE, {"id": "b", "cpu": 1}], indent=1), id="a list"),
        pytest.param(json.dumps({"instances": [ONE, {"id": "b"}], "cpu": 1}), id="an object with a shared field"),
    ],
)
def test_the_forms(text):
    assert [(one.id, one.cpu) for one in read_wanted(text)] == [("a", 2.0), ("b", 1.0)]


def test_a_count_has_ids():
    assert [one.id for one in read_wanted(json.dumps(ONE | {"count": 3}))] == ["a-1", "a-2", "a-3"]
    assert read_wanted("[]") == []


@pytest.mark.parametrize(
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
def test_what_is_refused(text, message):
    with pytest.raises(InvalidWanted) as error:
        read_wanted(text)
    assert message in str(error.value)


def test_a_long_file_is_read_no_further_than_needed(monkeypatch):
    """Neither beyond so many bytes, nor beyond the line that has one instance too many."""
    monkeypatch.setattr(requests, "BYTES_MAX", 2**20)
    file = BytesIO(b" " * (2**20 + 500))
    with pytest.raises(InvalidWanted, match="more than 1 MiB; split it"):
        read_text(file)
    assert file.tell() == 2**20 + 1
    with pytest.raises(InvalidWanted, match="byte 3 is no UTF-8"):
        read_text(BytesIO(b"{}\xff"))
    read = []
    monkeypatch.setattr(requests, "BATCH_MAX", 2)
    monkeypatch.setattr(
        requests, "json", SimpleNamespace(loads=lambda text: read.append(text) or json.loads(text), dumps=json.dumps)
    )
    with pytest.raises(InvalidWanted, match="line 3: more than 2 instances"):
        read_wanted("\n".join(json.dumps({"id": f"i{n}"}) for n in range(100)))
    assert len(read) <= 4
