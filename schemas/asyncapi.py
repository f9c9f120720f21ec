"""The RPC as an AsyncAPI 3 document: ``python -m schemas.asyncapi`` writes the file ``asyncapi.v1.json`` beside this.

It is made from the types of the JSON Schema files, never edited; a test checks that it is current. For each method it
has the list and the message of the query, those of the reply, and the errors. Tools for AsyncAPI generate
documentation, types and clients from it.

The document describes the scorer: it receives queries and sends replies. Redis lists have no binding in AsyncAPI, so
which command to use is in ``x-redis`` of each channel.
"""

from __future__ import annotations

import json
import sys
import typing
from pathlib import Path
from typing import Any

from schemas.json_schema import TYPES, schema_file
from schemas.messages.event import EVENTS
from schemas.names import Names
from schemas.rpc.envelope import DEADLINE_MAX_S, REPLY_BYTES, REPLY_TTL_S, VERSION, Code
from schemas.rpc.parameters import OPERATORS, RPC

FILE = "asyncapi.v1.json"
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
Schema = dict[str, Any]


def document() -> Schema:
    """Return the document; raises ValueError where two types of one name differ."""
    schemas = _schemas()
    messages: Schema = {}
    operations: Schema = {}
    for method in RPC:
        messages[f"{method}.query"] = _query(method)
        messages[f"{method}.reply"] = _reply(method)
        operations[method] = {
            "action": "receive",
            "summary": RPC[method].summary,
            "channel": {"$ref": f"#/channels/{_list_of(method)}"},
            "messages": [{"$ref": f"#/channels/{_list_of(method)}/messages/{method}"}],
            "reply": {
                "channel": {"$ref": "#/channels/replies"},
                "messages": [{"$ref": f"#/channels/replies/messages/{each}"} for each in (method, "error")],
            },
        }
    messages["error"] = _error()
    messages["move"] = _move()
    messages["change"] = _change()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Windward's scorer",
            "version": f"{VERSION}.0.0",
            "description": "Chooses the machine of the next instance. Redis is the wire: push a query on a list, "
            "pop the answer from the list of its id. A query acts once, by its id, and never after its deadline. "
            '"No machine fits" is an answer, not an error.',
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"redis": {"host": "localhost:6379", "protocol": "redis", "description": "Redis or Valkey"}},
        "channels": _channels(),
        "operations": operations,
        "components": {"schemas": schemas, "messages": messages},
    }


def _schemas() -> Schema:
    """Return every type by its name, as in the JSON Schema files."""
    found: Schema = {}
    for name in TYPES:
        if name.startswith(("sample.", "operator.", "proposal.", "event.")):
            continue
        for part, definition in json.loads(schema_file(name))["$defs"].items():
            moved = json.loads(json.dumps(definition).replace('"#/$defs/', '"#/components/schemas/'))
            if found.setdefault(part, moved) != moved:
                raise ValueError(f"{name}: {part} is not what another file says it is")
    found["Error"]["properties"]["code"]["x-meanings"] = {code: CODES[code] for code in typing.get_args(Code)}
    return found


def _list_of(method: str) -> str:
    return "operators" if method in OPERATORS else "queries"


def _channels() -> Schema:
    names = Names("{prefix}")
    prefix = {"prefix": {"default": "windward", "description": "separates two fleets on one server"}}
    queries: dict[str, Schema] = {"queries": {}, "operators": {}}
    for method in RPC:
        queries[_list_of(method)][method] = {"$ref": f"#/components/messages/{method}.query"}
    replies = {method: {"$ref": f"#/components/messages/{method}.reply"} for method in RPC}
    return {
        "queries": {
            "address": names.queries,
            "description": "A list. Any scorer takes the query that has waited longest; one that is sent again under "
            "its id acts once.",
            "parameters": prefix,
            "messages": queries["queries"],
            "x-redis": {"type": "list", "send": "LPUSH"},
        },
        "operators": {
            "address": names.operator_queries,
            "description": "The list of the methods that change or plan machines. A query says nothing of its caller: "
            "who may push on this list is an operator. The same query on the other list is refused.",
            "parameters": prefix,
            "messages": queries["operators"],
            "x-redis": {"type": "list", "send": "LPUSH"},
        },
        "replies": {
            "address": names.reply("{id}"),
            "description": f"A list of one answer, kept for {REPLY_TTL_S} s, shorter above {REPLY_BYTES // 1024} KiB.",
            "parameters": prefix
            | {"id": {"location": "$message.payload#/id", "description": "the query's id, which the reply repeats"}},
            "messages": replies | {"error": {"$ref": "#/components/messages/error"}},
            "x-redis": {"type": "list", "receive": "BLPOP"},
        },
        "moves": {
            "address": names.moves_waiting,
            "description": f"A list of moves that the planner proposes. A program that carries them out moves one "
            f"to {names.moves_taken}, ignores it when {names.moves_fence} has another number than its fence, and "
            "removes it from that list when it is done.",
            "parameters": prefix,
            "messages": {"move": {"$ref": "#/components/messages/move"}},
            "x-redis": {"type": "list", "receive": "BLMOVE", "acknowledge": "LREM"},
        },
        "events": {
            "address": names.ledger("log"),
            "description": "A stream, bounded: each change of an instance, in order. The id of an entry is the number "
            "of its last change; the version of a record is that of its own, without gaps: a reader that finds a "
            f"later one than the next has missed some. Another epoch in the hash {names.ledger('head')} is another "
            "ledger; a smaller change there than one that was read is a ledger that has lost its end.",
            "parameters": prefix,
            "messages": {"change": {"$ref": "#/components/messages/change"}},
            "x-redis": {"type": "stream", "receive": "XREAD", "last": f"HMGET {names.ledger('head')} epoch change"},
        },
    }


def _query(method: str) -> Schema:
    kind = RPC[method].parameters
    params = {"$ref": f"#/components/schemas/{kind.__name__}"}
    narrowed = {"properties": {"method": {"const": method}, "params": params}}
    example = {"v": VERSION, "id": "q1", "method": method, "deadline": 1790000000, "params": EXAMPLES.get(method, {})}
    return {
        "name": f"{method}.query",
        "title": f"{method}: the query",
        "summary": f"The deadline is at most {DEADLINE_MAX_S:.0f} s ahead.",
        "payload": {"allOf": [{"$ref": "#/components/schemas/Query"}, narrowed]},
        "examples": [{"name": method, "payload": example}],
    }


def _reply(method: str) -> Schema:
    result = {"$ref": f"#/components/schemas/{RPC[method].result.__name__}"}
    narrowed = {"required": ["result"], "properties": {"ok": {"const": True}, "result": result}}
    return {
        "name": f"{method}.reply",
        "title": f"{method}: its result",
        "payload": {"allOf": [{"$ref": "#/components/schemas/Reply"}, narrowed]},
    }


def _error() -> Schema:
    narrowed = {"required": ["error"], "properties": {"ok": {"const": False}}}
    payload = {"v": VERSION, "id": "q1", "ok": False, "error": {"code": "NOT_FOUND", "message": "no instance 'db-1'"}}
    return {
        "name": "error",
        "title": "why a call failed",
        "payload": {"allOf": [{"$ref": "#/components/schemas/Reply"}, narrowed]},
        "examples": [{"name": "error", "payload": payload}],
    }


def _move() -> Schema:
    payload = {
        "v": VERSION, "id": "7-1790000000-0", "fence": 7, "at": 1790000000, "expires_at": 1790000600, "attempt": 1,
        "instance": "db-1", "generation": 3, "source": "m1", "target": "m2", "gain": 0.012, "copy_s": 41,
        "copy_bytes": 2.6e9, "reason": "overload of the source 0.0195 -> 0.0001",
    }  # fmt: skip
    return {
        "name": "move",
        "title": "one instance that should move",
        "payload": json.loads(schema_file("proposal.v1.schema.json"))["$defs"]["MoveProposal"],
        "examples": [{"name": "move", "payload": payload}],
    }


def _change() -> Schema:
    """Return the message of an entry of the log: its fields, of which `i` may come several times."""
    event = json.loads(schema_file("event.v1.schema.json"))["$defs"]["Event"]
    machines = {
        name: {"type": "string", "description": said}
        for name, said in (
            ("source", "of moved: the machine before"), ("renamed", "of renamed: the machine's name before"),
            ("target", "of stayed: the machine that it was to move to"), ("why", "where the event does not say it"),
        )
    }  # fmt: skip
    record = {"type": "string", "contentMediaType": "application/json", "description": "the record after the change"}
    said = {"type": "string", "enum": [one for one in EVENTS if one != "gap"], "x-meanings": EVENTS}
    fields: Schema = {
        "i": {"type": "array", "items": record, "minItems": 1},
        "event": {**said, "description": "absent: each record is a new reservation, placed at its reserved_at"},
        "at": {"type": "string", "description": "epoch seconds by the clock of the server"},
        **machines,
    }
    payload = {
        "i": ['{"version":57,"generation":3,"state":"confirmed","machine":"m2","started_at":1790000000.2,"id":"db-1"}'],
        "event": "moved", "at": "1790000000.200000", "source": "m1",
    }  # fmt: skip
    return {
        "name": "change",
        "title": "what happened to an instance",
        "summary": "The fields of an entry; `windward events --json` and the Python client's `events` give each as "
        "one object (x-event).",
        "payload": {"type": "object", "required": ["i"], "properties": fields},
        "examples": [{"name": "change", "payload": payload}],
        "x-event": event,
    }


def main() -> int:
    """Write the file."""
    Path(__file__).with_name(FILE).write_text(json.dumps(document(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
