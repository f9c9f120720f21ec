"""What a transition of the ledger is asked for and what it gives back: values, alike for the scripts and the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from scorer.ledger.instance import Instance
from scorer.ledger.limits import Limit


class Candidate(NamedTuple):
    """A machine that an instance may go to, as the scorer saw it."""

    machine: str
    version: int
    """The machine's version; -1: not compared."""
    limits: Sequence[Limit] = ()
    """What its sums and counts may be at most, one number each."""


class Call(NamedTuple):
    """The query that a step is for: it acts once, on one generation of an id, and not after its deadline."""

    query: str = ""
    """Its id; "": the step may be taken any number of times."""
    deadline: float = 0.0
    """Epoch seconds by the server's clock, at most an hour ahead; 0: none."""


NO_QUERY = Call()
"""A step that may be taken any number of times, at any time."""


class Wanted(NamedTuple):
    """An instance to reserve: its record (the script fills in state, machine and times) and where it may go."""

    instance: Instance
    ttl_s: float
    candidates: Sequence[Candidate]
    call: Call = NO_QUERY
    digests: str = ""
    """What the record of an equal request may have, apart by a space; "": the instance's own."""


class Change(NamedTuple):
    """An instance to update: the record it was decided on, the new one (the very same: it stays), where it may go."""

    old: Instance
    new: Instance
    candidates: Sequence[Candidate]


Kind = Literal[
    "placed", "known", "other", "conflict", "none",
    "done", "repeat", "ended", "elsewhere", "unknown", "reserved", "stale", "generation", "gone", "late",
    "moving",
]  # fmt: skip


CHANGED = "changed"
"""The machine, or the ledger, is not as the scorer saw it."""
ALL_OR_NONE = "all or none"
"""Another instance of the batch had no place."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a script did for one instance; its own header says which kinds it gives."""

    kind: Kind
    instance: Instance | None = None
    position: int = 0
    """Which candidate was taken."""
    reasons: tuple[str, ...] = ()
    """Why the candidates before it, or all of them, were not: `CHANGED`, `ALL_OR_NONE` or the reason of a limit."""


@dataclass(frozen=True, slots=True)
class Transition:
    """The outcomes, and all records the script changed, in order: the entries it wrote to the log."""

    epoch: str
    before: int
    changes: list[Instance]
    outcomes: list[Outcome] = field(default_factory=list)
    count: int = 0
