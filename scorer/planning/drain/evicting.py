"""Evictions for higher classes: instances that no longer fit into the sum of their class, lowest class first.

The sum of batch and free exceeds its limit when prod, mid or the system use more than before; that of mid when prod is
predicted to use its requests. Where a sum is exceeded, free leaves before batch. Within a class the instance that just
covers the excess leaves first (`usefulness`), then the newest, until the others fit.

There is no advice for a machine whose data is too old: no batch is placed there, and its instances may stay. Instances
labelled ``movable=false`` stay, too. Nothing is reserved and nothing is changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.classes.reclaimed import GROUPS
from scorer.ledger.record.instance import MOVABLE, Instance, as_request
from scorer.placement.choosing.trial import Trial
from scorer.planning.candidates import elsewhere, instances_on
from scorer.planning.thresholds import eviction_order, usefulness
from scorer.ranking.inputs import ClassSums, RankingInputs, class_sums
from scorer.snapshot.arrays import Floats, Integers, by_row

_NEAR = 1e-9
"""An excess below this part of a resource's unit is rounding."""


@dataclass(frozen=True)
class Evicted:
    """An instance that no longer fits, and the machine where the profile would place it (None: no feasible one)."""

    instance: Instance
    target: str | None
    counted: tuple[str, ...]
    """The classes whose common sum is above its limit."""
    resource: str
    """The resource with the largest excess in relation to the sum."""
    excess: float
    """How far the machine's sum was above its limit before this instance leaves."""


@dataclass(frozen=True)
class Advice:
    """The instances that should leave, in order, and the machines above a limit."""

    evicted: tuple[Evicted, ...]
    above: tuple[str, ...]
    """Machines that are above a limit of a class."""
    stay: tuple[str, ...]
    """Examined machines that stay above a limit, since their other instances may not be moved."""
    unknown: int
    """Machines without advice, since their data is too old."""


def evicting(inputs: RankingInputs, evictions_max: int = 100, same: tuple[str, ...] = ()) -> Advice | None:
    """Return the advice, None when the profile counts all classes together.

    ``evictions_max``: the maximum number; machines furthest above their limits come first. ``same``: labels whose value
    a target must share with the machine that is left.
    """
    sums = class_sums(inputs)
    if sums is None:
        return None
    instances, placed = instances_on(inputs.snapshot, inputs.ledger)
    names = inputs.snapshot.names
    fresh = inputs.snapshot.has_data & (inputs.now_s - inputs.snapshot.seen_at <= inputs.profile.stale_s)
    trial = Trial(inputs)
    leaving = _Leaving(sums, instances, placed.rows, placed.amounts)
    found = []
    for at, counted, resource, excess in leaving.run(evictions_max):
        one = instances[at]
        target = trial.best(as_request(one), elsewhere(trial, one, fresh, same)).machine
        if target is not None:
            trial.move(one, target)
        found.append(Evicted(one, target, counted, resource, excess))
    return Advice(
        tuple(found),
        tuple(names[row] for row in sorted(leaving.above)),
        tuple(names[row] for row in sorted(leaving.stay)),
        int(np.count_nonzero(sums.old)),
    )


_Left = tuple[int, tuple[str, ...], str, float]
"""The position of an instance, the classes of the sum, the resource, the excess."""


class _Leaving:
    """The instances that leave: over all machines free first, then batch, then mid."""

    def __init__(self, sums: ClassSums, instances: Sequence[Instance], rows: Integers, amounts: Floats) -> None:
        self.above: set[int] = set()
        self.stay: set[int] = set()
        self._sums, self._amounts = sums, amounts
        self._on = by_row(rows, sums.old.size)
        free = np.array([one.labels.get(MOVABLE) != "false" for one in instances], np.bool_)
        classes = np.array([PRIORITY_CLASSES.index(one.priority_class) for one in instances], np.int64)
        self._classes = np.where(free, classes, -1)
        self._since = np.array([max(one.reserved_at, one.started_at) for one in instances])
        self._found: dict[str, list[_Left]] = {"free": [], "batch": [], "mid": []}

    def run(self, most: int) -> list[_Left]:
        """Return at most so many, in their order, from the machines that are furthest above their limits."""
        for counted in (GROUPS["free"], GROUPS["mid"]):
            excess = self._excess(counted[-1])
            above = np.flatnonzero((excess > _NEAR).any(axis=0))
            self.above.update(above.tolist())
            part = excess / np.maximum(self._sums.counted[PRIORITY_CLASSES.index(counted[-1])], _NEAR)
            for row in above[np.argsort(-part[:, above].max(axis=0), kind="stable")].tolist():
                if sum(map(len, self._found.values())) >= most:
                    break
                self._relieve(row, counted, excess[:, row].copy())
        return [one for of_class in self._found.values() for one in of_class][:most]

    def _excess(self, of: str) -> Floats:
        """Return [R, M]: the excess of a sum over its limit; 0 where that is unknown, or the data too old."""
        code = PRIORITY_CLASSES.index(of)
        over = np.nan_to_num(self._sums.counted[code] - self._sums.most[code], nan=0.0)
        return np.where(self._sums.old, 0.0, np.maximum(over, 0.0))

    def _relieve(self, row: int, counted: tuple[str, ...], over: Floats) -> None:
        held = self._sums.counted[PRIORITY_CLASSES.index(counted[-1]), :, row]
        for name in reversed(counted):
            here = self._on(row)
            here = here[self._classes[here] == PRIORITY_CLASSES.index(name)]
            while (over > _NEAR).any():
                here = here[(self._amounts[over > _NEAR][:, here] > 0).any(axis=0)]
                if not here.size:
                    break
                excess = np.where(over > _NEAR, over, 0.0)
                useful = usefulness(self._amounts[:, here], excess, np.ones(len(RESOURCES)))
                first = eviction_order(self._classes[here], useful, self._since[here])[0]
                worst = int(np.argmax(over / np.maximum(held, _NEAR)))
                self._found[name].append((int(here[first]), counted, RESOURCES[worst], float(over[worst])))
                over -= self._amounts[:, here[first]]
                here = np.delete(here, first)
        if (over > _NEAR).any():
            self.stay.add(row)
