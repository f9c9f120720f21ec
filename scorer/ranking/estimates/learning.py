"""Learns which part of what they ask instances use: a pure fit over two observations of all machines.

A machine's mean usage is the load of other processes plus a factor of what its instances ask: ``y = a + f * x``. Each
instance counts in x by the share of the window in which it ran. The intercept a is the machine's own, so that other
load does not count as use by the instances. In the difference of two windows that do not overlap it cancels:

    dy = f * dx + noise        f = sum(dx * dy) / sum(dx^2)        error^2 = variance of the noise / sum(dx^2)

over all machines and observations, older ones fading with a half-life of a day. The ``expected`` of an instance that
gives one is subtracted from y, and the instance is not in x. Where it is wrong, the error would enter the factor: a
machine gets fewer of the others while it has more of those. So the change ds of what is expected explicitly is fitted,
too, and x and y count less their parts that go with it:

    f = (sum(dx * dy) - sum(dx * ds) * g) / (sum(dx^2) - sum(dx * ds) * k),  g = sum(ds * dy) / sum(ds^2),
    k = sum(dx * ds) / sum(ds^2)

A factor is published only with enough evidence, and bounded to 0.05-1.5.

A kind's difference from the others is fitted to what the common factor does not explain. It is shrunk toward 0 by
ridge regression with a prior deviation of `PRIOR`. It is published where it is more than `SIGNIFICANT` errors from 0.

Usage that a machine cannot have is no evidence: more than its capacity, or than `CAPACITY_MOST` times the fleet's
median capacity, whatever its agent says that it has. So what one agent makes up moves the factor no more than a large
machine does.

Rejected: the ratio of sums y / x, which counts all load as use by the instances; a fit with the time of day.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.learned import CAPACITY_MOST, FACTOR_MAX, FACTOR_MIN, Learned, Sums
from scorer.ledger.record.kind import kind_of
from scorer.ledger.view.leavers import Leavers
from scorer.ledger.view.seats import by_machine
from scorer.ledger.view.slots import PlacedInstances, code_of_kind
from scorer.ledger.view.view import LedgerView
from scorer.ranking.estimates.credits import absorbed
from scorer.ranking.estimates.debits import shown_share
from scorer.ranking.estimates.measured_use import FLEET, added, expected, measured_instances
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.snapshot import Snapshot

HALF_LIFE_S = 86_400.0
INSTANCE_HOURS_MIN = 100.0
"""Instance-hours that must be observed before a factor is published."""
ERROR_MAX = 0.2
"""The largest standard error of a factor that is published."""
NOTHING = 1e-9
"""The part of the evidence that is rounding."""
ABOVE_CAPACITY = 1.05
"""How far above its capacity a machine's usage may be measured."""
PRIOR = 0.2
SIGNIFICANT = 3.0
KINDS_MAX = 64
"""At most so many kinds have their own factors, the first by name."""


@dataclass(frozen=True, eq=False)
class Observation:
    """The fleet at one moment, over the longest window."""

    end: Floats
    """[M] Where each machine's window ends; NaN where it is not fully covered."""
    usage: Floats
    """[R, M] Mean usage less the explicit expected usage of the instances that give one; NaN where it is impossible."""
    asked: Floats
    """[R, M] What the other instances ask, by the share of the window in which each ran."""
    asked_by_kind: Mapping[str, Floats]
    hours: float
    """Instance-hours in the window."""
    names: tuple[str, ...]
    said: Floats
    """[R, M] The explicit expected usage that was subtracted."""


def observe(snapshot: Snapshot, ledger: LedgerView, kinds: tuple[str, ...] = ()) -> Observation | None:
    """Return an observation of the present moment; None without windows. ``kinds`` are observed separately."""
    if not snapshot.windows_s or not len(snapshot):
        return None
    window_s = snapshot.windows_s[-1]
    windows = snapshot.windows(window_s)
    index, machines = snapshot.roster.index, len(snapshot)
    running, left = _placed(ledger, index), _left(ledger.leavers, ledger, index)
    started = running.started_at > 0
    share = np.where(started, absorbed(running, snapshot, windows)[0], 0.0)
    left_share = shown_share(left, snapshot, windows)
    asked, said_of, by_kind = (*np.zeros((2, len(RESOURCES), machines)), dict[str, Floats]())
    hours = 0.0
    for placed, part in ((running, share), (left, left_share)):
        said = np.isfinite(placed.expected)
        said_of += by_machine(np.where(said, placed.expected, 0.0) * part, placed.rows, machines)
        weighted = np.where(said, 0.0, placed.amounts) * part
        asked += by_machine(weighted, placed.rows, machines)
        hours += float(part.max(axis=0, initial=0.0).sum()) * window_s / 3600.0
        for kind in kinds:
            of_kind = placed.kinds == code_of_kind(kind)
            if of_kind.any():
                here = by_machine(weighted * of_kind, placed.rows, machines)
                by_kind[kind] = by_kind.get(kind, 0.0) + here
    covered: Bools = (windows.coverage >= 0.9) & snapshot.has_data
    end = np.where(covered, snapshot.column("end"), np.nan)
    possible = windows.mean <= ABOVE_CAPACITY * believed_capacity(snapshot.capacity)
    usage = np.where(possible, windows.mean - said_of, np.nan)
    return Observation(end, usage, asked, by_kind, hours, snapshot.names, said_of)


def learn_uses(before: Learned, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> Learned | None:
    """Return what is learned with the usage that agents report of instances now; None where they report none."""
    running = _placed(ledger, snapshot.roster.index)
    most = ABOVE_CAPACITY * np.fmin(believed_capacity(snapshot.capacity), np.inf)
    seen = measured_instances(snapshot, running, most)
    if seen is None:
        return None
    kinds = {kind_of(one) for one in ledger.instances.values()}
    uses = added(before.uses, seen, kinds, max(now_s - before.uses_at, 0.0) if before.uses_at else 0.0)
    found = msgspec.structs.replace(before, version=before.version + 1, uses=uses, uses_at=now_s)
    return _with_measured(found)


def _with_measured(learned: Learned) -> Learned:
    """Return factors and deviations as the instances say, where they are measured."""
    factors, errors, kinds = dict(learned.factors), dict(learned.errors), dict(learned.kinds)
    deviations, instances = dict[str, dict[str, float]](), dict[str, dict[str, float]]()
    for name in RESOURCES:
        found, error = expected(learned.uses, name)
        for kind, each in found.items():
            deviations.setdefault(kind, {})[name] = each.deviation
            instances.setdefault(kind, {})[name] = each.instances
            mean = min(max(each.mean, FACTOR_MIN), FACTOR_MAX)
            if kind != FLEET:
                kinds[kind] = {**kinds.get(kind, {}), name: mean}
            elif error <= ERROR_MAX:
                factors[name], errors[name] = mean, error
    return msgspec.structs.replace(
        learned, factors=factors, errors=errors, kinds=kinds, deviations=deviations, instances=instances
    )


def believed_capacity(capacity: Floats) -> Floats:
    """Return capacities [R, M], at most `CAPACITY_MOST` times the median of the resource; inf where none is known."""
    known = [row[np.isfinite(row)] for row in capacity]
    most = [CAPACITY_MOST * float(np.median(row)) if row.size else np.inf for row in known]
    believed: Floats = np.fmin(capacity, np.array(most)[:, None])
    return believed


def _placed(ledger: LedgerView, index: Mapping[str, int]) -> PlacedInstances:
    slots, numbers = ledger.live()
    rows = _rows(ledger, index)[numbers]
    return ledger.take(slots[rows >= 0], rows[rows >= 0])


def _left(leavers: Leavers, ledger: LedgerView, index: Mapping[str, int]) -> PlacedInstances:
    slots, numbers = leavers.all()
    rows = _rows(ledger, index)[numbers]
    return leavers.take(slots[rows >= 0], rows[rows >= 0])


def _rows(ledger: LedgerView, index: Mapping[str, int]) -> Integers:
    return np.array([*(index.get(machine, -1) for machine in ledger.numbers), -1], np.int64)


def learn(before: Learned, first: Observation, second: Observation, window_s: float, now_s: float) -> Learned:
    """Return what is learned from two observations; a machine counts if they are at least a window apart on it."""
    known = Learned(version=before.version + 1, at=now_s, uses=before.uses, uses_at=before.uses_at)
    known.chances = before.chances
    fade = 0.5 ** (max(now_s - before.at, 0.0) / HALF_LIFE_S) if before.at else 1.0
    index = {name: row for row, name in enumerate(first.names)}
    then = np.array([index.get(name, -1) for name in second.names], np.int64)
    apart = (then >= 0) & (second.end - np.where(then >= 0, first.end[then], np.nan) >= window_s * 0.99)
    rows, old = np.flatnonzero(apart), then[apart]
    dx, dy = second.asked[:, rows] - first.asked[:, old], second.usage[:, rows] - first.usage[:, old]
    ds = second.said[:, rows] - first.said[:, old]
    for place, name in enumerate(RESOURCES):
        sums = _added(before.evidence.get(name, Sums()), fade, dx[place], dy[place], ds[place], second.hours)
        known.evidence[name] = sums
        factor, error = fitted(sums)
        if factor is None:
            continue
        known.factors[name], known.errors[name] = factor, error
        for kind in {*before.evidence_of_kinds, *second.asked_by_kind}:
            mine = second.asked_by_kind.get(kind), first.asked_by_kind.get(kind)
            dk = (mine[0][place, rows] if mine[0] is not None else 0.0) - (
                mine[1][place, old] if mine[1] is not None else 0.0
            )
            of_said = (sums.sy - factor * sums.xs) / sums.ss if sums.ss > 0 else 0.0
            rest = dy[place] - factor * dx[place] - of_said * ds[place]
            of_kind = before.evidence_of_kinds.get(kind, {}).get(name, Sums())
            of_kind = _added(of_kind, fade, dk * np.ones(rows.size), rest, np.zeros(rows.size), 0.0)
            known.evidence_of_kinds.setdefault(kind, {})[name] = of_kind
            if (own := _of_kind(factor, of_kind, _alone(sums))) is not None:
                known.kinds.setdefault(kind, {})[name] = own
    return _with_measured(known)


def _added(sums: Sums, fade: float, dx: Floats, dy: Floats, ds: Floats, hours: float) -> Sums:
    good = np.isfinite(dx) & np.isfinite(dy) & np.isfinite(ds) & ((dx != 0) | (ds != 0))
    x, y, s = dx[good], dy[good], ds[good]
    return Sums(
        count=sums.count * fade + x.size,
        xx=sums.xx * fade + float(x @ x),
        xy=sums.xy * fade + float(x @ y),
        yy=sums.yy * fade + float(y @ y),
        xs=sums.xs * fade + float(x @ s),
        sy=sums.sy * fade + float(s @ y),
        ss=sums.ss * fade + float(s @ s),
        instance_hours=sums.instance_hours * fade + (hours if x.size else 0.0),
    )


def _alone(sums: Sums) -> Sums:
    """Return the sums of x and y less the parts that go with s."""
    if sums.ss <= 0:
        return sums
    of_x, of_y = sums.xs / sums.ss, sums.sy / sums.ss
    xx = max(sums.xx - sums.xs * of_x, 0.0)
    return Sums(
        count=sums.count, xx=xx, xy=sums.xy - sums.xs * of_y, yy=sums.yy - sums.sy * of_y,
        instance_hours=sums.instance_hours,
    )  # fmt: skip


def fitted(sums: Sums) -> tuple[float | None, float]:
    """Return the factor and its standard error; None without enough evidence."""
    alone = _alone(sums)
    if sums.instance_hours < INSTANCE_HOURS_MIN or sums.count < 3 or alone.xx <= NOTHING * sums.xx:
        return None, math.inf
    factor = alone.xy / alone.xx
    error = math.sqrt(_noise(alone) / alone.xx)
    return (min(max(factor, FACTOR_MIN), FACTOR_MAX), error) if error <= ERROR_MAX else (None, error)


def _noise(sums: Sums) -> float:
    """Return the variance of the residuals of the fit."""
    return max(sums.yy - sums.xy**2 / sums.xx, 0.0) / max(sums.count - 1.0, 1.0)


def _of_kind(factor: float, of_kind: Sums, sums: Sums) -> float | None:
    """Return the kind's own factor; None when its difference from ``factor`` is not significant."""
    if of_kind.count < 3 or of_kind.xx <= 0:
        return None
    noise = _noise(sums)
    shrunk = of_kind.xx + noise / PRIOR**2
    difference, error = of_kind.xy / shrunk, math.sqrt(noise / shrunk)
    if abs(difference) <= SIGNIFICANT * error or of_kind.xy == 0:
        return None
    return min(max(factor + difference, FACTOR_MIN), FACTOR_MAX)
