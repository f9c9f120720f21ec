"""Policies: they choose machines at a moment of simulated time. A profile is one, by the product's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ops.replay.play.fleet import Fleet
from ops.replay.play.lessons import load_models, wants_lessons
from ops.replay.play.measuring import Measuring
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, adds, mosts_in_script, scales_in_script
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing.reuse import Reuse
from scorer.placement.offers.limits import limits
from scorer.placement.placer import CANDIDATES
from scorer.ranking.class_sums import by_class_filter
from scorer.ranking.explanation.explain import summary
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
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
        """Epoch time."""
        return self.measuring.now_s(self.minute)

    @property
    def snapshot(self) -> Snapshot:
        """The measurements until now."""
        return self.measuring.snapshot(self.minute)

    def inputs(self, profile: Profile, kept: Kept) -> RankingInputs:
        """Return the inputs of a ranking by a profile."""
        return RankingInputs(self.snapshot, self.ledger, profile, self.now_s, kept)


class Policy(Protocol):
    """Chooses machines."""

    name: str
    reference: bool
    """Whether it is shown as a reference, since it uses data that no real policy has."""
    refusals: Counter[str]
    """The reasons of refusals, for each instance that of its first one."""
    learns: bool
    """Whether it uses learned factors of expected use."""
    looks_at_instances: bool
    """Whether it uses the measured usage of each instance."""
    counts_by_class: bool
    """Whether each priority class has a sum of its own."""

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Return a row for each of some requests that are equal but for their ids, or for the first few of them.

        The caller places those and asks again for the others. The ledger is not changed.
        """


@dataclass(frozen=True)
class Move:
    """One running instance to another machine."""

    instance: int
    row: int
    """The row of the target."""
    copy_minutes: float = 0.0
    """How long the copy takes: both machines carry the instance and the copying."""


class Mover(Protocol):
    """Moves running instances; asked every `ROUND_MINUTES` of simulated time."""

    def moves(self, moment: Moment) -> Sequence[Move]:
        """Return what moves now."""


class ProfilePolicy:
    """A profile, as a scorer with a ledger of its own would apply it."""

    reference = False

    def __init__(self, profile: Profile, name: str = "") -> None:
        self.name = name or profile.name
        self.profile = profile
        self.refusals: Counter[str] = Counter()
        self.learns = wants_lessons(profile)
        self.counts_by_class = by_class_filter(profile) is not None
        self.looks_at_instances = self.counts_by_class or any(
            model.mean_of == "instances" for model in load_models(profile)
        )
        self._known: set[int] = set()
        self._reuse, self._kept = Reuse(), Kept()

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Rank one request, plan several; candidates that the ledger's limits refuse are skipped."""
        inputs = moment.inputs(self.profile, self._kept)
        snapshot, ledger = inputs.snapshot, inputs.ledger
        if len(requests) > 1:
            plan = self._reuse.plan(requests, inputs)
            for position, why in plan.reasons.items():
                self._refused(instances[position], lambda why=why: why)  # type: ignore[misc]
            return [None if machine is None else snapshot.roster.index[machine] for machine in plan.machines]
        request = requests[0]
        ranking = self._reuse.rank(request, inputs)
        rows = [int(row) for row in ranking.best(CANDIDATES)]
        record = instance_of(request, "", moment.now_s)
        for row, allowed in zip(rows, limits(ranking, rows, request), strict=True):
            if upheld(allowed, record, ledger.on_machine(snapshot.names[row])):
                return [row]
        self._refused(instances[0], lambda: summary(ranking))
        return [None]

    def _refused(self, instance: int, why: Callable[[], str]) -> None:
        """Note the reason of an instance's first refusal only: a reason costs as much as a ranking; many ask again."""
        if instance not in self._known:
            self._known.add(instance)
            self.refusals[why()] += 1


def upheld(allowed: Sequence[Limit], record: Instance, held: Sequence[Instance]) -> bool:
    """Return whether a machine with these instances may take one more, as the reserve script decides it."""
    for limit in allowed:
        added = adds(record, limit.measure)
        if added:
            taken = added + sum(adds(each, limit.measure) for each in held)
            if taken > most_in_units(limit):
                return False
    return True


def most_in_units(limit: Limit) -> float:
    """Return the most of a limit as the ledger counts it."""
    most = mosts_in_script([limit], scales_in_script([(1, *limit.measure)]))[0]
    return float("inf") if most < 0 else float(most)
