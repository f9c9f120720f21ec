"""The parameters of the RPC: nothing in them is without a largest size."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.json_schema import schema_file
from schemas.rpc.parameters import RPC, Update
from schemas.rpc.request import Request
from tests.rows import each_row


def without_bound(schema: dict[str, Any], defs: dict[str, Any], path: str = "$") -> list[str]:
    """Where a text, a list or a map of a JSON Schema may be of any size."""
    if "$ref" in schema:
        return without_bound(defs[schema["$ref"].rsplit("/", 1)[1]], defs, path)
    found = []
    kind = schema.get("type")
    if kind is None and not schema.keys() & {"anyOf", "enum", "const"}:
        found.append(f"{path}: anything")
    if kind == "string" and "maxLength" not in schema:
        found.append(f"{path}: a text")
    if kind == "array":
        found += [f"{path}: a list"] * ("maxItems" not in schema) + without_bound(schema["items"], defs, f"{path}[]")
    if kind == "object" and "properties" in schema:
        for name, part in schema["properties"].items():
            found += without_bound(part, defs, f"{path}.{name}")
    elif kind == "object" and "title" not in schema:
        found += [f"{path}: a map"] * ("maxProperties" not in schema)
        found += without_bound(schema.get("additionalProperties", {}), defs, f"{path}{{}}")
        found += [f"{path}: a key"] * ("maxLength" not in schema.get("propertyNames", {}))
    for part in schema.get("anyOf", ()):
        found += without_bound(part, defs, path)
    return found


def of(kind: Any) -> list[str]:
    """The same of a type."""
    schema = msgspec.json.schema(kind)
    return without_bound(schema, schema.get("$defs", {}))


@each_row("method", RPC)
def test_every_text_and_list_has_a_largest_size(method: str) -> None:
    """Of each method, however deep; also in what is published."""
    assert of(RPC[method].parameters) == []
    name = "request" if RPC[method].parameters is Request else f"{method}.params"
    assert '"additionalProperties": false' in schema_file(f"{name}.v1.schema.json")


class Loose(msgspec.Struct):
    """All that a Struct may leave open."""

    text: str
    texts: tuple[str, ...]
    by_name: dict[str, float]
    maybe: str | None = None
    anything: Any = None


def test_what_has_no_bound_is_found() -> None:
    """A text, a list, a map, or what is in them."""
    found = [
        "$.text: a text", "$.texts: a list", "$.texts[]: a text", "$.by_name: a map", "$.by_name: a key",
        "$.maybe: a text", "$.anything: anything",
    ]  # fmt: skip
    assert of(Loose) == found


def test_the_largest_names_are_taken() -> None:
    """An id with the number of a batch of 10,000 is confirmed and updated, too."""
    longest = "x" * 253 + "-10000"
    assert msgspec.convert({"id": longest}, Update).id == longest
