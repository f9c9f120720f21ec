"""What the client has of ours: ``python -m schemas.client_results`` writes it there.

The client is one file that imports nothing of ours, so it has copies, each part between two comments: of the Structs of
`schemas.rpc.results`, of `schemas.messages.event`, and of `schemas.process.redis_url`. In the copy every Struct is a
``Result`` of the client, which is read like a mapping, too, and all rows are decoded. Above them are the keywords of
each method, a TypedDict made from the JSON Schema of its parameters: an editor completes them, and a type checker finds
a keyword that there is not. A test checks that all are current.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

import schemas
from schemas.messages.event import Event
from schemas.process import redis_url
from schemas.resources import RESOURCES
from schemas.rpc import results
from schemas.rpc.parameters import RPC

CLIENT = Path(schemas.__file__).parents[1] / "scorer" / "client.py"
BEGIN = "# ---- made by `python -m schemas.client_results`: `schemas.process.redis_url`, `schemas.rpc.results`\n"
END = "# ---- end of what is made\n"
KEYWORDS = "# ---- made by `python -m schemas.client_results`: the keywords of the methods\n"
_NAMES = {"Request": "RequestFields", "MachineList": "MachinesFields"}
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_AMOUNTS = "".join(f"    {name}: float = 0.0\n" for name in RESOURCES)
_IN_THE_CLIENT = {
    "(msgspec.Struct, frozen=True, ": "(Result, ",
    ", frozen=True, ": ", ",
    "Rows[": "list[",
    "(_Amounts, kw_only=True):  # type: ignore[misc, call-arg]": "(Record, kw_only=True):",
    "    usage:": f"{_AMOUNTS}    usage:",
}


def client_results() -> str:
    """Return the Structs as the client has them."""
    kinds: list[type] = [
        one for one in vars(results).values() if inspect.isclass(one) and issubclass(one, msgspec.Struct)
    ]
    sources = [inspect.getsource(kind) for kind in [*kinds, Event] if kind is not results._Amounts]
    text = "\n\n".join(sources)
    for here, there in _IN_THE_CLIENT.items():
        text = text.replace(here, there)
    return text


def client_keywords() -> str:
    """Return the TypedDicts of the methods' keywords, those that they consist of first."""
    parameters = [one.parameters for one in RPC.values() if one.parameters.__struct_fields__]
    _, parts = msgspec.json.schema_components(list(dict.fromkeys(parameters)), ref_template="{name}")
    methods = {one.__name__ for one in parameters}
    texts = [_typed_dict(name, part) for name, part in parts.items() if name not in methods]
    for one in dict.fromkeys(parameters):
        base = next((other.__name__ for other in one.__mro__[1:] if other in parameters), "")
        texts.append(_typed_dict(one.__name__, parts[one.__name__], base, parts.get(base, {}).get("properties", ())))
    instances = '    instances: Sequence[RequestFields]\n    """Unlike requests, one an instance."""\n'
    texts.append(f'class PlaceFields(RequestFields, total=False):\n    """The keywords of ``place``."""\n\n{instances}')
    return "\n\n".join(texts)


def _typed_dict(name: str, part: dict[str, Any], base: str = "", known: Collection[str] = ()) -> str:
    """Return the TypedDict of a Struct; one that is derived from another has only the fields ``known`` lacks."""
    lines = [
        f"class {_named(name)}({_named(base) if base else 'TypedDict'}, total=False):",
        f'    """{part.get("description", "").splitlines()[0]}"""',
        "",
    ]
    for field, schema in part["properties"].items():
        if field in known or (field == "id" and name in ("Confirm", "Release", "Update")):
            continue  # it is the first argument
        kind = _typed(schema)
        lines.append(f"    {field}: {f'Required[{kind}]' if field in part.get('required', ()) else kind}")
        if said := schema.get("description"):
            lines.append(f'    """{said[0].upper()}{said[1:]}."""')
    return "\n".join(lines) + "\n"


def _named(struct: str) -> str:
    return _NAMES.get(struct, f"{struct}Fields")


def _typed(schema: dict[str, Any]) -> str:
    """Return the type of a value that JSON Schema describes.

    >>> _typed({"type": "array", "items": {"anyOf": [{"type": "number"}, {"$ref": "Affinity"}]}})
    'Sequence[float | AffinityFields]'
    """
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_typed(one) for one in schema["anyOf"]))
    if "$ref" in schema:
        return _named(schema["$ref"])
    if "enum" in schema:
        return "None" if schema["enum"] == [None] else f"Literal[{', '.join(map(json.dumps, schema['enum']))}]"
    if schema.get("type") == "array":
        return f"Sequence[{_typed(schema['items'])}]"
    if schema.get("type") == "object":
        return f"Mapping[str, {_typed(schema['additionalProperties']) if 'additionalProperties' in schema else 'Any'}]"
    return _SIMPLE[schema["type"]]


def client_redis_url() -> str:
    """Return the constants and functions of `schemas.process.redis_url`, without what comes before them."""
    return re.split(r"^from urllib.*\n\n", inspect.getsource(redis_url), flags=re.MULTILINE)[1]


def with_results(client: str) -> str:
    """Return the text of the client with the keywords and these copies, each between two comments."""
    copies = f"{client_redis_url()}\n\n{client_results()}"
    for begin, text in ((KEYWORDS, client_keywords()), (BEGIN, copies)):
        before, _, rest = client.partition(begin)
        client = f"{before}{begin}\n\n{text}\n\n{END}{rest.partition(END)[2]}"
    return client


def main() -> int:
    """Write the copies into the client."""
    CLIENT.write_text(with_results(CLIENT.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
