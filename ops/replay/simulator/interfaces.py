"""The roles in a simulation: a policy chooses machines, a mover and an evictor change what runs, at moments.

The simulation depends on these interfaces, and on no profile.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ops.replay.simulator.measuring import Measuring
from ops.replay.simulator.true_fleet import Fleet
from schemas.rpc.request import Request
from scorer.ledger.view.view import LedgerView
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.snapshot import Snapshot

ROUND_MINUTES = 10
"""The minutes between two calls of a mover."""


@dataclass(eq=False)
class Moment:
    """The inputs of a policy; only references may read ``fleet``, the true state."""

    minute: int
    ledger: LedgerView
    measuring: Measuring
    fleet: Fleet

    @property
    def now_s(self) -> float:
        return self.measuring.now_s(self.minute)

    @property
    def snapshot(self) -> Snapshot:
        return self.measuring.snapshot(self.minute)

    def inputs(self, profile: Profile, tables: Tables) -> RankingInputs:
        return RankingInputs(self.snapshot, self.ledger, profile, self.now_s, tables)


class Policy(Protocol):
    name: str
    reference: bool
    """Whether it is shown as a reference, since it uses data that no real policy has."""
    refusals: Counter[str]
    """The reasons of refusals: for each instance the reason of its first one."""
    learns: bool
    """Whether it uses learned factors of expected use."""
    counts_by_class: bool
    """Whether each priority class has a sum of its own, by the measured usage of each instance."""

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Return a row for each of some requests that are equal but for their ids, or for the first few of them.

        The caller places these and calls again for the others. The ledger is not changed.
        """


@dataclass(frozen=True)
class Move:
    """A move of one running instance to another machine."""

    instance: int
    row: int
    """The row of the target."""
    copy_minutes: float = 0.0
    """How long the copy takes: both machines carry the instance and the copying."""


class Exchange(NamedTuple):
    """An exchange of the roles of two running instances."""

    instance: int
    other: int


class Mover(Protocol):
    """Moves running instances; called every `ROUND_MINUTES` of simulated time."""

    def moves(self, moment: Moment) -> Sequence[Exchange | Move]:
        """Return what exchanges roles or moves now, in this order."""


class Spell(NamedTuple):
    """A stretch of time of an instance on a machine."""

    instance: int
    row: int
    """The machine's row."""
    first: int
    last: int
    """Minutes: on the machine from ``first`` until before ``last``."""


class Evictor(Protocol):
    """Ends running instances before their time."""

    every_minutes: int

    def evictions(self, moment: Moment) -> Sequence[int]:
        """Return the instances that leave now."""
