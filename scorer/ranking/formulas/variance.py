"""The growth of the fleet's variance by one more instance, for all machines at once: one product of a vector.

For a resource, u is the utilization of a machine, i the inverse of allocatable, e what the instance is expected to use.
With the instance on the machine, n times the population variance grows by ``2 i e (u - mean) + (i e)^2 (1 - 1/n)``.
Multiplied out it is a product of three numbers with the columns u i, i and i^2, which do not depend on the request and
are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.formulas.allocation import check_weights
from scorer.ranking.plugin import Floats, Plugin
from scorer.ranking.scope import Parts


@dataclass(frozen=True)
class ByWeight(Plugin):
    """The part that the scores of the fleet's variance share; K is the number of resources with a weight."""

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0, "memory": 1.0, "nic": 1.0})

    def __post_init__(self) -> None:
        check_weights("weights", self.weights)

    @cached_property
    def _rows(self) -> list[int]:
        """The resources with a weight."""
        return [RESOURCES.index(name) for name, weight in self.weights.items() if weight > 0]

    @cached_property
    def _factors(self) -> list[tuple[int, int, float]]:
        """The place of each of `_rows`, its row, and -25 times the share of its weight."""
        weights = [self.weights[RESOURCES[row]] for row in self._rows]
        return [(place, row, -25.0 * (weights[place] / sum(weights))) for place, row in enumerate(self._rows)]


class Mean(NamedTuple):
    """The mean utilization of a resource."""

    mean: float
    share: float
    """1/n of the n machines that it is known of."""


class Added(NamedTuple):
    """What an instance adds to one resource of a machine."""

    place: int
    """Of the resource, among the K that are looked at."""
    factor: float
    """Of the growth that it makes, in a sum over the resources."""
    amount: float
    deviation: float = 0.0
    """The standard deviation of the amount."""


def variance_growth(utilization: float, added: float, mean: Mean) -> float:
    """Return the growth on one machine; ``added``: what the instance adds to its utilization.

    >>> round(variance_growth(0.1, 0.2, Mean(0.3, 0.5)), 9)
    -0.06
    """
    return added * (2.0 * (utilization - mean.mean) + added * (1.0 - mean.share))


def means_of(utilization: Floats) -> list[Mean]:
    """Return the means of [K, n] over the machines where it is not NaN."""
    return [_mean_of(row, total) for row, total in zip(utilization, utilization.sum(axis=1).tolist(), strict=True)]


def _mean_of(utilization: Floats, total: float) -> Mean:
    count = utilization.size
    if math.isnan(total):
        known = utilization[~np.isnan(utilization)]
        total, count = float(known.sum()), known.size
    return Mean(total / max(count, 1), 1.0 / max(count, 1))


def variance_columns(utilization: Floats, inverses: Floats) -> Floats:
    """Return [K, 3, n]: u i, i and i^2 of each resource; of [K, n] without NaN."""
    found = np.empty((len(inverses), 3, inverses.shape[1]))
    np.multiply(utilization, inverses, out=found[:, 0])
    found[:, 1] = inverses
    np.multiply(inverses, inverses, out=found[:, 2])
    return found


def weighted_variance_growth(
    columns: Floats, means: Sequence[Mean], asked: Sequence[Added], scale: float = 1.0
) -> Floats:
    """Return [n]: the growth of each resource times its factor, added up; ``columns`` from `variance_columns`.

    ``scale`` is one more factor, of all.

    >>> columns = variance_columns(np.array([[0.1, 0.5]]), np.array([[0.1, 0.1]]))
    >>> weighted_variance_growth(columns, [Mean(0.3, 0.5)], [Added(0, 1.0, 2.0)]).round(9).tolist()
    [-0.06, 0.1]
    """
    if not asked:
        return np.zeros(columns.shape[2])
    first, last = asked[0].place, asked[-1].place + 1
    factors = [0.0] * (3 * (last - first))  # a resource in between that is not asked for counts nothing
    for place, factor, amount, _ in asked:
        (mean, share), at, each = means[place], 3 * (place - first), scale * factor * amount
        factors[at : at + 3] = 2.0 * each, -2.0 * each * mean, each * amount * (1.0 - share)
    found: Floats = np.array(factors) @ columns[first:last].reshape(len(factors), -1)
    return found


def variance_parts(columns: Floats, means: Sequence[Mean], asked: Sequence[Added], scale: float = 1.0) -> Parts:
    """Return `weighted_variance_growth` taken apart: ``own - slopes @ means``, of the resources asked for."""
    if not asked:
        none = np.zeros((0, columns.shape[2]))
        return Parts(np.zeros(columns.shape[2]), none, np.zeros(0), none)
    places = [each.place for each in asked]
    _, factor, amount, _ = np.array(asked).T
    factor *= scale
    mean, share = np.array(means)[places].T
    product, inverse, square = columns[places].swapaxes(0, 1)
    own = (2.0 * factor * amount) @ product + (factor * amount * amount * (1.0 - share)) @ square
    return Parts(own, (2.0 * factor * amount)[:, None] * inverse, mean, (amount * share)[:, None] * inverse)
