"""Arguments, results and errors of the ledger's transitions: the same for the scripts and the tests' model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from schemas.values.errors import shortened
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit

FORMAT = 1
"""The format that this release reads and writes, as in ledger.lua."""


class UnknownFormat(Exception):
    """The ledger has a newer format than this release knows."""

    def __init__(self, key: str, found: str) -> None:
        super().__init__(
            f"the ledger {key!r} has format {found}, this release knows format {FORMAT}: "
            "run the newer release here, or give this one another --prefix or --ledger-url (docs/upgrading.md)"
        )


class Damaged(UnknownFormat):
    """Something in the ledger cannot be read."""

    def __init__(self, key: str, what: str) -> None:
        Exception.__init__(
            self,
            f"the ledger {key!r} is damaged: {shortened(what)}. `windward ledger check --repair` writes what its log "
            "has; else restore it from a copy of its server (docs/ledger.md)",
        )


class Torn(Damaged):
    """The record of a step cannot be read; other records can."""


class NotAcknowledged(Exception):
    """Too few replicas have a change: a failover may lose it. Repeating the query gives its result."""


class Overtaken(Exception):
    """The caller was frozen, or cut off, and has lost the lease to another process."""


class Held(NamedTuple):
    name: str
    number: int
    """The fencing number of the lease; a newer one makes it invalid."""


class Candidate(NamedTuple):
    """A machine that an instance may go to, as the scorer saw it."""

    machine: str
    version: int
    """The machine's version; -1: not compared."""
    limits: Sequence[Limit] = ()
    """The limits of its sums and counts, one number each."""


class Call(NamedTuple):
    """The query behind a transition: it acts once, on one generation of an id, and not after its deadline."""

    query: str = ""
    """Its id; "": the transition may be repeated any number of times."""
    deadline: float = 0.0
    """Epoch seconds by the server's clock, at most an hour ahead; 0: none."""


NO_QUERY = Call()
"""No query: the transition may be repeated any number of times, at any time."""


class Wanted(NamedTuple):
    """An instance to reserve: its record (the script fills in state, machine and times) and where it may go.

    Instances that share a record or a candidate are sent and reserved faster.
    """

    instance: Instance
    ttl_s: float
    candidates: Sequence[Candidate]
    call: Call = NO_QUERY
    id: str = ""
    """Its id, where others share ``instance``; "": id and digest are those of ``instance``."""
    digest: str = ""
    """The digest of its request, with ``id``."""

    @property
    def own(self) -> tuple[str, str]:
        """Its id and digest."""
        return (self.id, self.digest) if self.id else (self.instance.id, self.instance.request)


class Change(NamedTuple):
    """An instance to update: the record as it was read, the new one (the same object: no change), and candidates."""

    old: Instance
    new: Instance
    candidates: Sequence[Candidate]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference: sums or counts that do not match the instances, or an instance that will not expire.

    Such an instance is reserved or moving, but the scripts' set of expiries lacks it, or has another time.
    """

    kind: str
    """``machine``, ``cluster``, ``instance`` or ``head``; ``record``: one that cannot be read."""
    name: str
    what: str
    """The difference, in words."""
    row: bytes
    """The row, or the record, as it was read; b"": there is none, as of an instance."""
    sums: str | bytes = ""
    """For a machine: the true sums, as the repair script reads them. For a record: the log's newest; "": none."""
    members: int = 0
    """For a cluster: how many instances it has."""
    counts: tuple[tuple[str, bytes, int], ...] = ()
    """For each wrong count: its name, the count as it was read, the true one."""
    instance: Instance | None = None
    """One of the instances there; of an instance, itself."""


Kind = Literal[
    "placed", "known", "other", "conflict", "none",
    "done", "repeat", "ended", "elsewhere", "unknown", "reserved", "stale", "generation", "gone", "late",
    "moving",
]  # fmt: skip


CHANGED = "changed"
"""The machine, or the ledger, is not as the scorer saw it."""
ALL_OR_NONE = "all or none"
"""Another instance of the batch could not be placed."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """A script's result for one instance; the script's header lists the kinds that it returns."""

    kind: Kind
    instance: Instance | None = None
    position: int = 0
    """Which candidate was taken."""
    reasons: tuple[str, ...] = ()
    """Why the candidates before it, or all of them, were refused: `CHANGED`, `ALL_OR_NONE` or a limit's reason."""


@dataclass(frozen=True, slots=True)
class Transition:
    """The outcomes, and all records the script changed, in order: the entries it wrote to the log."""

    epoch: str
    before: int
    changes: list[Instance]
    outcomes: list[Outcome] = field(default_factory=list)
    count: int = 0
