"""The roles in a simulation: a policy chooses machines, a changer moves or evicts what runs, at moments.

The simulation depends on these interfaces, and on no profile.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ops.replay.simulator.measuring import Measuring
from ops.replay.simulator.true_fleet import Fleet
from schemas.rpc.request import Request
from scorer.ledger.view.view import LedgerView
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.snapshot import Snapshot


@dataclass(eq=False)
class Moment:
    """The inputs of a policy; only references may read ``fleet``, the true state."""

    minute: int
    ledger: LedgerView
    measuring: Measuring
    fleet: Fleet

    @property
    def now_s(self) -> float:
        return self.fleet.now_s(self.minute)

    @property
    def snapshot(self) -> Snapshot:
        return self.measuring.snapshot(self.minute)

    def inputs(self, profile: Profile, tables: Tables) -> RankingInputs:
        return RankingInputs(self.snapshot, self.ledger, profile, self.now_s, tables)


class Policy:
    name = ""
    reference = False
    """Whether it is shown as a reference, since it uses data that no real policy has."""
    learns = False
    """Whether it uses learned factors of expected use."""
    counts_by_class = False
    """Whether each priority class has a sum of its own, by the measured usage of each instance."""

    def __init__(self) -> None:
        self.refusals: Counter[str] = Counter()
        """The reasons of refusals: for each instance the reason of its first one."""
        self._known: set[int] = set()
        self._tables = Tables()

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Return a row for each of some requests that are equal but for their ids, or for the first few of them.

        The caller places these and calls again for the others. The ledger is not changed.
        """
        raise NotImplementedError

    def _refused(self, instance: int, why: Callable[[], str]) -> None:
        """Record the reason of an instance's first refusal only, since finding one costs as much as a ranking."""
        if instance not in self._known:
            self._known.add(instance)
            self.refusals[why()] += 1


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


class Spell(NamedTuple):
    """A stretch of time of an instance on a machine."""

    instance: int
    row: int
    """The machine's row."""
    first: int
    last: int
    """Minutes: on the machine from ``first`` until before ``last``."""


class Changer(Protocol):
    """Moves running instances, or ends them before their time; called every ``every_minutes`` of simulated time."""

    every_minutes: int

    def changes(self, moment: Moment) -> Sequence[Exchange | Move | int]:
        """Return what exchanges roles or moves now, and the instances that leave, in this order."""
