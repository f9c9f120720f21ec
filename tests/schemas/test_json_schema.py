"""The JSON Schema files are those of the types, and agree with the golden messages."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import schemas
from schemas.json_schema import DIALECT, TYPES, schema_file
from schemas.resources import RESOURCES
from tests.rows import each_row

FOLDER = Path(schemas.__file__).parent
GOLDEN = Path(__file__).parent / "golden"


@each_row("name", TYPES)
def test_the_file_is_current(name: str) -> None:
    """``python -m schemas.json_schema`` writes it; commit what it wrote."""
    assert (FOLDER / name).read_text() == schema_file(name), "run python -m schemas.json_schema"


def test_there_are_no_other_files() -> None:
    """A schema without a type would never change again."""
    assert {path.name for path in FOLDER.glob("*.schema.json")} == set(TYPES)


def load(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return schema


KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def allows(schema: dict[str, Any], value: Any, defs: dict[str, Any]) -> bool:
    """Whether a value is valid: the few words of JSON Schema that the files use."""
    if "$ref" in schema:
        return allows(defs[schema["$ref"].rsplit("/", 1)[1]], value, defs)
    if "anyOf" in schema and not any(allows(one, value, defs) for one in schema["anyOf"]):
        return False
    kind = schema.get("type")
    of_kind = kind is None or (type(value) in KINDS[kind])
    listed = value in schema.get("enum", [value]) and value == schema.get("const", value)
    return of_kind and listed and in_bounds(schema, value) and parts_allowed(schema, value, defs)


def in_bounds(schema: dict[str, Any], value: Any) -> bool:
    """Whether a number or a text keeps its limits; anything else has none."""
    if isinstance(value, str):
        fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        return fits and re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, int | float):
        above = value > schema["exclusiveMinimum"] if "exclusiveMinimum" in schema else True
        return above and schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return True


def parts_allowed(schema: dict[str, Any], value: Any, defs: dict[str, Any]) -> bool:
    """Whether an object has what it must and all it has is valid, or the items of a list are."""
    if isinstance(value, dict):
        rules = [schema.get("properties", {}).get(key, schema.get("additionalProperties", True)) for key in value]
        valid = [
            rule if isinstance(rule, bool) else allows(rule, inner, defs)
            for rule, inner in zip(rules, value.values(), strict=True)
        ]
        return all(valid) and set(schema.get("required", ())) <= value.keys()
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return all(allows(schema["items"], item, defs) for item in value)
    return True


GOOD = [json.loads(line) for line in (GOLDEN / "sample.v1.jsonl").read_text().splitlines()]
GOOD.append(json.loads((GOLDEN / "machine.v1.json").read_text()))


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_golden_messages_are_valid(number: int) -> None:
    """Each message, and each with fields nobody knows yet."""
    schema = load("sample.v1.schema.json")
    assert allows(schema, GOOD[number], schema["$defs"])
    assert allows(schema, GOOD[number] | {"newer": 1}, schema["$defs"])


@each_row(
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
def test_wrong_messages_are_not(name: str, message: dict[str, Any]) -> None:
    """What the decoder refuses by type or range, the schema refuses."""
    schema = load("sample.v1.schema.json")
    assert not allows(schema, message, schema["$defs"]), name


def test_requests_allow_no_unknown_field() -> None:
    """A deployer's typing error is found before it is sent."""
    schema = load("request.v1.schema.json")
    assert allows(schema, {"cpu": "500m", "memory": 1e9, "ports": [7001], "labels": {"a": "b"}}, schema["$defs"])
    assert not allows(schema, {"cpus": 2}, schema["$defs"])
    assert not allows(schema, {"ports": [0]}, schema["$defs"])


@each_row("name", TYPES)
def test_every_file_says_what_it_is(name: str) -> None:
    """Its dialect, its title, and a description of each object."""
    schema = load(name)
    assert schema["$schema"] == DIALECT
    assert schema["title"] == name.removesuffix(".schema.json")
    assert all(part.get("description") for part in schema["$defs"].values())


def test_query_and_reply_carry_the_version() -> None:
    """1, and nothing else."""
    for name in ("query", "reply"):
        schema = load(f"{name}.v1.schema.json")
        (part,) = (schema["$defs"][key] for key in schema["$defs"] if key.lower() == name)
        assert part["properties"]["v"]["const"] == 1
