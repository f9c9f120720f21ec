"""The JSON Schema files are those of the types, and agree with the golden messages."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import schemas
from schemas.json_schema import DIALECT, TYPES, schema_file
from schemas.resources import RESOURCES

FOLDER = Path(schemas.__file__).parent
GOLDEN = Path(__file__).parent / "golden"
SAMPLE = "sample.v1.schema.json"


@pytest.mark.parametrize("name", TYPES)
def test_the_file_is_current(name):
    """``python -m schemas.json_schema`` writes it; commit what it wrote."""
    assert (FOLDER / name).read_text() == schema_file(name), "run python -m schemas.json_schema"


def test_there_are_no_other_files():
    """A schema without a type would never change again."""
    assert {path.name for path in FOLDER.glob("*.schema.json")} == set(TYPES)


def load(name):
    return json.loads((FOLDER / name).read_text())


def allows(name, value):
    return Draft202012Validator(load(name)).is_valid(value)


GOOD = [json.loads(line) for line in (GOLDEN / "sample.v1.jsonl").read_text().splitlines()]
GOOD.append(json.loads((GOLDEN / "machine.v1.json").read_text()))


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_golden_messages_are_valid(number):
    """Each message, and each with fields nobody knows yet."""
    assert allows(SAMPLE, GOOD[number])
    assert allows(SAMPLE, GOOD[number] | {"newer": 1})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("another version", GOOD[0] | {"v": 2}),
        ("no machine", {k: v for k, v in GOOD[0].items() if k != "machine"}),
        ("another type", GOOD[0] | {"type": "event"}),
        ("negative usage", GOOD[0] | {"cpu": GOOD[0]["cpu"] | {"mean": -1}}),
        ("no interval", GOOD[0] | {"interval_s": 0}),
        ("an interval shorter than a slot", GOOD[0] | {"interval_s": 9}),
        ("a space in the id", GOOD[0] | {"machine": "a b"}),
        ("no resource", {k: v for k, v in GOOD[0].items() if k not in RESOURCES}),
        ("resources that are null", GOOD[0] | dict.fromkeys(RESOURCES)),
        ("over-long id", GOOD[0] | {"machine": "m" * 254}),
        ("text for a number", GOOD[0] | {"at": "now"}),
        ("a label that is no text", GOOD[-1] | {"labels": {"a": 1}}),
    ],
)
def test_wrong_messages_are_not(name, message):
    """What the decoder refuses by type or range, the schema refuses."""
    assert not allows(SAMPLE, message), name


def test_requests_allow_no_unknown_field():
    """A deployer's typing error is found before it is sent."""
    request = "request.v1.schema.json"
    assert allows(request, {"cpu": "500m", "memory": 1e9, "ports": [7001], "labels": {"a": "b"}})
    assert not allows(request, {"cpus": 2})
    assert not allows(request, {"ports": [0]})


@pytest.mark.parametrize("name", TYPES)
def test_every_file_says_what_it_is(name):
    """Its dialect, its title, and a description of each object."""
    schema = load(name)
    assert schema["$schema"] == DIALECT
    assert schema["title"] == name.removesuffix(".schema.json")
    assert all(part.get("description") for part in schema["$defs"].values())


def test_query_and_reply_carry_the_version():
    for name in ("query", "reply"):
        schema = load(f"{name}.v1.schema.json")
        (part,) = (schema["$defs"][key] for key in schema["$defs"] if key.lower() == name)
        assert part["properties"]["v"]["const"] == 1
