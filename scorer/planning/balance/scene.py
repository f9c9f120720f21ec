"""The inputs of a plan: loads of the machines, usage of their instances, and which machines have fresh data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.instance_table import FIRST, pair_name
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.slots import PlacedInstances
from scorer.placement.choosing.steps import Steps, drain, in_parts
from scorer.planning.balance.loads import Loads
from scorer.planning.candidates import instances_on_steps
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.machines import NOTHING, Machines
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.ranking.seen import fleet_of
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.usages import Usages, UsageTable

VARIATION = 1.0
"""The largest coefficient of variation of a running instance: its usage is known better than a new one's."""

RECENT = 0.8
"""Weight of the mean of the last half hour in the usage; the rest is that of the mean of a day."""
COUNT_MIN = 6
"""The least number of reports of a figure that is used: the first minutes of an instance are not typical."""
AGE_MAX_S = 600.0
"""The largest age of a figure that is used, s."""


@dataclass(frozen=True)
class Scene:
    """R resources, K of them with a weight, M machines, N instances."""

    inputs: RankingInputs
    machines: Machines
    fresh: Bools
    """[M] Whether there is a fresh figure of the machine."""
    resources: tuple[str, ...]
    """K"""
    loads: Loads
    instances: list[Instance]
    placed: PlacedInstances
    usage: Floats
    """[R, N] Measured, or else expected by the profile."""
    variance: Floats
    """[R, N] Of the usage."""
    measured: Bools
    """[N] Whether the usage is measured."""

    @property
    def snapshot(self) -> Snapshot:
        """The machines."""
        return self.inputs.snapshot

    @property
    def rows(self) -> list[int]:
        """[K] Places of the resources with a weight."""
        return [RESOURCES.index(name) for name in self.resources]


def scene_of(inputs: RankingInputs) -> Scene:
    """Return the scene of a fleet at a moment.

    Weights, limit and floor of the loads are those of the profile's `ExpectedOverload`, or its defaults; its
    coefficient of variation, too, up to `VARIATION`. Machines without fresh data have no load.
    """
    return drain(scene_steps(inputs))


def scene_steps(inputs: RankingInputs) -> Steps[Scene]:
    """Return the result of `scene_of` in steps; the ledger must not change between them."""
    score = inputs.profile.find(ExpectedOverload) or ExpectedOverload()
    resources = tuple(name for name in RESOURCES if score.weights.get(name, 0) > 0)
    rows = [RESOURCES.index(name) for name in resources]
    weights = np.array([score.weights[name] for name in resources])
    fleet = fleet_of(inputs)
    machines = Machines(fleet, NOTHING, inputs.now_s)
    fresh = machines.has_data & (machines.age_s <= inputs.profile.stale_s)
    loads = Loads.of(
        np.where(fresh, machines.utilization[rows], np.nan),
        machines.deviation[rows] * score.std_factor,
        machines.allocatable[rows],
        weights / weights.sum(),
        score.limit,
        score.floor,
    )
    yield
    instances, placed = yield from instances_on_steps(inputs.snapshot, inputs.ledger)
    yield
    expected = fleet.estimate.of_placed(placed)
    yield
    usage, variance, known = yield from measured_steps(
        inputs.snapshot.usages, instances, expected, (min(score.variation, VARIATION) * expected) ** 2, inputs.now_s
    )
    return Scene(inputs, machines, fresh, resources, loads, instances, placed, usage, variance, known)


def measured(
    usages: Usages, instances: Sequence[Instance], expected: Floats, variance: Floats, now_s: float
) -> tuple[Floats, Floats, Bools]:
    """Return usage and variance [R, N] of instances, measured where that is known, and [N] whether it is.

    The usage is ``0.8 recent + 0.2 daily``, or the one that is known. Other instances keep the expected usage.
    """
    return drain(measured_steps(usages, instances, expected, variance, now_s))


def measured_steps(
    usages: Usages, instances: Sequence[Instance], expected: Floats, variance: Floats, now_s: float
) -> Steps[tuple[Floats, Floats, Bools]]:
    """Return the result of `measured` in steps."""
    usage, spread = expected.copy(), variance.copy()
    newest = np.full(len(instances), now_s - AGE_MAX_S)
    if not usages:
        return usage, spread, newest > now_s - AGE_MAX_S
    names = yield from in_parts(instances, lambda some: [pair_name(one.machine, one.id) for one in some])
    for table in usages.tables:  # an instance is in two while the topic has just got more partitions
        at, count, recent = (table.column(name) for name in ("at", "count", "recent"))
        if at is None or count is None or recent is None:
            continue
        yield
        found = yield from in_parts(names, partial(_rows, table))
        rows = np.array(found, np.int64)
        there = np.flatnonzero(rows >= 0)
        there = there[(count[rows[there]] >= COUNT_MIN) & (at[rows[there]] > newest[there])]
        newest[there] = at[rows[there]]
        daily, own = table.column("daily"), table.column("variance")
        _take(
            usage,
            there,
            _mean(recent[:, rows[there]], recent[:, rows[there]] if daily is None else daily[:, rows[there]]),
        )
        if own is not None:
            _take(spread[:FIRST], there, own[:FIRST, rows[there]])
    return usage, spread, newest > now_s - AGE_MAX_S


def _rows(table: UsageTable, names: Iterable[str]) -> list[int]:
    """Return the row of each pair; -1 where the table has none."""
    return [-1 if (row := table.row(name)) is None else row for name in names]


def _mean(recent: Floats, daily: Floats) -> Floats:
    both: Floats = RECENT * recent + (1 - RECENT) * daily
    return np.where(np.isfinite(both), both, np.where(np.isfinite(recent), recent, daily))


def _take(into: Floats, places: Integers, values: Floats) -> None:
    rows = len(into)
    into[:, places] = np.where(np.isfinite(values[:rows]), values[:rows], into[:, places])
