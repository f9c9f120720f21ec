"""Learns by kind and size the share of their requests that instances use, from agents' reports. Pure.

An instance's *use* of a resource is the mean of its reports, divided by its request. Of each group (a kind, and the
sizes of each by powers of two cores; the fleet under ``""``, and its sizes) are kept, older instance-time fading with a
half-life of a day:

    mean      mean use over instance-time
    between   variance of the use between instances: what one more may differ by
    within    mean variance of an instance's reports around its own mean
    seen      instances, as many as are measured now or were seen to begin

A group with few instances is weak evidence, so its mean is shrunk toward the coarser one's, as empirical Bayes has it:
a size toward its kind, a kind toward the fleet.

    mean' = (seen * mean + k * coarser) / (seen + k)      k = between, pooled / variance of the means about the coarser

and the variance of a new instance is that of its group, shrunk alike, with what is unknown of the mean:

    variance = (seen * (between + within) + k * (coarser variance)) / (seen + k) + between / (seen + k)

The stated error of the fleet's mean is by kinds: instances of a kind are similar, so thousands of them
count as one observation.

Robust: what a machine's agent reports is left out while its instances differ from others of their kinds by more than
`APART` times what machines usually do (`believed`). A use above `USE_MAX` counts as that. So one owner whose instances
use much moves its own kinds, and an agent that reports too much, or too little, for all instances changes nothing. One
that knows the rule stays just below it, with one kind alone far off: docs/learning.md has how far that moves a kind. It
costs 0.2 % of the honest instances, which lowers means by 0.0003.

Usage that a machine cannot have is no evidence: more than its capacity, or than `CAPACITY_MOST` times the fleet's
median capacity, whatever its agent says that it has.

Rejected: a median instead of the mean, which is a third too low where few instances use much. Rejected: a fit of the
load of machines to what is asked there, for fleets without reports. Beside reports the hot minutes of ten replays were
the same to the last digit. Alone it was 20 to 60 % too low wherever a profile spreads load (docs/learning.md).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from schemas.resources import CPU, RESOURCES
from schemas.tables.instance_table import FIRST
from schemas.tables.learned import CAPACITY_MOST, FACTOR_MAX, FACTOR_MIN, Learned, Use
from scorer.ledger.view.slots import PlacedInstances, code_of_kind, kind_of
from scorer.ledger.view.view import LedgerView
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.snapshot import Snapshot

HALF_LIFE_S = 86_400.0
MEASURED_S_MIN = 600.0
"""An instance counts when it was measured for so long."""
ERROR_MAX = 0.2
"""The largest standard error of a fleet's factor that is published."""
ABOVE_CAPACITY = 1.05
"""How far above its capacity a machine's usage may be measured."""
USE_MAX = 4.0
SEEN_MIN = 20.0
"""So many instances must have been seen before anything is learned of a resource."""
APART = 3.5
SPREAD_MIN = 0.02
"""The least spread of the use within a kind: rounding is no difference."""
MACHINES_MIN = 8
"""With fewer machines none is left out."""
GROUPS_MAX = 1_000
"""Most groups whose use is kept: those with the most instance-time."""
SHRINK_MIN, SHRINK_MAX = 1.0, 100.0
FLEET = ""
SIZE = "\t"
"""Between a kind and a size."""
Uses = Mapping[str, Mapping[str, Use]]
"""By group and resource."""
OCTAVES = 64
_ONE_CORE = 20
"""The octave of 1 to 2 cores."""


def octaves_of(cores: Floats) -> Integers:
    """Return sizes as powers of two, 1 to 63; 0 where no cores are requested.

    >>> octaves_of(np.array([0.0, 0.5, 1.0, 2.5])).tolist()
    [0, 19, 20, 21]
    """
    powers = np.frexp(cores)[1] - 1 + _ONE_CORE
    return np.where(cores > 0, np.clip(powers, 1, OCTAVES - 1), 0).astype(np.int64)


def octave_of(cores: float) -> int:
    return min(max(math.frexp(cores)[1] - 1 + _ONE_CORE, 1), OCTAVES - 1) if cores > 0 else 0


def code_of_group(group: str) -> int:
    kind, _, octave = group.partition(SIZE)
    return code_of_kind(kind) * OCTAVES + int(octave or 0)


def groups_of(kind: str, octave: int) -> list[str]:
    r"""Return the names of the groups of an instance, the finest first, without the fleet, which includes all.

    >>> groups_of("redis", 21), groups_of("", 21), groups_of("redis", 0)
    (['redis\t21', 'redis', '\t21'], ['\t21'], ['redis'])
    """
    sizes = [f"{kind}{SIZE}{octave}", kind, f"{FLEET}{SIZE}{octave}"] if octave else [kind]
    return [group for group in dict.fromkeys(sizes) if group]


def learn(before: Learned, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> Learned | None:
    """Return the learned value updated with the present reports of instances; None where there are none."""
    index, (slots, numbers) = snapshot.roster.index, ledger.slots.live()
    rows = np.array([*(index.get(machine, -1) for machine in ledger.numbers), -1], np.int64)[numbers]
    running = ledger.slots.take(slots[rows >= 0], rows[rows >= 0])
    most = ABOVE_CAPACITY * np.fmin(believed_capacity(snapshot.capacity), np.inf)
    seen = measured_instances(snapshot, running, most)
    if seen is None:
        return None
    kinds = {kind_of(one) for one in ledger.instances.values()}
    uses = added(before.uses, seen, kinds, max(now_s - before.uses_at, 0.0) if before.uses_at else 0.0)
    return _published(msgspec.structs.replace(before, version=before.version + 1, uses=uses, uses_at=now_s))


def _published(learned: Learned) -> Learned:
    """Return the learned value with the factors and deviations that follow from its uses."""
    factors, errors = dict[str, float](), dict[str, float]()
    kinds, deviations, instances = (dict[str, dict[str, float]]() for _ in range(3))
    for name in RESOURCES:
        found, error = expected(learned.uses, name)
        for group, each in found.items():
            deviations.setdefault(group, {})[name] = each.deviation
            instances.setdefault(group, {})[name] = each.instances
            mean = min(max(each.mean, FACTOR_MIN), FACTOR_MAX)
            if group != FLEET:
                kinds.setdefault(group, {})[name] = mean
            elif error <= ERROR_MAX:
                factors[name], errors[name] = mean, error
    return msgspec.structs.replace(
        learned, factors=factors, errors=errors, kinds=kinds, deviations=deviations, instances=instances
    )


def believed_capacity(capacity: Floats) -> Floats:
    """Return capacities [R, M], cut to `CAPACITY_MOST` times the resource's median; inf where none is known."""
    known = [row[np.isfinite(row)] for row in capacity]
    most = [CAPACITY_MOST * float(np.median(row)) if row.size else np.inf for row in known]
    believed: Floats = np.fmin(capacity, np.array(most)[:, None])
    return believed


@dataclass(frozen=True, eq=False)
class MeasuredInstances:
    """The instances with measured usage, at one moment."""

    codes: Integers
    """[K] `code_of_kind` of each."""
    octaves: Integers
    """[K] `octaves_of` each."""
    rows: Integers
    """[K] row of its machine."""
    use: Floats
    """[R, K] NaN where nothing is requested, or nothing is measured."""
    noise: Floats
    """[R, K] Variance of the reports around the instance's mean, in squares of its request."""
    measured_s: Floats
    """[K] For how long it has been measured."""


def measured_instances(snapshot: Snapshot, placed: PlacedInstances, most: Floats) -> MeasuredInstances | None:
    """Return the instances with current reports; None without any. ``most`` [R, M]: the largest plausible usage."""
    columns = snapshot.usages.columns
    if not columns.at.size or not placed.rows.size:
        return None
    found = columns.rows(placed.pairs, snapshot.column("at")[placed.rows])
    measured_s = columns.take(columns.at - columns.since, found)
    here = np.flatnonzero(measured_s >= MEASURED_S_MIN)
    if not here.size:
        return None
    found, rows = found[here], placed.rows[here]
    used = columns.take(columns.daily, found)
    variance = np.zeros_like(used)
    variance[:FIRST] = np.nan_to_num(columns.take(columns.variance, found))
    asked = np.where(placed.amounts[:, here] > 0, placed.amounts[:, here], np.nan)
    use = np.where(used <= most[:, rows], used / asked, np.nan)
    return MeasuredInstances(
        codes=placed.kinds[here],
        octaves=octaves_of(placed.amounts[CPU, here]),
        rows=rows,
        use=np.clip(use, 0.0, USE_MAX),
        noise=np.minimum(variance / asked**2, USE_MAX**2),
        measured_s=measured_s[here],
    )


def added(before: Uses, seen: MeasuredInstances, kinds: Iterable[str], since_s: float) -> dict[str, dict[str, Use]]:
    """Return the uses updated with the present ones; ``since_s``: the time since ``before``, 0 for the first time."""
    fade = 0.5 ** (since_s / HALF_LIFE_S)
    dt = np.minimum(seen.measured_s, since_s or np.inf)
    begun = seen.measured_s < MEASURED_S_MIN + since_s if since_s else np.ones(dt.size, np.bool_)
    names = {code_of_kind(kind): kind for kind in kinds}
    codes, of = np.unique(seen.codes * OCTAVES + seen.octaves, return_inverse=True)
    sizes = [(names.get(kind, FLEET), octave) for kind, octave in (divmod(code, OCTAVES) for code in codes.tolist())]
    by_kind = np.unique(seen.codes, return_inverse=True)[1]
    found: dict[str, dict[str, Use]] = {}
    for place, name in enumerate(RESOURCES):
        good = np.isfinite(seen.use[place])
        good &= believed(seen.use[place], good, by_kind, seen.rows)
        sums = _sums(seen.use[place], seen.noise[place], np.array([np.where(good, dt, 0.0), good, good & begun]), of)
        now = _by_group(sums, sizes)
        for group in {*before, *now}:
            if (use := _joined(before.get(group, {}).get(name), now.get(group), fade)) is not None:
                found.setdefault(group, {})[name] = use
    return _most_used(found)


def believed(use: Floats, known: Bools, of: Integers, machines: Integers) -> Bools:
    """Return [K]: whether the reports of an instance's machine are plausible, compared with those of other machines.

    A machine has two distances: the sum over its instances of (use - median of the kind), and the sum of its absolute
    values. In the second, an excess of one kind does not offset a deficit of another, and no distance is below the
    spread of its kind: else instances said to be at the median hide one that is not. Each is divided by the sum's
    spread by chance: the root of the sum of the squared spreads of their kinds. A spread is the median of the distances
    from the median. The usual size of a distance is the median, over all machines, of its difference from the median
    distance.
    """
    found = np.ones(use.size, np.bool_)
    at = np.flatnonzero(known)
    rows, place = np.unique(machines[at], return_inverse=True)
    if rows.size < MACHINES_MIN:
        return found
    apart = use[at] - _medians(use[at], of[at])[of[at]]
    spread = np.maximum(_medians(np.abs(apart), of[at]), SPREAD_MIN)[of[at]]
    chance = np.sqrt(np.bincount(place, spread**2))
    liar = np.zeros(rows.size, np.bool_)
    for each in (apart, np.maximum(np.abs(apart), spread)):
        distance = np.bincount(place, each) / chance
        distance -= np.median(distance)
        liar |= np.abs(distance) > APART * max(1.4826 * float(np.median(np.abs(distance))), 1.0)
    found[at] = ~liar[place]
    return found


def _medians(values: Floats, of: Integers) -> Floats:
    """Return [groups] the lower median of the values of each group; an arbitrary number for an empty group."""
    order = np.lexsort((values, of))
    sizes = np.bincount(of)
    middle = np.cumsum(sizes) - sizes + np.maximum(sizes - 1, 0) // 2
    found: Floats = values[order][np.minimum(middle, order.size - 1)]
    return found


def _sums(use: Floats, noise: Floats, weights: Floats, of: Integers) -> Floats:
    """Return [6, groups]: instance-time; the sums over it of use, square and noise; instances, and new ones.

    ``use``, ``noise`` [K]; ``weights`` [3, K]: instance-time, whether an instance counts, whether it is new.
    """
    time, live, new = weights
    use, noise = np.where(live, use, 0.0), np.where(live, noise, 0.0)
    return np.array([np.bincount(of, each) for each in (time, time * use, time * use**2, time * noise, live, new)])


def _by_group(sums: Floats, sizes: list[tuple[str, int]]) -> dict[str, Use]:
    """Return the present measurements of each kind and size, of each kind, of each size, and of all."""
    totals: dict[str, Floats] = {}
    for (kind, octave), column in zip(sizes, sums.T, strict=True):
        for group in {*groups_of(kind, octave), FLEET}:
            totals[group] = totals.get(group, 0.0) + column
    return {group: use for group, column in totals.items() if (use := _use(column.tolist())) is not None}


def _use(sums: Sequence[float]) -> Use | None:
    time, first, second, noise, live, begun = sums
    if time <= 0:
        return None
    mean = first / time
    between = max(second / time - mean**2, 0.0)
    return Use(time=time, mean=mean, between=between, within=noise / time, live=live, seen=begun)


def _joined(old: Use | None, now: Use | None, fade: float) -> Use | None:
    """Return the sum of the older instance-time, decayed, and the present one."""
    if old is None:
        return now
    if now is None:
        return Use(time=old.time * fade, mean=old.mean, between=old.between, within=old.within, seen=old.seen * fade)
    before = old.time * fade
    part = before / (before + now.time)
    mean = part * old.mean + (1 - part) * now.mean
    square = part * (old.between + old.mean**2) + (1 - part) * (now.between + now.mean**2)
    return Use(
        time=before + now.time,
        mean=mean,
        between=max(square - mean**2, 0.0),
        within=part * old.within + (1 - part) * now.within,
        live=now.live,
        seen=old.seen * fade + now.seen,
    )


def _most_used(uses: dict[str, dict[str, Use]]) -> dict[str, dict[str, Use]]:
    if len(uses) <= GROUPS_MAX:
        return uses
    ranked = sorted(uses, key=lambda kind: -max(use.time for use in uses[kind].values()))
    return {kind: uses[kind] for kind in {FLEET, *ranked[:GROUPS_MAX]}}


@dataclass(frozen=True)
class Expected:
    """The expected use of a new instance, as shares of its request."""

    mean: float
    variance: float
    """Variance of its usage over the next minutes: between instances, and between minutes."""
    instances: float
    """The number of its group's instances behind it."""

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)


def expected(uses: Uses, resource: str) -> tuple[dict[str, Expected], float]:
    """Return by group the expected use of a new instance, and the standard error of the fleet's mean.

    Nothing is expected while too few instances were seen.
    """
    fleet = uses.get(FLEET, {}).get(resource)
    if fleet is None or instances_of(fleet) < SEEN_MIN:
        return {}, math.inf
    found = {FLEET: Expected(fleet.mean, fleet.between + fleet.within, instances_of(fleet))}
    groups = {group: of[resource] for group, of in uses.items() if group != FLEET and resource in of}
    kinds = [group for group in groups if SIZE not in group]
    for level in (kinds, [group for group in groups if SIZE in group]):
        if level:
            found |= _shrunk([groups[group] for group in level], level, found)
    known = np.array([(groups[kind].mean, groups[kind].time) for kind in kinds]).reshape(-1, 2)
    return found, _error(known[:, 0], known[:, 1], fleet)


def _shrunk(uses: list[Use], groups: list[str], coarser: Mapping[str, Expected]) -> dict[str, Expected]:
    """Return the expected use in the groups of one level, each shrunk toward its coarser group."""
    parents = [coarser.get(group.partition(SIZE)[0] if SIZE in group else FLEET, coarser[FLEET]) for group in groups]
    columns = [(use.mean, use.between, use.within, instances_of(use)) for use in uses]
    mean, between, within, seen = np.array(columns).T
    above = np.array([(parent.mean, parent.variance) for parent in parents]).T
    shrink = _shrinkage(mean - above[0], between, seen)
    means = (seen * mean + shrink * above[0]) / (seen + shrink)
    variances = (seen * (between + within) + shrink * above[1] + between) / (seen + shrink)
    rows = zip(means.tolist(), variances.tolist(), seen.tolist(), strict=True)
    return {group: Expected(*row) for group, row in zip(groups, rows, strict=True)}


def instances_of(use: Use) -> float:
    """Return the number of instances behind a use."""
    return max(use.seen, use.live)


def _shrinkage(mean: Floats, between: Floats, seen: Floats) -> float:
    """Return k: with k instances a group weighs as much as the coarser one; ``mean`` [n]: less the coarser's."""
    many = seen >= 3
    if many.sum() < 3:
        return SHRINK_MAX
    pooled = float(np.average(between[many], weights=seen[many]))
    of_means = float(np.mean(mean[many] ** 2)) - float(np.mean(between[many] / seen[many]))
    return min(max(pooled / of_means, SHRINK_MIN), SHRINK_MAX) if of_means > 0 else SHRINK_MAX


def _error(mean: Floats, time: Floats, fleet: Use) -> float:
    """Return the standard error of the fleet's mean; each kind is one observation, all without a kind are one."""
    other = max(fleet.time - float(time.sum()), 0.0)
    rest = (fleet.mean * fleet.time - float(mean @ time)) / other if other > 1e-6 * fleet.time else fleet.mean
    means, times = np.append(mean, rest), np.append(time, other)
    witnesses = int((times > 0).sum())
    if witnesses < 2:
        return math.sqrt(fleet.between / max(instances_of(fleet), 1.0))
    spread = float(np.sum((times * (means - fleet.mean)) ** 2))
    return math.sqrt(spread * witnesses / (witnesses - 1)) / fleet.time
