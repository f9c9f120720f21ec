"""The AsyncAPI document is that of the types, complete, and valid."""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import schemas
from schemas.asyncapi import CODES, FILE, document
from schemas.rpc.envelope import Code, Query, Reply
from schemas.rpc.parameters import RPC
from tests.rows import each_row

SPECIFICATION = os.environ.get("WINDWARD_TEST_ASYNCAPI", "")
"""The JSON Schema of AsyncAPI 3.0, which `.ci/run` fetches."""
DOCUMENT = document()


def test_the_file_is_current() -> None:
    """``python -m schemas.asyncapi`` writes it; commit what it wrote."""
    path = Path(schemas.__file__).parent / FILE
    assert path.read_text() == json.dumps(DOCUMENT, indent=2) + "\n", "run python -m schemas.asyncapi"


def test_every_method_and_every_error_is_in_it() -> None:
    """Those of the tables, and no others."""
    assert set(DOCUMENT["operations"]) == set(RPC)
    assert set(CODES) == set(typing.get_args(Code))


def references(part: Any) -> Iterator[str]:
    """Yield every reference."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from references(each)
    elif isinstance(part, list):
        for each in part:
            yield from references(each)


def test_every_reference_leads_somewhere() -> None:
    """Inside the document."""
    found = set(references(DOCUMENT))
    assert len(found) > len(RPC)
    for reference in found:
        part = DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
        assert part


def allowed(message: str, payload: object) -> bool:
    """Whether a payload is one of a message."""
    schema = DOCUMENT["components"]["messages"][message]["payload"]
    return jsonschema.Draft7Validator(schema | {"components": DOCUMENT["components"]}).is_valid(payload)


@each_row("method", RPC)
def test_the_example_of_a_method_is_taken(method: str) -> None:
    """By the document and by the scorer's own types; another method's is not."""
    (example,) = DOCUMENT["components"]["messages"][f"{method}.query"]["examples"]
    assert allowed(f"{method}.query", example["payload"])
    assert not allowed(f"{method}.query", example["payload"] | {"method": "another"})
    assert not allowed(f"{method}.query", example["payload"] | {"params": {"memroy": 1}})
    query = msgspec.convert(example["payload"] | {"params": msgspec.Raw(b"{}")}, Query)
    assert query.method == method
    msgspec.json.decode(msgspec.json.encode(example["payload"]["params"]), type=RPC[method].parameters)


def test_the_example_of_an_error_is_one() -> None:
    """And no result of a method."""
    (example,) = DOCUMENT["components"]["messages"]["error"]["examples"]
    assert allowed("error", example["payload"])
    assert not allowed("health.reply", example["payload"])
    assert not allowed("error", {"v": 1, "id": "q1", "ok": False})
    assert msgspec.json.decode(msgspec.json.encode(example["payload"]), type=Reply).error


@pytest.mark.skipif(not SPECIFICATION, reason="NOT RUN: WINDWARD_TEST_ASYNCAPI names no JSON Schema of AsyncAPI 3.0")
def test_the_document_is_valid_by_its_specification() -> None:
    """The project AsyncAPI publishes the schema as an npm package."""
    schema = json.loads(Path(SPECIFICATION).read_text())
    problems = [error.message[:200] for error in jsonschema.Draft7Validator(schema).iter_errors(DOCUMENT)]
    assert not problems
    broken = DOCUMENT | {"channels": {"queries": {"address": 3}}}
    assert not jsonschema.Draft7Validator(schema).is_valid(broken)
