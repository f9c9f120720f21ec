"""Every Redis key, Kafka topic and lifetime, in one place.

The major version is part of each name. A change that an older reader would misread gets a new one, and both can live
side by side. ``{p}`` and ``{ledger}`` are Redis Cluster hash tags: all keys of one script are in one slot.
"""

from dataclasses import dataclass

SLOT_S = 10
"""Length of an event-time slot in seconds, for the whole fleet."""

WINDOWS_S = (300, 900, 3600)
"""The default windows, in seconds, ascending."""

RING_SLOTS = 360
"""Slots kept a machine: one hour."""

SILENT_S = 86_400
"""A machine silent for longer loses its windows, in memory and in Redis."""

FORGOTTEN_S = 2 * SILENT_S
"""How long a forgotten machine is remembered as such: longer than data of a silent machine is kept."""

MACHINE_ID_BYTES_MAX = 253
"""The longest machine id: that of a DNS name."""


class _Key:
    """A key of `Names`: its parts behind the prefix and the version."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, names: "Names", _: "type[Names]") -> str:
        return names.key(*self._parts)


@dataclass(frozen=True)
class QueryLists:
    """The keys of the queries that one kind of process answers, scorers or planners."""

    queries: str
    of_operators: str
    answering: str
    """Sorted set: the processes, and the time of the last heartbeat of each."""
    prefix: str
    """The prefix of the lists of a process's claimed queries."""

    def taken(self, name: str) -> str:
        """List: queries that one process has claimed and not answered."""
        return f"{self.prefix}:{name}"

    def taken_of_operators(self, name: str) -> str:
        """List: operators' queries that one process has claimed; each returns to the list that it came from."""
        return f"{self.prefix}:{name}:operators"

    def pairs(self, name: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return each list of claimed queries of a process, with the list that they were taken from."""
        return (self.taken(name), self.queries), (self.taken_of_operators(name), self.of_operators)


@dataclass(frozen=True)
class Names:
    """The names under one prefix; two fleets may share a broker and a Redis under two prefixes.

    >>> Names("windward").windows(3)
    'windward:v1:windows:{3}'
    """

    prefix: str = "windward"

    @property
    def samples_topic(self) -> str:
        """Samples and machine facts, keyed by machine id."""
        return f"{self.prefix}.samples.v1"

    @property
    def rejects_topic(self) -> str:
        """Refused messages, unchanged, with the reason in the header ``reason``."""
        return f"{self.prefix}.samples.rejected.v1"

    def key(self, *parts: object) -> str:
        """Join a key under this prefix and the major version."""
        return ":".join((self.prefix, "v1", *map(str, parts)))

    # ---- windows: written by the stream app, read by the scorer and the exporter

    partitions = _Key("partitions")
    """String: how many partitions the samples topic has, so of how many to read the windows."""

    def windows(self, partition: int) -> str:
        """String: the base of one partition's windows (`schemas.tables.partition_windows`)."""
        return self.key("windows", f"{{{partition}}}")

    def window_changes(self, partition: int) -> str:
        """String: the rows of the windows that changed since the base was written."""
        return self.key("windows", f"{{{partition}}}", "changes")

    changed = _Key("changed")
    """Channel: the partitions whose windows were just written, by commas; empty: operators' rules."""

    def instance_usage(self, partition: int) -> str:
        """String: usage by instance of one partition (`schemas.tables.instance_table`); absent when none is reported.

        Its name begins with the window table's: a Redis user with rights for the table has them here, too.
        """
        return self.key("windows", f"{{{partition}}}", "instances")

    def facts(self, partition: int) -> str:
        """Hash: by machine id the JSON of its last `schemas.messages.sample.MachineFacts` message."""
        return self.key("facts", f"{{{partition}}}")

    def state(self, partition: int) -> str:
        """Hash: the position of the partition's state: topic id, next offset, version of the facts."""
        return self.key("state", f"{{{partition}}}")

    def slots(self, partition: int, position: int) -> str:
        """String: all machines' slots at one position of the ring."""
        return self.key("slots", f"{{{partition}}}", position)

    def peaks(self, partition: int, place: int) -> str:
        """String: all machines' peak of one hour."""
        return self.key("peaks", f"{{{partition}}}", place)

    def vitals(self, partition: int) -> str:
        """String: the machines in row order, and the state of each machine besides slots and peaks."""
        return self.key("vitals", f"{{{partition}}}")

    # ---- operators' rules

    operator = _Key("operator")
    """Hash: machine id (or ``*`` for all) to the JSON of `schemas.messages.operator.OperatorFacts`."""

    nodes = _Key("nodes")
    """Hash: by machine id the JSON of a Kubernetes cluster's facts of its node; operators' rules override them.

    Written by ``windward pods``.
    """

    operator_version = _Key("operator-version")
    """Counter, raised with every change of the two above."""

    forgotten = _Key("forgotten")
    """Hash: machine id to the moment an operator had it forgotten, epoch s, for `FORGOTTEN_S`.

    Written by ``windward machines forget``; a stream worker drops the machine's samples and facts until then.
    """

    # ---- the RPC

    queries = _Key("queries")
    """List: queries waiting, newest at the left."""

    operator_queries = _Key("queries", "operators")
    """List: queries of the methods that change or plan machines, waiting; only operators may push."""

    scorers = _Key("scorers")
    """Sorted set: scorer name to the time of its last heartbeat."""

    planner_queries = _Key("queries", "planners")
    """List: queries of `queries` that scorers left to the planners, waiting; only scorers may push."""

    planner_operator_queries = _Key("queries", "planners", "operators")
    """List: like `operator_queries`, for planners: a query keeps the rights of the list that it came from."""

    planners = _Key("planners")
    """Sorted set: planner name to the time of its last heartbeat."""

    @property
    def of_scorers(self) -> QueryLists:
        return QueryLists(self.queries, self.operator_queries, self.scorers, self.key("taken"))

    @property
    def of_planners(self) -> QueryLists:
        lists = self.planner_queries, self.planner_operator_queries
        return QueryLists(*lists, self.planners, self.key("taken-by-planner"))

    def acted(self, step: str, query_id: str) -> str:
        """String: the answer to an operator's query that has acted, kept until the query can no longer act."""
        return self.key("acted", step, query_id)

    def processes(self, what: str) -> str:
        """Hash: the running processes of one kind, such as ``stream``, by name (`schemas.messages.process`)."""
        return self.key("processes", what)

    def reply(self, query_id: str) -> str:
        """List: the one answer to a query, with a lifetime."""
        return self.key("reply", query_id)

    def first_taken(self, query_id: str) -> str:
        """String: when a query without a deadline, or with a late one, was first taken; expires once it cannot act."""
        return self.key("first-taken", query_id)

    decisions = _Key("decisions")
    """Stream, bounded: every placement with its terms."""

    ledger_marker = _Key("ledger-marker")
    """String: epoch of the ledger and how many instances it had; on the server of the windows."""

    learned = _Key("learned")
    """String: the learned use (`schemas.tables.learned`); on the server of the windows."""

    predicted = _Key("predicted")
    """String: the predicted peaks (`scorer.classes.prediction`); on the server of the windows."""

    predicted_histograms = _Key("predicted-histograms")
    """String: the histograms that the peaks come from (`scorer.classes.prediction`)."""

    # ---- moves that planners propose (`schemas.messages.proposal`); on the server of the windows

    moves_waiting = _Key("{moves}", "waiting")
    """List: proposed moves, newest at the left."""

    moves_roles = _Key("{moves}", "roles")
    """List: proposed exchanges of roles, newest at the left."""

    moves_taken = _Key("{moves}", "taken")
    """List: proposed moves that a program has taken and not acknowledged."""

    holds = _Key("holds")
    """Hash: id of each reservation that holds a node for the replacement of an evicted pod, to its generation."""

    moves_fence = _Key("{moves}", "fence")
    """String: number of the lease of the planner that proposed last."""

    # ---- the ledger; one hash tag, so that ids, machines and clusters are checked together

    def ledger(self, *parts: object) -> str:
        """Any key of the ledger."""
        return self.key("{ledger}", *parts)
