"""Shell: lists and watches pods and nodes of a cluster under the lease `pods`, and writes what changed to the ledger.

    another holds the lease      wait for it
    this one holds it            read the ledger's ids -> list, page by page -> release what is in no page -> watch
    any error, a lost lease      begin again
    a list without most of them  told, asked for once more, and only then believed

Each page, and each lot of events, is compared with the records of its own pods, read just before. Chosen over a copy of
the ledger: 150,000 ids are 20 MB where their instances are 200 MB, and changes by others meanwhile are seen. All
writing is done with the lease's number, and the ledger refuses an older one: a process that was suspended or cut off
does not know that it lost the lease; its old list changes and releases nothing.
"""

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Generic, Self

import msgspec
import redis

from schemas.messages.sample import Rejected
from schemas.names import Names
from schemas.process.metrics import Table, counter, gauge
from schemas.process.redis_url import in_words
from schemas.values.read_json import by_name, read_or
from scorer.kubernetes.nodes_body import Node, rules_of, unreadable_amounts
from scorer.kubernetes.pods_api import NODES, PAGE, PODS, ApiError, ApiServer, Listed, Objects
from scorer.kubernetes.pods_body import Bookmark, Pod
from scorer.kubernetes.pods_difference import Changes, changes, ids_of, ids_of_cluster, is_doubtful
from scorer.kubernetes.pods_request import Reading
from scorer.ledger.record.instance import CLUSTER, Instance
from scorer.ledger.record.transition import Held, Overtaken, UnknownFormat
from scorer.ledger.store.reconcile import Difference, apply
from scorer.ledger.store.scripts import Lease
from scorer.wire import AWAY, Command, Wire

CHANGES = ("confirmed", "corrected", "released")
LISTS = ("done", "failed")


class Metrics(Table):
    """The metrics of `windward pods`, in a registry of their own; every known label begins at 0."""

    PROCESS = "pods"

    changes = counter("windward_pods_changes", "Instances written to the ledger, by change", change=CHANGES)
    lists = counter("windward_pods_lists", "Lists of all pods, by result", result=LISTS)
    list_s = gauge("windward_pods_list_seconds", "How long the last list took, until it was written")
    refused = gauge("windward_pods_refused", "Running pods that cannot be in the ledger")
    leads = gauge("windward_pods_leads", "1 while this process holds the lease")
    up = gauge("windward_pods_up", "1 while it watches, or waits for the lease")
    heard = gauge(
        "windward_pods_heard_timestamp_seconds", "When the API server said something last to the one that leads"
    )
    nodes = gauge("windward_pods_nodes", "Nodes whose facts are in Redis")
    nodes_refused = gauge("windward_pods_nodes_refused", "Nodes whose facts cannot be read")
    nodes_failed = counter("windward_pods_nodes_failures", "Tries to write nodes' facts that failed")


log = logging.getLogger("windward.pods")

STANDBY_S = 1.0
"""Time between two tries of a process that waits for the lease."""
_AGAIN_S = 0.5
_AGAIN_S_MAX = 15.0
"""Pause after an error, and after many in a row: each is followed by a list."""
_STEADY_S = 60.0
"""A watch that lasted so long ends a row of errors."""
_NAMED_MAX = 20
_REFUSED_MAX = 10_000
_WRITE_AGAIN_S = 1.0
"""Least time between two tries to write nodes' facts to a server that is away."""
TAKEN_MAX = 500
"""The most events that are taken together."""
WAITING_MAX = 2_000
_SHORT_S = 1.0
"""The shortest time between two watches: a server, or a proxy, may end each one at once."""


class _Stopped(Exception):
    """The process was told to end while it lists."""


class PodsWatcher:
    """Call `turn` in a loop; it returns how long to wait before the next call."""

    def __init__(self, lease: Lease, api: ApiServer, how: Reading, metrics: Metrics, nodes: "NodeFacts") -> None:
        self._ledger, self._api, self._how, self._metrics, self._nodes = lease.ledger, api, how, metrics, nodes
        self._lease, self._renew_s = lease, lease.lasts_s / 4
        self._failures = 0
        self._renewed_s = 0.0
        self._epoch = b""
        self._held: Held | None = None
        self._refused: dict[str, str] = {}
        self._stopping: Callable[[], bool] = bool
        self.trouble = ""
        """Why the pods cannot be followed; "" while they are, or another process holds the lease."""
        self.watches = False
        """Whether the ledger had all pods of a list, and follows them since."""

    @property
    def leads(self) -> bool:
        """Whether this process holds the lease."""
        return self._held is not None

    def turn(self, stop: threading.Event) -> float:
        """Take the lease; with it list and watch until an error or ``stop``. Return the seconds until the next turn."""
        try:
            self._take()
            if self._held is None:
                self._well()
                return STANDBY_S
            self._stopping = stop.is_set
            self._follow(stop)
        except _Stopped:
            return 0.0
        except Overtaken as error:
            self._failed("pods.overtaken", str(error))
        except ApiError as error:
            self._failed("pods.api.failed", str(error))
            if self._failures > 1:  # another process may reach it
                self._give_up()
        except (*AWAY, UnknownFormat, redis.ResponseError) as error:
            self._ledger.wire.close()
            self._failed("pods.ledger.failed", f"{type(error).__name__}: {in_words(error)}")
        self.watches = False
        return min(_AGAIN_S * 2.0 ** min(self._failures - 1, 10), _AGAIN_S_MAX)

    def stop(self) -> None:
        """Give the lease up, so that another process takes it at once."""
        if self._held is not None:
            self._give_up()

    def _take(self) -> None:
        number = self._lease.take()
        self._renewed_s = time.monotonic()
        held = None if number is None else Held(self._lease.name, number)
        if held != self._held:
            log.info("pods.lease", extra={"values": {"leads": held is not None, "number": number or 0}})
        self._held = held
        self._metrics.leads.set(held is not None)

    def _keep(self) -> Held:
        """Renew the lease when it is time. Raises Overtaken when it was lost meanwhile, or the ledger was replaced."""
        if self._stopping():
            raise _Stopped
        held = self._held
        if time.monotonic() > self._renewed_s + self._renew_s:
            self._take()
            if self._ledger.wire.one("HGET", self._ledger.head, "epoch") != self._epoch:
                raise Overtaken("the ledger has begun anew")
        if held is None or self._held != held:
            raise Overtaken("another has taken the lease, or might have")
        return held

    def _give_up(self) -> None:
        self._held = None
        self._metrics.leads.set(0)
        try:
            self._lease.give_up()
        except (*AWAY, UnknownFormat, redis.ResponseError):
            log.warning("pods.lease.kept", extra={"values": {"error": "the ledger is away; the lease runs out"}})

    def _follow(self, stop: threading.Event) -> None:
        self._ledger.open()
        self._epoch = self._ledger.wire.one("HGET", self._ledger.head, "epoch")
        nodes_version = self._list_nodes()
        version = self._list()
        self.watches, began_s = True, time.monotonic()
        with Watch(self._api, PODS, version) as watch, Watch(self._api, NODES, nodes_version) as nodes:
            self._well()
            while not stop.is_set():
                events = watch.take(min(self._renew_s, 0.5))
                self._nodes.seen(nodes.take(0.0))
                self._nodes.write()
                if self._nodes.doubted:
                    raise ApiError("most nodes are gone by its events: they are listed once more")
                if time.monotonic() > began_s + _STEADY_S:
                    self._failures = 0
                if events:
                    self._metrics.heard.set_to_current_time()
                seen = [(kind, pod) for kind, pod in events if isinstance(pod, Pod)]
                held = self._keep()
                if seen:
                    found = changes(seen, self._records(pod for _, pod in seen), self._how)
                    for _, pod in seen:
                        self._refused.pop(pod.metadata.uid, None)
                    self._write(found, held)

    def _list_nodes(self) -> str:
        """Write the cluster's facts of its nodes; return the version of the list."""
        for _ in range(2):
            pages = list(self._api.pages(NODES))
            self._keep()
            self._nodes.listed(node for page in pages for node in page.items)
            self._nodes.write()
            if not self._nodes.doubted:
                break
        return pages[-1].metadata.resource_version

    def _list(self) -> str:
        """Make the ledger equal to a list; return its version."""
        began_s = time.monotonic()
        self._refused = {}
        try:
            gone = set[str]()
            for page in self._ledger.pages():
                self._keep()
                gone |= ids_of_cluster(page, self._how)
            before = len(gone)
            pods, version = self._list_pods(gone)
            if is_doubtful(len(gone), before):
                values = {"pods": pods, "gone": len(gone), "before": before}
                log.warning("pods.list.doubted", extra={"values": values})
                pods, version = self._list_pods(gone)
            ids = sorted(gone)
            for first in range(0, len(ids), PAGE):
                ended = self._ledger.live(ids[first : first + PAGE]).values()
                self._write(Changes(Difference([], [], list(ended), 0), {}, frozenset()), self._keep())
        except BaseException:
            self._metrics.lists.labels("failed").inc()
            raise
        seconds = round(time.monotonic() - began_s, 3)
        self._metrics.lists.labels("done").inc()
        self._metrics.list_s.set(seconds)
        self._metrics.heard.set_to_current_time()
        told = {"pods": pods, "gone": len(gone), "refused": len(self._refused), "version": version, "seconds": seconds}
        log.info("pods.listed", extra={"values": told})
        return version

    def _list_pods(self, gone: set[str]) -> tuple[int, str]:
        """Write the pods of a list, and take them from ``gone``; return their number, and the list's version."""
        pods, version = 0, ""
        for page in self._api.pages(PODS):
            found = changes([("ADDED", pod) for pod in page.items], self._records(page.items), self._how)
            gone -= found.running
            self._write(found, self._keep())
            pods, version = pods + len(page.items), page.metadata.resource_version
        return pods, version

    def _records(self, pods: Iterable[Pod]) -> dict[str, Instance]:
        return self._ledger.live([name for pod in pods for name in ids_of(pod)])

    def _write(self, found: Changes, held: Held) -> None:
        done = found.to_ledger
        apply(self._ledger, done, true_starts=True, lease=held, cluster=self._how.cluster)
        counts = (len(done.added), len(done.changed), len(done.gone))
        for change, count in zip(CHANGES, counts, strict=True):
            self._metrics.changes.labels(change).inc(count)
        for uid, why in found.refused.items():
            if len(self._refused) < _NAMED_MAX:
                log.warning("pods.refused", extra={"values": {"uid": uid, "reason": why}})
            if len(self._refused) < _REFUSED_MAX:
                self._refused[uid] = why
        self._metrics.refused.set(len(self._refused))

    def _well(self) -> None:
        if self.trouble:
            log.info("pods.well")
        self.trouble = ""
        self._metrics.up.set(1)

    def _failed(self, event: str, error: str) -> None:
        self._failures += 1
        self.trouble = error
        self._metrics.up.set(0)
        log.warning(event, extra={"values": {"error": error}})


class Watch(threading.Thread, Generic[Listed]):
    """The events of a watch, read by a thread of their own between ``start`` and `close`, or inside ``with``.

    A watch that ends, or is cut, between two events continues from the last version received. Any error is raised where
    events are taken. At most `WAITING_MAX` events wait; the API server ends a watch that does not read, which is an
    error as any other.
    """

    def __init__(self, api: ApiServer, of: Objects[Listed], version: str) -> None:
        super().__init__(name="watch", daemon=True)
        self._api, self._version = api, version
        self._of: Objects[Listed] = of
        self._waiting: queue.Queue[tuple[str, Listed | Bookmark] | Exception] = queue.Queue(WAITING_MAX)
        self._closed = threading.Event()
        self._socket: socket.socket | None = None

    def run(self) -> None:
        """Read until an error, or `close`."""
        try:
            while not self._closed.is_set():
                again_s = time.monotonic() + _SHORT_S
                for kind, one in self._api.watch(self._of, self._version, self._opened):
                    self._version = one.metadata.resource_version
                    self._waiting.put((kind, one))
                self._closed.wait(again_s - time.monotonic())
        except Exception as error:  # raised again by `take`
            self._waiting.put(error)

    def _opened(self, connection: socket.socket) -> None:
        self._socket = connection
        if self._closed.is_set():
            _shut(connection)

    def take(self, wait_s: float) -> list[tuple[str, Listed | Bookmark]]:
        """Return the events so far, none after the timeout. Raises the error that ended the watch."""
        found: list[tuple[str, Listed | Bookmark]] = []
        with suppress(queue.Empty):
            while len(found) < TAKEN_MAX:
                one = self._waiting.get(timeout=0.0 if found else wait_s)
                if isinstance(one, Exception):
                    self._waiting.put(one)
                    if not found:
                        raise one
                    break
                found.append(one)
        return found

    def close(self) -> None:
        """End the watch: its connection, and with it its thread."""
        self._closed.set()
        if self._socket is not None:
            _shut(self._socket)
        until_s = time.monotonic() + 5.0
        while self.is_alive() and time.monotonic() < until_s:
            with suppress(queue.Empty):
                self._waiting.get(timeout=0.01)  # the thread may wait for room

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shut(connection: socket.socket) -> None:
    """Shut a connection down below its TLS layer, which another thread is reading."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Entry(msgspec.Struct):
    labels: dict[str, str] = {}


class NodeFacts:
    """The cluster's facts of its nodes, in Redis beside operators' rules (`schemas.names.Names.nodes`).

    `listed` and `seen` note the wanted state; `write` makes Redis equal to it, in one transaction that also wakes the
    scorers. A server that is away is tried again at a later call, and keeps no pod from the ledger. Only entries of
    this cluster are replaced or deleted. Writing is not fenced: of two processes that both believe to hold the lease,
    the later list wins, and the next event of a node sets it right. The loss of more than half of the nodes is not
    written before a second list confirms it (`doubted`).
    """

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
            self._stored, self._again_s = None, time.monotonic() + _WRITE_AGAIN_S
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
