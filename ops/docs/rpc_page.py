"""The RPC, written from its AsyncAPI document: the envelope, errors, and each method with parameters and result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ops.docs.markdown import table

Schema = Mapping[str, Any]

HEAD = """# The RPC

Redis is the wire. A query is one JSON text pushed on the list `windward:v1:queries`; its answer is popped from the list
`windward:v1:reply:ID`. Every call acts once, by its id, and not after its deadline. "No machine fits" is an answer, not
an error.

```
LPUSH windward:v1:queries '{"v": 1, "id": "q1", "method": "rank", "deadline": 1790000000, "params": {"cpu": 2}}'
BLPOP windward:v1:reply:q1 5
```

Methods for operators (`cordon`, `uncordon`, `drain`, `plan`, `rebalance`) go on the list `windward:v1:queries:operators` instead, on which Redis lets
operators alone push; on the other list they are refused.

Fields that a reader does not know are ignored; fields that a request does not have are refused. All of this page is
made from [asyncapi.v1.json](asyncapi.v1.json), an [AsyncAPI](https://www.asyncapi.com) 3 document that tools read, and
that is made from the code; `schemas/*.v1.schema.json` holds each message as JSON Schema. [Clients](clients.md) in
several languages are there.
"""


def page(document: Schema) -> str:
    """Return the page of an AsyncAPI document."""
    schemas = document["components"]["schemas"]
    meanings = schemas["Error"]["properties"]["code"]["x-meanings"]
    parts = [HEAD, "## Methods", _methods(document)]
    parts += ["## Errors", table(["code", "when"], [[f"`{code}`", about] for code, about in meanings.items()])]
    for method, operation in document["operations"].items():
        (example,) = document["components"]["messages"][f"{method}.query"]["examples"]
        takes, gives = (f"[{kind}](#{kind.lower()})" for kind in _types(document, method))
        about = f"{operation['summary'].capitalize()}. It takes {takes} and returns {gives}."
        parts += [f"## {method}", about, f"```json\n{json.dumps(example['payload'])}\n```"]
    parts += [*_events(document), "## Types", "What a query, a reply and their parts consist of."]
    for name, schema in schemas.items():
        parts += [f"### {name}", *(section(schema) or ["None."])]
    return "\n\n".join(parts) + "\n"


def _events(document: Schema) -> list[str]:
    """Return what there is to read besides answers: the stream of events."""
    channel, change = document["channels"]["events"], document["components"]["messages"]["change"]
    address, description = (channel[name].replace("{prefix}", "windward") for name in ("address", "description"))
    meanings = change["payload"]["properties"]["event"]["x-meanings"]
    return [
        "## Events",
        f"What happens to instances is on the stream `{address}`. {description}",
        table(["event", "what it says"], [[f"`{event}`", said] for event, said in meanings.items()]),
        "### Fields of an entry", *section(change["payload"]),
        "### Event: the same from `windward events --json` and the Python clients", *section(change["x-event"]),
    ]  # fmt: skip


def _methods(document: Schema) -> str:
    rows = []
    for method, operation in document["operations"].items():
        taken, result = _types(document, method)
        rows.append([f"[`{method}`](#{method})", operation["summary"], f"`{taken}`", f"`{result}`"])
    return table(["method", "does", "parameters", "result"], rows)


def _types(document: Schema, method: str) -> tuple[str, str]:
    messages = document["components"]["messages"]
    parts = ((messages[f"{method}.query"], "params"), (messages[f"{method}.reply"], "result"))
    taken, result = (message["payload"]["allOf"][1]["properties"][name]["$ref"] for message, name in parts)
    return taken.rpartition("/")[2], result.rpartition("/")[2]


def section(definition: Schema) -> list[str]:
    """Return the description and the table of fields of one object."""
    required = set(definition.get("required", ()))
    rows = [
        [f"`{name}`", type_of(field), "required" if name in required else _given(field), _describe(field)]
        for name, field in definition.get("properties", {}).items()
    ]
    found = [definition["description"]] if definition.get("description") else []
    return [*found, table(["field", "type", "default", ""], rows)] if rows else found


def _given(field: Schema) -> str:
    return f"`{json.dumps(field['default'])}`" if "default" in field else ""


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


def _describe(field: Schema) -> str:
    nested = [_describe(each) for each in field.get("anyOf", ())]
    names = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than", "maxLength": "length at most",
             "maxItems": "items at most"}  # fmt: skip
    bounds = [f"{words} {field[key]}" for key, words in names.items() if key in field]
    said = [field["description"]] if "description" in field else []
    return "; ".join(dict.fromkeys(part for part in (*said, *bounds, *nested) if part))
