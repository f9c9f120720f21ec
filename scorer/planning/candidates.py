"""The instances that may move, and their feasible targets: shared by both rules of balancing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorer.ledger.record.as_request import as_request
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import LedgerView
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import run_filters, run_scores
from scorer.ranking.seen import Seen
from scorer.snapshot.arrays import Bools
from scorer.snapshot.snapshot import Snapshot

MOVABLE = "movable"
"""An instance whose label of this name is ``false`` is never moved."""


@dataclass(frozen=True)
class Wish:
    """Which instances may move, and to which machines."""

    rest_s: float = 1800.0
    """An instance that came or was moved less than this long ago stays, s."""
    same: tuple[str, ...] = ()
    """Labels whose value source and target must share, in addition to an instance's own rules."""
    classes: tuple[str, ...] = ()
    """Priority classes that may move; empty: all."""
    stay: frozenset[str] = frozenset()
    """Ids of instances that stay."""


def instances_on(snapshot: Snapshot, ledger: LedgerView) -> tuple[list[Instance], PlacedInstances]:
    """Return the live instances on known machines, and their columns; ``rows`` has each one's row of the machines."""
    index = snapshot.roster.index
    instances = [one for one in ledger.instances.values() if one.machine in index]
    places = np.array([index[one.machine] for one in instances], np.int64)
    slots = np.array([ledger.slot_of(one.id) for one in instances], np.int64)
    return instances, ledger.take(slots, places)


def may_move(instances: list[Instance], wish: Wish, now_s: float) -> Bools:
    """Return [N]: whether each is confirmed, not moving, of a class that may move, not in ``stay``, and rested."""
    return np.array(
        [
            one.state == "confirmed"
            and one.moving is None
            and one.labels.get(MOVABLE) != "false"
            and (not wish.classes or one.priority_class in wish.classes)
            and one.id not in wish.stay
            and now_s - max(one.reserved_at, one.started_at) >= wish.rest_s
            for one in instances
        ],
        np.bool_,
    )


class Taking:
    """The targets that the profile allows an instance, on the ledger with the moves so far."""

    def __init__(
        self,
        snapshot: Snapshot,
        ledger: LedgerView,
        profile: Profile,
        instances: list[Instance],
        wish: Wish,
        fresh: Bools,
        now_s: float,
        kept: Kept,
    ) -> None:
        self._snapshot, self._profile, self._instances = snapshot, profile, instances
        self._now_s, self._kept = now_s, kept
        self._overlay = Overlay(ledger)
        self._wish, self._fresh = wish, fresh

    def allowed(self, place: int) -> Bools:
        """Return [M]: the machines that the filters allow an instance, with fresh data and the labels of ``same``."""
        return self._allowed(place, self._seen(place))

    def best(self, place: int, among: Bools | None = None) -> int | None:
        """Return the machine that the profile would choose, of all or ``among`` [M] except its own; None: none."""
        seen = self._seen(place)
        allowed = self._allowed(place, seen) & (True if among is None else among)
        if not allowed.any():
            return None
        total, _ = run_scores(as_request(self._instances[place]), seen, self._profile, allowed)
        return int(np.where(allowed, total, -np.inf).argmax())

    def moved(self, place: int, target: int) -> None:
        """Put an instance on its target, for the moves after it."""
        instance = self._instances[place]
        self._overlay.take_out(instance.id)
        there = copy_with(
            instance, machine=self._snapshot.names[target], state="reserved", reserved_at=self._now_s, started_at=0.0
        )
        self._overlay.propose(there)

    def _seen(self, place: int) -> Seen:
        request = as_request(self._instances[place])
        return Seen(request, self._snapshot, self._overlay, self._profile, self._now_s, self._kept)

    def _allowed(self, place: int, seen: Seen) -> Bools:
        instance = self._instances[place]
        feasible, _ = run_filters(as_request(instance), seen, self._profile)
        row = self._snapshot.roster.index[instance.machine]
        allowed = feasible & self._fresh
        for key in self._wish.same:
            codes = seen.machines().label(key).codes
            allowed &= codes == codes[row]
        allowed[row] = False
        return allowed
