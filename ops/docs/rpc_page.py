"""The RPC, written from its types: the envelope, errors, and each method with parameters and result."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.json_schema import TYPES, schema_file
from schemas.messages.event import EVENTS
from schemas.names import Names
from schemas.rpc.envelope import VERSION
from schemas.rpc.parameters import RPC, Method

Schema = Mapping[str, Any]
CODES = {
    "INVALID_ARGUMENT": "a field of the query is wrong; the message names it",
    "NOT_FOUND": "no such instance, profile or machine",
    "ALREADY_EXISTS": "the id is live for another request",
    "ABORTED": "what the query had reserved has ended; a new query places anew",
    "FAILED_PRECONDITION": "the instance is not in a state for this step, or is another generation",
    "PERMISSION_DENIED": "the method is taken from the operators' list only, on which operators alone may push",
    "DEADLINE_EXCEEDED": "the query was taken after its deadline; nothing was done",
    "RESOURCE_EXHAUSTED": "no room for this update or move, or too many queries wait",
    "UNAVAILABLE": "the scorer cannot answer now; the same query may succeed later",
    "UNIMPLEMENTED": "this scorer has no such method",
    "INTERNAL": "a fault of the scorer; its log has more",
}
EXAMPLES: dict[str, dict[str, Any]] = {
    "place": {"id": "db-1", "cpu": 2, "memory": "10G"},
    "rank": {"cpu": 2, "memory": "10G"},
    "update": {"id": "db-1", "memory": "12G"},
    "confirm": {"id": "db-1"},
    "release": {"id": "db-1"},
    "cordon": {"machines": ["m7", "rack-3-*"]},
    "uncordon": {"machines": ["m7"]},
    "drain": {"machines": ["m7"], "apply": True},
    "rebalance": {"moves_max": 3},
    "plan": {"instances": [{"id": "db-1", "cpu": 2, "memory": "10G"}], "prune": True, "prune_labels": {"app": "db"}},
}
"""Params that a method takes; none for the others."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a table.

    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in (head, *rows)]
    lines = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


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

Fields that a reader does not know are ignored; fields that a request does not have are refused. This page is made
from the code; `schemas/*.v1.schema.json` holds each message as JSON Schema. [Clients](clients.md) in several languages
are there.
"""


def page() -> str:
    rows = [[f"[`{name}`](#{name})", one.summary, *(f"`{kind}`" for kind in _types(one))] for name, one in RPC.items()]
    parts = [HEAD, "## Methods", table(["method", "does", "parameters", "result"], rows)]
    parts += ["## Errors", table(["code", "when"], [[f"`{code}`", about] for code, about in CODES.items()])]
    for name, method in RPC.items():
        query = {"v": VERSION, "id": "q1", "method": name, "deadline": 1790000000, "params": EXAMPLES.get(name, {})}
        takes, gives = (f"[{kind}](#{kind.lower()})" for kind in _types(method))
        about = f"{method.summary.capitalize()}. It takes {takes} and returns {gives}."
        parts += [f"## {name}", about, f"```json\n{json.dumps(query)}\n```"]
    parts += [*_events(), "## Types", "What a query, a reply and their parts consist of."]
    for name, schema in types().items():
        parts += [f"### {name}", *(section(schema) or ["None."])]
    return "\n\n".join(parts) + "\n"


def types() -> dict[str, Schema]:
    """Return every type of a query and a reply by its name, as in the JSON Schema files."""
    found: dict[str, Schema] = {}
    for name in TYPES:
        if not name.startswith(("sample.", "operator.", "proposal.", "event.")):
            found |= json.loads(schema_file(name))["$defs"]
    return found


def _types(method: Method) -> tuple[str, str]:
    return method.parameters.__name__, method.result.__name__


def _events() -> list[str]:
    """Return the section on the stream of events, which is read from the ledger and not from a scorer."""
    names = Names()
    texts = {
        "event": "absent: each record is a new reservation, placed at its reserved_at",
        "at": "epoch seconds by the clock of the server",
        "source": "of moved: the machine before",
        "renamed": "of renamed: the machine's name before",
        "target": "of stayed: the machine that it was to move to",
        "why": "where the event does not say it",
    }
    entry: Schema = {
        "required": ["i"],
        "properties": {
            "i": {"type": "array", "items": {"type": "string"}, "description": "JSON of each record after the change"},
            **{name: {"type": "string", "description": about} for name, about in texts.items()},
        },
    }
    return [
        "## Events",
        f"What happens to instances is on the stream `{names.ledger('log')}`, bounded: each change of an instance, in "
        "order. The id of an entry is the number of its last change; the version of a record is that of its own, "
        "without gaps: a reader that finds a later one than the next has missed some. Another epoch in the hash "
        f"{names.ledger('head')} is another ledger; a smaller change there than one that was read is a ledger that has "
        "lost its end.",
        table(["event", "what it says"], [[f"`{event}`", about] for event, about in EVENTS.items()]),
        "### Fields of an entry",
        *section(entry),
        "### Event: the same from `windward events --json` and the Python clients",
        *section(json.loads(schema_file("event.v1.schema.json"))["$defs"]["Event"]),
    ]


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
