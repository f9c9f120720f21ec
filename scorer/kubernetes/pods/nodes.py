"""Shell: the cluster's facts of its nodes, in Redis beside operators' rules (`schemas.names.Names.nodes`).

`listed` and `seen` note the wanted state; `write` makes Redis equal to it, in one transaction that also wakes the
scorers. A server that is away is tried again at a later call, and keeps no pod from the ledger. Only entries of this
cluster are replaced or deleted. Writing is not fenced: of two processes that both believe to hold the lease, the later
list wins, and the next event of a node sets it right. The loss of more than half of the nodes is not written
before a second list confirms it (`doubted`).
"""

import logging
import time
from collections.abc import Iterable

import msgspec
import redis

from schemas.messages.sample import Rejected
from schemas.names import Names
from schemas.values.read_json import by_name, read_or
from scorer.kubernetes.nodes_body import Node, rules_of, unreadable_amounts
from scorer.kubernetes.pods.metrics import Metrics
from scorer.kubernetes.pods_body import Bookmark
from scorer.kubernetes.pods_difference import is_doubtful
from scorer.ledger.record.instance import CLUSTER
from scorer.wire import AWAY, Command, Wire

log = logging.getLogger("windward.pods")

_AGAIN_S = 1.0
"""Least time between two tries to write to a server that is away."""


class _Entry(msgspec.Struct):
    labels: dict[str, str] = {}


class NodeFacts:
    """The entries of one cluster."""

    def __init__(self, wire: Wire, names: Names, cluster: str, metrics: Metrics) -> None:
        self._wire, self._names, self._cluster, self._metrics = wire, names, cluster, metrics
        self._wanted: dict[str, bytes] = {}
        self._stored: dict[str, bytes] | None = None
        """The entries in Redis; None: unknown."""
        self._again_s = 0.0
        self._refused: set[str] = set()
        self.doubted = False
        """Whether so many are gone that nothing is written before the nodes were listed once more."""
        self._believed = False

    def listed(self, nodes: Iterable[Node]) -> None:
        """Set the wanted state to these nodes and no others."""
        self._wanted, self._stored, self._refused = {}, None, set()
        self._believed, self.doubted = self.doubted, False
        for node in nodes:
            self._want(node)

    def seen(self, events: Iterable[tuple[str, Node | Bookmark]]) -> None:
        """Update the wanted state by events of a watch."""
        for kind, node in events:
            if isinstance(node, Bookmark):
                continue
            if kind == "DELETED":
                self._wanted.pop(node.metadata.name, None)
            else:
                self._want(node)

    def _want(self, node: Node) -> None:
        name = node.metadata.name
        try:
            self._wanted[name] = msgspec.json.encode(rules_of(node, self._cluster))
            reason = ", ".join(unreadable_amounts(node))
        except (Rejected, ValueError) as error:
            reason = str(error)
        if not reason:
            self._refused.discard(name)
        elif name not in self._refused:
            log.warning("pods.node.refused", extra={"values": {"node": name, "reason": reason}})
            self._refused.add(name)

    def write(self) -> None:
        """Make Redis equal to the wanted state, if it differs; a failure is logged, counted, and tried again later."""
        self._metrics.nodes_refused.set(len(self._refused))
        if self.doubted or self._stored == self._wanted or time.monotonic() < self._again_s:
            return
        try:
            if self._stored is None:
                self._stored = self._read()
            gone = [name for name in self._stored if name not in self._wanted]
            if not self._believed and is_doubtful(len(gone), len(self._stored)):
                self.doubted = True
                log.warning("pods.nodes.doubted", extra={"values": {"gone": len(gone), "before": len(self._stored)}})
                return
            self._write(self._stored, gone)
            self._stored = dict(self._wanted)
            self._metrics.nodes.set(len(self._wanted))
        except (*AWAY, redis.ResponseError) as error:
            self._stored, self._again_s = None, time.monotonic() + _AGAIN_S
            self._wire.close()
            self._metrics.nodes_failed.inc()
            log.warning("pods.nodes.failed", extra={"values": {"error": f"{type(error).__name__}: {error}"}})

    def _read(self) -> dict[str, bytes]:
        found = by_name(self._wire.one("HGETALL", self._names.nodes))
        clusters = {name: read_or(raw, _Entry, _Entry()).labels.get(CLUSTER) for name, raw in found.items()}
        return {name: raw for name, raw in found.items() if name in self._wanted or clusters[name] == self._cluster}

    def _write(self, stored: dict[str, bytes], gone: list[str]) -> None:
        changed = [part for name, raw in self._wanted.items() if stored.get(name) != raw for part in (name, raw)]
        if not changed and not gone:
            return
        names = self._names
        commands: list[Command] = [("MULTI",)]
        commands += [("HSET", names.nodes, *changed)] if changed else []
        commands += [("HDEL", names.nodes, *gone)] if gone else []
        commands += [("INCR", names.operator_version), ("PUBLISH", names.changed, ""), ("EXEC",)]
        done = self._wire.all(*commands)[-1]
        if wrong := next((one for one in done if isinstance(one, redis.ResponseError)), None):
            raise wrong
        log.info("pods.nodes.written", extra={"values": {"changed": len(changed) // 2, "gone": len(gone)}})

    def close(self) -> None:
        self._wire.close()
