"""Instances placed anew on other machines, each seeing the ones before; with the reason where none is feasible. Pure.

The largest come first, by cpu and then by memory, since they are the hardest to place. Alike ones are placed
together where nothing but a machine's own load decides (`scorer.placement.choosing.copies`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from schemas.rpc.request import Request
from scorer.ledger.record.as_request import as_request
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.overlay import Overlay
from scorer.placement.choosing.copies import place_identical
from scorer.ranking.explanation.explain import summary
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from scorer.snapshot.arrays import Bools
from scorer.snapshot.snapshot import Snapshot


class Condition(Protocol):
    """A condition on a target, in addition to the filters."""

    def concerns(self, instance: Instance) -> bool:
        """Return whether it concerns this instance; instances without a condition can be placed together."""

    def allowed(self, instance: Instance, ranking: Ranking) -> Bools:
        """Return [M]: whether it holds on each machine."""

    def words(self, instance: Instance) -> str:
        """Return the condition, as the end of "3/5 feasible, none of them ..."."""


@dataclass(frozen=True)
class Anew:
    """An instance before the move, its target (None: no machine is feasible), and the reason for None."""

    instance: Instance
    target: str | None
    why: str = ""


def place_anew(
    instances: Iterable[Instance],
    snapshot: Snapshot,
    overlay: Overlay,
    profile: Profile,
    now_s: float,
    kept: Kept,
    *,
    gone: bool = False,
    left: str = "",
    condition: Condition | None = None,
) -> list[Anew]:
    """Return the target of each instance, in the order in which they are placed; the overlay then has them there.

    ``gone``: their machines are lost, so that none is in the overlay before it is placed. Otherwise each stays on its
    machine until its turn, and afterwards when no machine is feasible. ``left``: a selector of the remaining machines.

    Raises InvalidRequest where `rank` does.
    """
    instances = list(instances)
    if gone:
        for instance in instances:
            overlay.take_out(instance.id)
    placing = _Placing(snapshot, overlay, profile, now_s, kept, gone, condition)
    return [one for request, group in _alike(instances, left) for one in placing.alike(request, group)]


@dataclass(frozen=True)
class _Placing:
    snapshot: Snapshot
    overlay: Overlay
    profile: Profile
    now_s: float
    kept: Kept
    gone: bool
    condition: Condition | None

    def alike(self, request: Request, group: Sequence[Instance]) -> Iterator[Anew]:
        """Place instances of one request: together, or one by one where that is not possible."""
        bound = self.condition is not None and self.condition.concerns(group[0])
        if len(group) > 1 and not bound:
            self._leave(group)
            targets = place_identical(self._rank(request), len(group))
            if targets is not None:
                for instance, target in zip(group, targets, strict=True):
                    self._put(instance, target)
                why = summary(self._rank(request)) if None in targets else ""
                for instance, target in zip(group, targets, strict=True):
                    yield Anew(instance, target, "" if target else why)
                return
            if not self.gone:  # each stays on its machine until its turn
                for instance in group:
                    self.overlay.propose(instance)
        for instance in group:
            self._leave([instance])
            target, why = best(self._rank(request), instance, self.condition if bound else None)
            self._put(instance, target)
            yield Anew(instance, target, why)

    def _rank(self, request: Request) -> Ranking:
        return rank(request, self.snapshot, self.overlay, self.profile, self.now_s, self.kept)

    def _leave(self, group: Sequence[Instance]) -> None:
        for instance in () if self.gone else group:
            self.overlay.leave(instance.id)

    def _put(self, instance: Instance, target: str | None) -> None:
        """Propose the instance on its target, or on its own machine without one, for those placed after it."""
        if target is not None:
            self.overlay.propose(moved_to(instance, target, self.now_s))
        elif not self.gone:
            self.overlay.propose(instance)


def best(ranking: Ranking, instance: Instance, condition: Condition | None) -> tuple[str | None, str]:
    """Return the best machine of a ranking on which a condition holds (None: any), or None and the reason."""
    rows = ranking.best(1) if condition is None else ranking.best_among(condition.allowed(instance, ranking), 1)
    if rows.size:
        return ranking.machines.name(int(rows[0])), ""
    beside = "" if condition is None or not ranking.feasible_count else f", none of them {condition.words(instance)}"
    return None, summary(ranking) + beside


def moved_to(instance: Instance, target: str, now_s: float) -> Instance:
    """Return the instance as reserved on another machine."""
    return copy_with(instance, machine=target, state="reserved", reserved_at=now_s, started_at=0.0)


def _alike(instances: Sequence[Instance], left: str) -> list[tuple[Request, list[Instance]]]:
    """Return the instances grouped by equal requests, the largest first."""
    groups: dict[bytes, tuple[Request, list[Instance]]] = {}
    for instance in instances:
        request = msgspec.structs.replace(as_request(instance), id="")
        group = groups.setdefault(_encode(request), (request, []))
        group[1].append(instance)
    if left:
        selected = [
            (msgspec.structs.replace(request, selector=",".join(filter(None, (request.selector, left)))), group)
            for request, group in groups.values()
        ]
    else:
        selected = list(groups.values())
    return sorted(selected, key=lambda group: size(group[1][0]), reverse=True)


def size(instance: Instance) -> tuple[float, ...]:
    """Return the sort key of an instance: cpu, then memory; 0 where not given."""
    return tuple(amount or 0.0 for amount in instance.amounts[:2])


_encode = msgspec.json.Encoder().encode
