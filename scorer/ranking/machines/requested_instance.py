"""The instance that a request asks for, as numbers in the order of the resources."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from schemas.tables.learned import Chances
from scorer.ledger.record.facets import Facet, facets_of
from scorer.ranking.estimates.estimate import Estimate
from scorer.snapshot.arrays import Bools, Floats


class RequestedInstance:
    """What one more instance of the request adds to a machine."""

    def __init__(self, request: Request, estimate: Estimate) -> None:
        self.request = request
        self._estimate = estimate
        self._amounts: Floats | None = None
        self._expected: Floats | None = None

    @property
    def amounts(self) -> Floats:
        """[R] What it requests; 0 where it gives no amount."""
        if self._amounts is None:
            self._amounts = np.array(self.request.amounts())
        return self._amounts

    @cached_property
    def missing(self) -> Bools:
        """[R] Whether it gives no amount."""
        return np.array([amount is None for amount in self.request.given_amounts()])

    @property
    def expected(self) -> Floats:
        """[R] What it is expected to use."""
        if self._expected is None:
            self._expected = self._estimate.of_request(self.request)
        return self._expected

    @cached_property
    def learned_deviation(self) -> Floats | None:
        """[R] The standard deviation of its usage, as measured instances say; NaN, or None, where they do not."""
        return self._estimate.deviation_of_request(self.request)

    @property
    def chances(self) -> Chances | None:
        """Which stated chances of overload came true; None where nothing is learned."""
        return self._estimate.chances

    @cached_property
    def limits(self) -> Floats:
        """[R] Its limits, at least its request."""
        declared = [float(self.request.limits.get(name, 0.0)) for name in RESOURCES]
        found: Floats = np.maximum(np.array(declared), self.amounts)
        return found

    @cached_property
    def facets(self) -> frozenset[Facet]:
        """What it would be counted by."""
        return facets_of(self.request)

    def amounts_or(self, cpu: float, memory: float) -> Floats:
        """Return [R]: what it requests, ``cpu`` cores or ``memory`` bytes where it gives no amount."""
        return np.where(self.missing, np.array([cpu, memory, *[0.0] * (len(RESOURCES) - 2)]), self.amounts)
