"""A rule of a profile: how the members of a group are spread, for each request that the profile places.

[[rules]]
group = ["cluster", "role"]           # the fields or labels that its members have in common
topology = "rack"                     # or "machine"
at_most = 3                           # or share = 0.5, or skew = 1
"""

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from schemas.rpc.request import Affinity, Request

RULES_MAX = 32


@dataclass(frozen=True)
class ProfileRule:
    """One entry of ``[[rules]]``: a term of ``anti_affinity`` for each request that has all fields of its group."""

    name: ClassVar[str] = "a rule"

    group: tuple[str, ...] = ("cluster",)
    topology: str = "machine"
    at_most: int = 0
    share: float = 0.0
    skew: int = 0

    def __post_init__(self) -> None:
        if not all(self.group):
            raise ValueError("group: expected names of fields or labels, such as cluster")
        if not self.topology:
            raise ValueError("topology: expected machine, or a label of machines")
        for name in ("at_most", "share", "skew"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected a number of zero or more, got {getattr(self, name)}")
        if self.share > 1:
            raise ValueError(f"share: expected at most 1, got {self.share}")
        if (self.at_most > 0) + (self.share > 0) + (self.skew > 0) != 1:
            raise ValueError("a rule has one limit: at_most, share or skew")

    def terms(self, request: Request) -> list[Affinity]:
        """Return the rule as a term for the group of a request; none where the request names no such group."""
        fields = {"cluster": request.cluster, "role": request.role, "kind": request.kind}
        group = {name: fields.get(name) or request.labels.get(name, "") for name in self.group}
        if not (group and all(group.values())):
            return []
        return [Affinity(group, self.topology, max(self.at_most - 1, 0), self.share, self.skew)]


def with_rules(rules: tuple[ProfileRule, ...], request: Request) -> Request:
    """Return a request with the rules of its profile that are about it, besides its own."""
    terms = [term for rule in rules for term in rule.terms(request) if term not in request.anti_affinity]
    return msgspec.structs.replace(request, anti_affinity=(*request.anti_affinity, *terms)) if terms else request
