"""The RPC, written from the JSON Schemas: the envelope, a request, and the result of each method."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ops.docs.markdown import prose, table

Schema = Mapping[str, Any]

HEAD = """# The RPC

Redis is the wire. A query is one JSON text pushed on the list `windward:v1:queries`; its answer is popped from the list
`windward:v1:reply:ID`. Every call acts once, by its id, and not after its deadline. "No machine fits" is an answer, not
an error.

Fields that a reader does not know are ignored; fields that a request does not have are refused. The tables below are made
from the files `schemas/*.v1.schema.json`, which are JSON Schema 2020-12 and made from the code.
"""


def page(schemas: Mapping[str, Schema]) -> str:
    """Return the page of these schemas, by their names without ``.v1.schema.json``."""
    order = ["query", "reply", "request", *(name for name in schemas if name.endswith(".result"))]
    parts = [HEAD]
    for name in [each for each in order if each in schemas]:
        schema = schemas[name]
        title = name.replace(".result", ": its result") if name.endswith(".result") else f"{name}: its fields"
        parts.append(f"## {title}")
        for part, definition in schema["$defs"].items():
            parts.append(f"### {part}")
            parts += section(definition)
    return "\n\n".join(parts) + "\n"


def section(definition: Schema) -> list[str]:
    """Return the description and the table of fields of one object."""
    required = set(definition.get("required", ()))
    rows = [
        [f"`{name}`", type_of(field), "required" if name in required else given(field), describe(field)]
        for name, field in definition.get("properties", {}).items()
    ]
    found = [prose(definition.get("description", ""))] if definition.get("description") else []
    return [*found, table(["field", "type", "default", ""], rows)] if rows else found


def given(field: Schema) -> str:
    """Return the default of a field."""
    if "default" not in field:
        return ""
    return f"`{json.dumps(field['default'])}`"


def type_of(field: Schema) -> str:  # noqa: PLR0911 - one for each way to say a type
    """Return the type of a field in words.

    >>> type_of({"anyOf": [{"type": "number"}, {"type": "null"}]})
    'number or null'
    >>> type_of({"type": "array", "items": {"$ref": "#/$defs/Line"}})
    'list of Line'
    """
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(type_of(each) for each in field["anyOf"]))
    kind = field.get("type", "anything")
    if kind == "array":
        return f"list of {type_of(field.get('items', {}))}"
    if kind == "object" and isinstance(field.get("additionalProperties"), Mapping):
        return f"object of {type_of(field['additionalProperties'])}"
    return str(kind)


def describe(field: Schema) -> str:
    """Return the description of a field and its bounds."""
    nested = [describe(each) for each in field.get("anyOf", ())]
    names = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than", "maxLength": "length at most",
             "maxItems": "items at most"}  # fmt: skip
    bounds = [f"{words} {field[key]}" for key, words in names.items() if key in field]
    said = [prose(field["description"])] if "description" in field else []
    return "; ".join(dict.fromkeys(part for part in (*said, *bounds, *nested) if part))
