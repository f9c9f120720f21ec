"""The learned estimate: an instance is expected to use the learned part of what it asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from schemas.tables.learned import Learned
from scorer.ledger.view.slots import PlacedInstances, code_of_kind
from scorer.ranking.estimates.estimate import Estimate
from scorer.snapshot.arrays import Floats


@dataclass(frozen=True)
class LearnedEstimate(Estimate):
    """``expected = request * learned factor``, of the instance's kind where that is known to differ.

    This holds for the requested instance and for placed ones. An explicit ``expected`` wins; so does a factor that the
    profile gives for a resource, and the profile's default where no amount is asked. With a base other than the request
    nothing is learned, and the estimate is unchanged.
    """

    version: int = 0
    factors: tuple[tuple[str, float], ...] = ()
    kinds: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()

    @classmethod
    def of_learned(cls, estimate: Estimate, learned: Learned) -> LearnedEstimate:
        """Return the profile's estimate with the learned factors."""
        by_kind = sorted((kind, tuple(sorted(of.items()))) for kind, of in learned.kinds.items())
        return cls(
            estimate.base, estimate.factor, estimate.default, estimate.round_to,
            learned.version, tuple(sorted(learned.factors.items())), tuple(by_kind),
        )  # fmt: skip

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A hashable form, for caches; it does not include the version, so that equal factors are equal."""
        plain = Estimate(self.base, self.factor, self.default, self.round_to)
        return (*plain.key, self.factors, self.kinds)

    @cached_property
    def own_kinds(self) -> frozenset[tuple[str, str]]:
        """Kind and resource, where the kind has a factor of its own."""
        return frozenset((kind, name) for kind, factors in self.kinds for name, _ in factors)

    def part(self, resource: str, kind: str = "") -> float | None:
        """Return the learned part of a resource that an instance of a kind uses; None where nothing is learned."""
        if self.base != "request" or resource in (self.factor or {}):
            return None
        own = dict(dict(self.kinds).get(kind, ()))
        return own.get(resource, dict(self.factors).get(resource))

    def _of_placed(self, placed: PlacedInstances) -> Floats:
        parts = self._parts[""]
        if self.kinds:
            parts = np.broadcast_to(parts, placed.amounts.shape).copy()
            for kind, _ in self.kinds:
                parts[:, placed.kinds == code_of_kind(kind)] = self._parts[kind]
        parts = np.where(placed.missing, 1.0, parts)
        return np.where(np.isnan(placed.expected), super()._of_placed(placed) * parts, placed.expected)

    def of_request(self, request: Request) -> Floats:
        """Return [R] for the requested instance."""
        parts = self._parts.get(request.kind, self._parts[""])[:, 0]
        if not (request.expected or self.default):
            return super().of_request(request) * parts
        given = zip(RESOURCES, request.given_amounts(), strict=True)
        own = np.array([name in request.expected or amount is None for name, amount in given])
        return super().of_request(request) * np.where(own, 1.0, parts)

    @cached_property
    def _parts(self) -> dict[str, Floats]:
        """[R, 1] By kind, those of all other kinds under ""; 1 where nothing is learned."""
        found = {}
        for kind in ("", *dict(self.kinds)):
            parts = [self.part(name, kind) for name in RESOURCES]
            found[kind] = np.array([[1.0 if part is None else part] for part in parts])
        return found
