"""Write the JSON Schema files beside this module: ``python -m schemas.json_schema``.

They are generated from the message types, never edited; a test checks that they are current. A producer or deployer in
any language can validate against them:

| file                    | what it describes                                                    |
|-------------------------|----------------------------------------------------------------------|
| sample.v1.schema.json   | a message on the samples topic: ``sample`` or ``machine``            |
| query.v1.schema.json    | a call of the RPC, without its ``params``                            |
| request.v1.schema.json  | the ``params`` of ``place`` and ``rank``                             |
| METHOD.params.v1.schema.json | the ``params`` of every other method                             |
| reply.v1.schema.json    | the answer to a call, without its ``result``                         |
| operator.v1.schema.json | operators' rules for a machine                                       |
| proposal.v1.schema.json | a move that the planner proposes                                  |
| event.v1.schema.json    | what happened to an instance                                         |
| METHOD.result.v1.schema.json | the ``result`` of each method of the RPC                        |

A reader ignores unknown fields in samples, queries and replies, so those schemas allow further properties. A
request or an operator's entry with an unknown field is refused, so those two do not. A result has all its keys, so all
are required; a default is the value that a reader uses when one is left out. Rules that a schema cannot express (a
maximum below its mean, a time ahead of the record) are in `schemas.messages.sample.decode` and `streams.fold.batch`.
"""

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from schemas.messages.event import Event
from schemas.messages.operator import OperatorFacts
from schemas.messages.proposal import MoveProposal
from schemas.messages.sample import VERSION, Message, Sample
from schemas.resources import RESOURCES
from schemas.rpc.envelope import Query, Reply
from schemas.rpc.parameters import RPC
from schemas.rpc.request import Request

TYPES: dict[str, Any] = {
    "sample.v1.schema.json": Message,
    "query.v1.schema.json": Query,
    "request.v1.schema.json": Request,
    "reply.v1.schema.json": Reply,
    "operator.v1.schema.json": OperatorFacts,
    "proposal.v1.schema.json": MoveProposal,
    "event.v1.schema.json": Event,
    **{f"{name}.params.v1.schema.json": one.parameters for name, one in RPC.items() if one.parameters is not Request},
    **{f"{name}.result.v1.schema.json": one.result for name, one in RPC.items()},
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_file(name: str) -> str:
    schema = {"$schema": DIALECT, "title": name.removesuffix(".schema.json"), **msgspec.json.schema(TYPES[name])}
    for part in schema["$defs"].values():
        if "description" in part:  # since Python 3.13 a docstring comes without the indentation of its lines
            part["description"] = cleandoc(part["description"])
        if name.endswith(".result.v1.schema.json"):
            part["required"] = list(part["properties"])
        if "v" in part.get("properties", {}):
            part["properties"]["v"]["const"] = VERSION
        if part["title"] == Sample.__name__:
            part["anyOf"] = [{"required": [name], "properties": {name: {"type": "object"}}} for name in RESOURCES]
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    for name in TYPES:
        (Path(__file__).parent / name).write_text(schema_file(name))
