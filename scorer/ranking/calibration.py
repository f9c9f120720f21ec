"""Calibration of chances of overload: predictions of a score are compared with observations. Pure.

A score takes the load to be normal. Real load is calmer in one fleet and wilder in another, so the stated chance p of
load above a limit is right in no fleet for certain. `Calibration` notes p of each machine as it is, and
looks at the shortest window in the next `AHEAD_S`, or once if it is longer. What it sees is

    f = mean over the looks of Q((limit - mean) / std)

with mean and std of that window as shares of allocatable, and Q the upper tail of the normal distribution. Cases are
summed up in bins of p, older ones fading with a half-life of three days. The correction is the mean of f by bin, for
few cases drawn toward p, made monotonic by isotonic regression, and linear between the bins' means:

    f' = (sum of f + CASES_PRIOR * mean of p) / (cases + CASES_PRIOR)

It changes stated chances, but not the order of machines. It does so for scores with the same limit and spread alone.

Rejected: a line between the logits of p and f. Two numbers cannot express that 0.05 is right and 0.35 is not. Rejected,
too, on 120 worlds of six families: a prior of 20 cases, since stated chances are too high nearly everywhere. With it 20
of 81 bins with 500 cases of a family were wrong, and 9 of 77 with a prior of 2. Finer bins, and a prior from
neighbouring bins, gained nothing more. Nor did cases that overlap, a prior by the odds of all bins together, and a line
that keeps each bin's mean (docs/results/tuning.md, "Reliability").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.learned import ChanceBin, Chances
from scorer.ranking.formulas.overload import upper_tail
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot

AHEAD_S = 1_800.0
HALF_LIFE_S = 3 * 86_400.0
EDGES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Edges of the bins of p."""
CASES_PRIOR = 2.0
LOOKS_PART = 0.5
"""A machine counts when it had fresh data at this part of the looks, at least."""


@dataclass(frozen=True)
class Stated:
    """The stated chances of a score for all machines, before an instance is added."""

    chances: Mapping[str, Floats]
    """[M] by resource; NaN where the load is unknown."""
    limit: float
    std_factor: float
    floor: float


@dataclass(frozen=True)
class Cases:
    """Stated chances, by resource [N], and [N] the observed shares of time above the limit."""

    stated: Stated
    observed: Mapping[str, tuple[Floats, Floats]]


@dataclass
class Calibration:
    """Observes one set of predictions at a time, and keeps those whose half hour is not over."""

    _stated: Stated | None = None
    _names: tuple[str, ...] = ()
    _begun_s: float = 0.0
    _looked_s: float = 0.0
    _sums: dict[str, Floats] = field(default_factory=dict)
    _looks: dict[str, Floats] = field(default_factory=dict)
    _taken: int = 0

    @property
    def wants(self) -> bool:
        """Whether the next `look` begins with new predictions."""
        return self._stated is None

    def forget(self) -> None:
        self._stated = None

    def begin(self, stated: Stated, snapshot: Snapshot, now_s: float) -> None:
        self._stated, self._names, self._begun_s, self._looked_s, self._taken = stated, snapshot.names, now_s, now_s, 0
        self._sums = {name: np.zeros(len(snapshot)) for name in stated.chances}
        self._looks = {name: np.zeros(len(snapshot)) for name in stated.chances}

    def look(self, snapshot: Snapshot, now_s: float) -> Cases | None:
        """Look once per shortest window; return the cases when `AHEAD_S` have passed, else None.

        When the roster changes meanwhile the cases are dropped, since rows are then other machines.
        """
        stated = self._stated
        if stated is None or not snapshot.windows_s:
            return None
        if snapshot.names != self._names or now_s < self._looked_s:
            self._stated = None
            return None
        if now_s - self._looked_s >= snapshot.windows_s[0]:
            self._looked_s = now_s
            self._taken += 1
            for name, share in shares_above(stated.limit, snapshot, now_s).items():
                if name in self._sums:
                    known = np.isfinite(share)
                    self._sums[name][known] += share[known]
                    self._looks[name] += known
        if now_s - self._begun_s < max(AHEAD_S, snapshot.windows_s[0]):
            return None
        self._stated = None
        return Cases(stated, {name: self._cases(name, chance) for name, chance in stated.chances.items()})

    def _cases(self, name: str, chance: Floats) -> tuple[Floats, Floats]:
        looks = self._looks[name]
        good = np.isfinite(chance) & (looks >= max(LOOKS_PART * self._taken, 1.0))
        return chance[good], self._sums[name][good] / looks[good]


def shares_above(limit: float, snapshot: Snapshot, now_s: float) -> dict[str, Floats]:
    """Return [M] by resource: the part of the shortest window in which the load was above the limit.

    The load is taken to be normal within that window. NaN where it is unknown or the window has ended before now.
    """
    window_s = snapshot.windows_s[0]
    window, fresh = snapshot.windows(window_s), now_s - snapshot.seen_at < window_s
    inverse, found = snapshot.inverse_allocatable, dict[str, Floats]()
    for row, name in enumerate(RESOURCES):
        mean, std = window.mean[row] * inverse[row], window.std[row] * inverse[row]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(std > 0, (limit - mean) / std, np.where(mean > limit, -np.inf, np.inf))
        found[name] = np.where(fresh & np.isfinite(mean), upper_tail(z), np.nan)
    return found


def with_cases(before: Chances | None, cases: Cases, now_s: float) -> Chances:
    """Return the bins with added cases. Bins for another limit or spread are dropped."""
    stated = cases.stated
    spread = stated.limit, stated.std_factor, stated.floor
    if before is None or (before.limit, before.std_factor, before.floor) != spread:
        before = Chances(limit=stated.limit, std_factor=stated.std_factor, floor=stated.floor, at=now_s)
    fade = 0.5 ** (max(now_s - before.at, 0.0) / HALF_LIFE_S)
    bins = dict(before.bins)
    for name, (chance, observed) in cases.observed.items():
        old = bins.get(name) or [ChanceBin() for _ in EDGES[1:]]
        place = np.clip(np.searchsorted(EDGES, chance, side="right") - 1, 0, len(EDGES) - 2)
        sums = [np.bincount(place, each, len(EDGES) - 1) for each in (np.ones(chance.size), chance, observed)]
        bins[name] = [
            ChanceBin(each.cases * fade + count, each.stated * fade + said, each.observed * fade + seen)
            for each, count, said, seen in zip(old, *(one.tolist() for one in sums), strict=True)
        ]
    return Chances(limit=before.limit, std_factor=before.std_factor, floor=before.floor, at=now_s, bins=bins)


def calibrated(bins: Sequence[ChanceBin], chance: float) -> float:
    """Return the observed frequency for a stated chance, interpolated between the bins' means.

    It is the stated chance where nothing was observed yet. A bin without cases stands for itself: its middle is right.

    >>> calm = [ChanceBin(cases=1e9, stated=of * 1e9, observed=0.2e9 * of) for of in (0.005, 0.03, 0.07, 0.15)]
    >>> bins = calm + [ChanceBin()] * 8
    >>> calibrated([], 0.07), *(round(calibrated(bins, chance), 3) for chance in (0.07, 0.11, 0.75))
    (0.07, 0.014, 0.022, 0.75)
    """
    if not any(each.cases > 0 for each in bins):
        return chance
    said = [
        each.stated / each.cases if each.cases > 0 else (low + high) / 2
        for each, (low, high) in zip(bins, pairwise(EDGES), strict=True)
    ]
    weights = [each.cases + CASES_PRIOR for each in bins]
    drawn = [each.observed + CASES_PRIOR * of for each, of in zip(bins, said, strict=True)]
    seen = isotonic([part / weight for part, weight in zip(drawn, weights, strict=True)], weights)
    last = seen[-1] if bins[-1].cases > 0 else 1.0
    return float(np.interp(chance, [0.0, *said, 1.0], [0.0, *seen, last]))


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the isotonic regression: the nearest values that never fall (weighted squares, pool adjacent violators).

    >>> isotonic([0.1, 0.4, 0.2], [1.0, 1.0, 3.0])
    [0.1, 0.25, 0.25]
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        block = (value, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, mass, count = blocks.pop()
            both = mass + block[1]
            block = ((mean * mass + block[0] * block[1]) / both, both, count + block[2])
        blocks.append(block)
    return [value for value, _, count in blocks for _ in range(count)]
