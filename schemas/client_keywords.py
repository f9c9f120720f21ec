"""Makes `schemas.rpc.keywords`: ``python -m schemas.client_keywords`` writes it.

The keywords of the client's methods are TypedDicts, made from the JSON Schema of each method's parameters: an editor
completes them, and a type checker finds a keyword that there is not. They are in git, since a type checker reads a
checkout as it is. A test checks that they are current.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

import schemas
from schemas.resources import RESOURCES
from schemas.rpc.parameters import RPC

KEYWORDS = Path(schemas.__file__).parent / "rpc" / "keywords.py"
_NAMES = {"Request": "RequestFields", "MachineList": "MachinesFields"}
_SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_HEAD = '''"""The keywords of the client's methods, by method; made by ``python -m schemas.client_keywords``."""

from collections.abc import Mapping, Sequence
from typing import Literal, Required, TypedDict


class Amounts:
    """An amount of each resource: what a type checker knows of `schemas.rpc.results.InstanceRow`."""

'''
_PLACE = '''class PlaceFields(RequestFields, total=False):
    instances: Sequence[RequestFields]
    """Unlike requests, one an instance."""
'''


def client_keywords() -> str:
    """Return the module: the TypedDicts of the methods' keywords, after the TypedDicts that they refer to."""
    parameters = [one.parameters for one in RPC.values() if one.parameters.__struct_fields__]
    _, parts = msgspec.json.schema_components(list(dict.fromkeys(parameters)), ref_template="{name}")
    methods = {one.__name__ for one in parameters}
    texts = [_HEAD + "".join(f"    {name}: float\n" for name in RESOURCES)]
    texts += [_typed_dict(name, part) for name, part in parts.items() if name not in methods]
    for one in dict.fromkeys(parameters):
        base = next((other.__name__ for other in one.__mro__[1:] if other in parameters), "")
        texts.append(_typed_dict(one.__name__, parts[one.__name__], base, parts.get(base, {}).get("properties", ())))
    return "\n\n".join([*texts, _PLACE])


def _typed_dict(name: str, part: dict[str, Any], base: str = "", known: Collection[str] = ()) -> str:
    """Return the TypedDict of a Struct; a derived one declares only the fields that its base ``known`` lacks."""
    lines = [f"class {_named(name)}({_named(base) if base else 'TypedDict'}, total=False):"]
    about = part["description"].splitlines()[0]
    if about != f"The parameters of ``{name.lower()}``.":
        lines += [f'    """{about}"""', ""]
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


if __name__ == "__main__":
    KEYWORDS.write_text(client_keywords())
