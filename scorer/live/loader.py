"""Shell: reads window tables, facts and operators' rules from Redis into a `scorer.snapshot.snapshot.Snapshot`.

A refresh without changes costs two short round trips: the counters and learned values, the head of the changes of each
partition. Only changes are read, and without any no snapshot is built. Usage by instance is read less often.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.messages.operator import OperatorFacts, above_nodes, known_operator_facts
from schemas.messages.process import BEAT_S, Pipeline, read_pipeline
from schemas.messages.sample import MachineFacts, Rejected, decode
from schemas.names import Names
from schemas.process.redis_url import connected
from schemas.tables.learned import Learned, read_learned
from schemas.tables.window_table import TableError, decode_table
from schemas.values.read_json import by_name, partition_count, read_json, whole
from scorer.cluster_wire import NotNow, WindowsWire
from scorer.live.windows_reader import HEAD_BYTES, HeadWatch, WindowsReader
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.usages import Usages, UsageTable
from scorer.wire import ANSWER_S, AWAY, Command, Wire, check_primary

log = logging.getLogger("windward.scorer")

USAGE_S = 5.0
"""Time between two reads of the usage by instance: the stream app writes it every 15 s."""


class UsageLoader:
    """Keeps the usage by instance; a refresh without changes costs one short read per partition."""

    def __init__(self, wire: WindowsWire, names: Names, look_s: float = USAGE_S) -> None:
        self._wire = wire
        self._look_s = look_s
        self._looked_at = -math.inf
        self._watch = HeadWatch(names.instance_usage)
        self._tables: dict[int, UsageTable] = {}
        self.refused: set[int] = set()
        """The partitions whose newest table cannot be read."""
        self.usages = Usages()

    def refresh(self, partitions: int) -> bool:
        """Read the changes, at most once in ``look_s``; return whether `usages` changed.

        A table that cannot be decoded is logged, and its last good version is kept. A table that the Redis user may not
        read counts as absent.
        """
        if time.monotonic() - self._looked_at < self._look_s:
            return False
        self._looked_at = time.monotonic()
        stale = self._watch.changed(self._ask, partitions)
        answers = self._ask([("GET", self._watch.key(partition)) for partition in stale])
        for partition, answer in zip(stale, answers, strict=True):
            if isinstance(answer, NotNow):
                continue  # the last one is kept
            raw = answer if partition < partitions else b""
            self._watch.note(partition, raw)
            self.refused.discard(partition)
            if not raw:
                self._tables.pop(partition, None)
                continue
            try:
                self._tables[partition] = UsageTable(decode_table(raw, partition), self._tables.get(partition))
            except TableError as error:
                self.refused.add(partition)
                log.warning("scorer.usage.refused", extra={"values": {"partition": partition, "error": str(error)}})
        if not stale:
            return False
        self.usages = Usages([self._tables[partition] for partition in sorted(self._tables)], self.usages)
        self.usages.columns.prepare()  # here, on the refresher's thread, so that no decision waits for it
        return True

    def _ask(self, commands: Sequence[Command]) -> list[Any]:
        answers = self._wire.ask(commands) if commands else []
        absent = redis.ResponseError, type(None)
        return [b"" if isinstance(one, absent) and not isinstance(one, NotNow) else one for one in answers]


class Loader:
    """Keeps the data of the last read; `refresh` returns a new snapshot when something changed, else None.

    Facts are read every ``facts_s`` at most, so that an agent that changes its labels all the time costs little.
    """

    def __init__(self, wire: Wire, names: Names, windows: WindowsWire | None = None, *, facts_s: float = 0.0) -> None:
        """``windows``: the wire to the windows' server, if it is a separate one."""
        self._facts_s = facts_s
        self._facts_read_at = -math.inf
        self.wire, self.windows = wire, wire if windows is None else windows
        self._names = names
        self._stored_count: bytes | None = None
        self._partitions = 0
        self._reader = WindowsReader(self._ask, names, self._written_up_to)
        self._facts_versions: dict[int, int] = {}
        self._facts_by_partition: dict[int, dict[str, MachineFacts]] = {}
        self._facts: Mapping[str, MachineFacts] = {}
        self.operator_version: bytes | None = b"unread"
        """That of the rules which the last read found."""
        self._operator: Mapping[str, OperatorFacts] = {}
        self._ledger_machines: Iterable[str] = ()
        self._learned_raw: bytes | None = None
        self._learned: Learned | None = None
        self._predicted_head: bytes = b""
        self._predicted: bytes | None = None
        self._pipeline = Pipeline()
        self._pipeline_read_at = -math.inf
        self._usage_loader = UsageLoader(self.windows, names)
        self._snapshot: Snapshot | None = None

    def refresh(self, ledger_machines: Iterable[str] = (), woken: Iterable[int] | None = None) -> Snapshot | None:
        """Read the changes. A table that cannot be read is logged, and its last good version is kept.

        ``woken``: the partitions whose windows changed; None: not known.

        Raises one of `scorer.wire.AWAY` when the server is away.
        """
        changed = self._snapshot is None
        changed |= self._read_pipeline()  # first: a failure here loses no change that another reader has seen
        if ledger_machines is not self._ledger_machines:
            self._ledger_machines = ledger_machines
            known = self._snapshot.roster.index if self._snapshot is not None else {}
            changed |= any(machine not in known for machine in ledger_machines)
        names = self._names
        counters, learned = (("GET", names.partitions), ("GET", names.operator_version)), names.learned
        asked = [*counters, ("GET", learned), ("GETRANGE", names.predicted, 0, HEAD_BYTES - 1)]
        answers = self.wire.ask(asked)
        count, operator_version = self._checked(answers[: len(counters)])
        partitions = self._count(count)
        changed |= self._reader.refresh(partitions, woken)
        changed |= self._read_facts()
        if operator_version != self.operator_version:
            rules, nodes = self.wire.ask([("HGETALL", names.operator), ("HGETALL", names.nodes)])
            self._checked([rules])
            said = [] if isinstance(nodes, redis.ResponseError) else nodes  # a user of before may not read them
            self._operator = above_nodes(self._rules_in(said), self._rules_in(rules))
            self.operator_version = operator_version
            changed = True
        changed |= self._read_learned(*answers[len(counters) :])
        changed |= self._usage_loader.refresh(partitions)
        if not changed:
            return None
        self._snapshot = build_snapshot(
            self._reader.windows,
            self._facts,
            self._operator,
            ledger_machines=ledger_machines,
            previous=self._snapshot,
        ).with_use(self._learned, self._usage_loader.usages, self._predicted, self._pipeline)
        return self._snapshot

    @property
    def refused(self) -> int:
        """The number of tables that could not be read, or belong to another partition, at the last read."""
        return len(self._reader.problems) + len(self._usage_loader.refused)

    def close(self) -> None:
        """Close the connections; the next refresh opens new ones."""
        self.wire.close()
        self.windows.close()

    def _count(self, stored: bytes | None) -> int:
        """Return the number of partitions; the last known one where the stored value is invalid or lost."""
        if stored != self._stored_count:
            self._stored_count, count = stored, partition_count(stored)
            if count is None:
                log.warning("scorer.partitions.refused", extra={"values": {"stored": repr(stored)[:80]}})
            elif stored is not None:
                self._partitions = count
        return self._partitions

    def _written_up_to(self, partition: int) -> int | None:
        (found,) = self.windows.ask([("HMGET", self._names.state(partition), "offset")])
        return None if isinstance(found, redis.ResponseError) else whole(found[0])

    def _ask(self, commands: Sequence[Command]) -> list[Any]:
        return self._checked(self.windows.ask(commands) if commands else [])

    @staticmethod
    def _checked(answers: list[Any]) -> list[Any]:
        for answer in answers:
            if isinstance(answer, redis.ResponseError) and not isinstance(answer, NotNow):
                raise redis.ConnectionError(f"windows: {answer}")
        return answers

    def _read_facts(self) -> bool:
        versions = {partition: one.header.facts for partition, one in self._reader.by_partition.items()}
        stale = [p for p, version in versions.items() if self._facts_versions.get(p) != version]
        gone = [p for p in self._facts_by_partition if p not in versions]
        if not stale and not gone:
            return False
        if time.monotonic() - self._facts_read_at < self._facts_s:
            return False  # they are still stale at the next refresh
        self._facts_read_at = time.monotonic()
        for partition in gone:
            del self._facts_by_partition[partition], self._facts_versions[partition]
        answers = self._ask([("HGETALL", self._names.facts(partition)) for partition in stale])
        for partition, flat in zip(stale, answers, strict=True):
            if isinstance(flat, NotNow):
                if self._snapshot is None:
                    raise redis.ConnectionError(f"windows: {flat}")
                continue
            self._facts_by_partition[partition] = dict(_read_facts(flat[1::2]))
            self._facts_versions[partition] = versions[partition]
        merged: dict[str, MachineFacts] = {}
        for facts in self._facts_by_partition.values():
            for name, said in facts.items():
                if name not in merged or said.at >= merged[name].at:
                    merged[name] = said
        self._facts = merged
        return True

    def _read_learned(self, *answers: bytes | redis.ResponseError | None) -> bool:
        """Read the learned value and the predicted peaks; without the right to read them there are none."""
        raw, head = (None if isinstance(one, redis.ResponseError) else one for one in answers)
        changed = self._read_predicted(head or b"")
        if raw == self._learned_raw:
            return changed
        self._learned_raw, self._learned = raw, read_learned(raw)
        if raw and self._learned is None:
            log.warning("scorer.learned.refused")
        return True

    def _read_predicted(self, head: bytes) -> bool:
        if head == self._predicted_head:
            return False
        self._predicted_head = head
        (raw,) = self.wire.ask([("GET", self._names.predicted)]) if head else (None,)
        self._predicted = None if isinstance(raw, redis.ResponseError) else raw
        return True

    def _read_pipeline(self) -> bool:
        """Read the heartbeats of the stream's workers; without the right to read them nothing is known."""
        if time.monotonic() - self._pipeline_read_at < BEAT_S:
            return False
        self._pipeline_read_at = time.monotonic()
        (flat,) = self.wire.ask([("HGETALL", self._names.processes("stream"))])
        before, known = self._pipeline, [] if isinstance(flat, redis.ResponseError) else flat
        self._pipeline = read_pipeline(dict(zip(known[::2], known[1::2], strict=True)))
        return self._pipeline != before

    @staticmethod
    def _rules_in(flat: Sequence[bytes]) -> dict[str, OperatorFacts]:
        operator: dict[str, OperatorFacts] = {}
        for machine, raw in by_name(flat).items():
            try:
                operator[machine], unread = known_operator_facts(read_json(raw))
            except msgspec.DecodeError as error:
                values = {"machine": machine, "error": str(error)}
                log.warning("scorer.operator.refused", extra={"values": values})
                continue
            if unread:
                values = {"machine": machine, "unread": "; ".join(unread)}
                log.warning("scorer.operator.unread", extra={"values": values})
        return operator


def _read_facts(raws: Iterable[bytes]) -> Iterable[tuple[str, MachineFacts]]:
    for raw in raws:
        try:
            facts = decode(raw)
        except Rejected as error:
            log.warning("scorer.facts.refused", extra={"values": {"error": str(error)}})
            continue
        if isinstance(facts, MachineFacts):
            yield facts.machine, facts


LOOK_S = 1.0
"""The longest wait."""
STOP_S = 0.2
"""How soon a wait ends after ``stopping`` is set."""


class WakeUps:
    """A subscription to what is written, with a connection of its own, opened at the first wait and after a failure.

    A message may be lost: with its connection, or with a writer that dies before it sends it. So a wait lasts at most
    `LOOK_S`, after which everything is checked. A Redis user without the right to subscribe waits for `LOOK_S` each
    time.
    """

    def __init__(self, arguments: dict[str, Any], names: Names, stopping: threading.Event) -> None:
        self._client = connected(
            redis.Redis, **arguments, protocol=2, socket_timeout=ANSWER_S, socket_connect_timeout=2.0,
            retry=Retry(NoBackoff(), 0),
        )  # fmt: skip
        self._channel = names.changed
        self._stopping = stopping
        self._messages: Any = None
        self._refused = False

    def wait(self) -> set[int] | None:
        """Wait for messages; return the partitions that they name. None: check all partitions."""
        deadline = time.monotonic() + LOOK_S
        try:
            if self._messages is None:
                self._messages = self._client.pubsub(ignore_subscribe_messages=True)
                self._messages.subscribe(self._channel)
                return None  # what was written before is looked for once
            while not self._stopping.is_set() and (left := deadline - time.monotonic()) > 0:
                message = self._messages.get_message(timeout=min(left, STOP_S))
                if message is not None:
                    return self._waiting(message)
            check_primary(self._messages.connection)
        except redis.ResponseError as error:
            if not self._refused:
                log.warning("scorer.wake_ups.refused", extra={"values": {"error": str(error)}})
            self._refused = True
            self._pause(deadline)
        except AWAY:
            self._pause(deadline)
        return None

    def _waiting(self, message: dict[str, Any] | None) -> set[int] | None:
        """Return the partitions named by this message and by those queued behind it."""
        named: set[int] = set()
        while message is not None:
            try:
                named.update(int(partition) for partition in message["data"].split(b",") if partition)
            except ValueError:
                return None
            message = self._messages.get_message(timeout=0.0)
        return named

    def _pause(self, deadline: float) -> None:
        self.close()
        self._stopping.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Close the connection; the next wait opens a new one."""
        if self._messages is not None:
            self._messages.close()
            self._messages = None
