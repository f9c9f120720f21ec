"""Whoever reads JSON of another reads one that nests without end, too: each reader has its own error, and no other."""

import json
from pathlib import Path

import msgspec
import pytest

from ops.doctor.bundle import events_of
from ops.top.command import _in_words
from schemas.messages.operator import InvalidOperatorFacts, drained, known_operator_facts
from schemas.messages.process import read_processes, read_worker
from schemas.messages.proposal import read_proposal
from schemas.messages.sample import MachineFacts, Rejected, decode
from schemas.rpc.envelope import Query
from schemas.rpc.parameters import RPC
from schemas.rpc.request import InvalidRequest, read_request
from schemas.tables.learned import Learned, read_learned
from schemas.tables.window_table import TableError, decode_table
from schemas.values.read_json import DEPTH_MAX, read_as, read_json
from scorer.background.checker import LastCheck
from scorer.client import WindwardError
from scorer.client.call import read
from scorer.client.log import _Entry
from scorer.commands.instances.why import _object_in
from scorer.kubernetes.extender.protocol import read_args, read_binding
from scorer.kubernetes.nodes_body import read_node, read_nodes
from scorer.kubernetes.pods_api import _read_bookmark, _read_event
from scorer.kubernetes.pods_body import read_list, read_pod
from scorer.ledger.record.instance import record_or_none
from scorer.ledger.store.reconcile import InventoryError, read_inventory
from scorer.live.loader import Loader
from scorer.planning.wanted.requests import read_wanted
from scorer.rpc.loop import read_query
from scorer.rpc.methods.records import read_object, read_params
from streams.bridge.formats import node_exporter, otel, telegraf
from streams.bridge.formats.points import UnreadableError

KEYS = (
    "x", "labels", "params", "data", "metrics", "resourceMetrics", "spec", "metadata", "items", "object", "rules",
    "answer", "id", "machine", "taints", "instances", "details", "kinds", "uses", "tags", "fields", "state", "v",
    "type",
)  # fmt: skip
"""Where the nested value stands: under a name that no reader knows, and under others."""
DEPTHS = (70, 950, 2_000, 100_000)
HEADS = (
    {},
    {"v": 1, "id": "q", "method": "place", "type": "sample", "kind": "PodList", "apiVersion": "v1"},
    {"version": 1, "generation": 1, "state": "reserved", "machine": "m", "id": "i", "amounts": {}},
)


def query_of(raw):
    return Query(id="q", method="m", params=msgspec.Raw(raw))


def rpc(method):
    return lambda raw: read_params(
        RPC[method].parameters, read_object(Query(id="q", method=method, params=msgspec.Raw(raw)))
    )


class _Wire:
    def __init__(self, raw):
        self._raw = raw

    def one(self, *_):
        return self._raw


def _last_check(raw):
    found = object.__new__(LastCheck)
    found._wire, found._key = _Wire(raw), "checked"
    return found.read()


READERS = {
    "any value": (read_json, (msgspec.DecodeError,)),
    "a sample": (decode, (Rejected,)),
    "a query": (read_query, ()),
    "a request": (lambda raw: read_request(read_object(query_of(raw))), (InvalidRequest,)),
    **{f"parameters of {method}": (rpc(method), (InvalidRequest,)) for method in RPC},
    **{
        f"an answer of {method}": (lambda raw, kind=kind.result: read(kind, msgspec.Raw(raw)), (WindwardError,))
        for method, kind in RPC.items()
    },
    "the ledger's log": (lambda raw: _Entry((b"1-0", [b"i", raw])), (WindwardError,)),
    "a record": (record_or_none, ()),
    "an operator's rule": (
        lambda raw: known_operator_facts(read_json(raw)), (msgspec.DecodeError, InvalidOperatorFacts),
    ),
    "rules of operators": (lambda raw: Loader._rules_in([b"m", raw]), ()),
    "what is drained": (lambda raw: drained(raw, raw), ()),
    "the last check": (_last_check, ()),
    "heartbeats": (lambda raw: read_processes({b"\xff": raw}), ()),
    "a worker": (read_worker, ()),
    "a proposal": (read_proposal, ()),
    "learned": (read_learned, ()),
    "a table's header": (
        lambda raw: decode_table(b"WINDTBL\x01" + len(raw).to_bytes(4, "little") + raw), (TableError,)
    ),
    "an inventory": (lambda raw: read_inventory(raw.decode()), (InventoryError,)),
    "wanted instances": (lambda raw: read_wanted(raw.decode()), (ValueError,)),
    "a list of pods": (read_list, (msgspec.DecodeError,)),
    "a pod": (read_pod, (msgspec.DecodeError,)),
    "a list of nodes": (read_nodes, (msgspec.DecodeError,)),
    "a node": (read_node, (msgspec.DecodeError,)),
    "an event of a watch": (_read_event, (msgspec.DecodeError,)),
    "a bookmark": (_read_bookmark, (msgspec.DecodeError,)),
    "a scheduler's question": (read_args, (msgspec.DecodeError,)),
    "a scheduler's binding": (read_binding, (msgspec.DecodeError,)),
    "Prometheus' answer": (lambda raw: node_exporter.read_answer(raw, ""), (UnreadableError,)),
    "OTLP": (otel.read_points, (UnreadableError,)),
    "Telegraf's metric": (telegraf.read_points, (UnreadableError,)),
    "a log in a bundle": (lambda raw: events_of(raw.decode()), ()),
    "a decision in why": (lambda raw: _object_in({b"answer": raw}, b"answer"), (WindwardError,)),
    "a decision in top": (lambda raw: _in_words(b"place", raw), ()),
}  # fmt: skip
"""By what is read: the reader, and what it may raise."""


def nested(depth):
    """Return values so deep: alone, in objects, and under each key beside what a reader wants to see first."""
    deep = b"[" * depth + b"]" * depth
    found = [deep, b'{"a":' * depth + b"1" + b"}" * depth]
    for head in HEADS:
        rest = json.dumps(head).encode()[1:-1]
        found += [b"{" + (rest + b"," if rest else b"") + b'"' + key.encode() + b'":' + deep + b"}" for key in KEYS]
    return found


@pytest.mark.parametrize("name", READERS)
def test_a_value_that_nests_without_end_has_the_readers_own_error(name):
    act, errors = READERS[name]
    for raw in [one for depth in DEPTHS for one in nested(depth)]:
        try:
            act(raw)
        except errors:
            pass
        except Exception as error:
            pytest.fail(f"{type(error).__name__}: {str(error)[:100]} by {raw[:60]!r} ... {len(raw)} bytes")


READS_JSON = ("json.Decoder", "json.decode", "json.loads", "json.load(")


def test_json_is_read_nowhere_else():
    """A new place where JSON is parsed uses `schemas.values.read_json`, or is tried here."""
    known = {
        "schemas/messages/sample.py", "schemas/tables/window_table.py",
        "schemas/values/read_json.py", "scorer/client/call.py", "scorer/commands/machines/operator_facts.py",
        "scorer/planning/wanted/requests.py", "scorer/commands/shared/request.py",
        "scorer/kubernetes/evictor/evictor.py", "scorer/kubernetes/extender/protocol.py",
        "scorer/kubernetes/nodes_body.py", "scorer/kubernetes/pods_api.py", "scorer/kubernetes/pods_body.py",
        "scorer/ledger/record/instance.py", "scorer/ledger/store/reconcile.py", "scorer/rpc/methods/placements.py",
        "scorer/rpc/methods/records.py", "scorer/rpc/operator_rules.py", "scorer/rpc/loop.py",
        "streams/bridge/formats/node_exporter.py", "streams/bridge/formats/otel.py",
        "streams/bridge/formats/telegraf.py", "ops/cli/known.py", "ops/demo/command.py",
        "ops/docs/rpc_page.py", "ops/doctor/bundle.py",
        "ops/grafana/__main__.py", "ops/packages/__main__.py",
    }  # fmt: skip
    root = Path(__file__).parents[1]
    found = {
        path.relative_to(root).as_posix()
        for folder in ("schemas", "streams", "scorer", "ops")
        for path in (root / folder).rglob("*.py")
        if any(word in path.read_text() for word in READS_JSON)
    }
    assert found - known == set()
    assert not [name for name in found if "msgspec.json.decode(" in (root / name).read_text()], (
        "the one error is missing"
    )


DEEP = b"[" * 2_000 + b"]" * 2_000
LEFT_OUT = ("rules of operators", "what is drained", "the last check", "heartbeats", "a worker", "learned")
WRONG = {
    "deep": DEEP,
    "deep in a field": b'{"labels":' + DEEP + b"}",
    "deep in an unknown field": b'{"x":' + DEEP + b"}",
    "not UTF-8": b'"\xff"',
    "torn": b'{"a":',
    "empty": b"",
}


@pytest.mark.parametrize("raw", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("name", LEFT_OUT)
def test_no_entry_of_another_ends_a_reader(name, raw):
    """An entry that nests 2,000 deep is left out as one that is torn, or only its unknown field is (Python 3.13)."""
    found = READERS[name][0](raw)
    assert not found or found == Learned()


@pytest.mark.parametrize("raw", WRONG.values(), ids=WRONG)
def test_there_is_one_error(raw):
    for reads in (read_json, lambda given: read_as(given, MachineFacts)):
        with pytest.raises(msgspec.DecodeError):
            reads(raw)


@pytest.mark.parametrize("depth, good", [(DEPTH_MAX, True), (DEPTH_MAX + 1, False), (900, False)])
def test_depth_without_a_type_is_bounded(depth, good):
    """What the parser can read but others could not walk through is refused, in lists and in objects."""
    for raw in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        if good:
            assert read_json(raw)
        else:
            with pytest.raises(msgspec.DecodeError, match="deep"):
                read_json(raw)
