"""The settings of over-commit by class: how much is reclaimed, and from which figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from schemas.resources import RESOURCES

Policy = Literal["usage", "request", "max-usage-request"]
SHARE_MAX = 10.0


@dataclass(frozen=True)
class Reclaim:
    """Settings of reclaimable capacity; the defaults are Koordinator's.

    share:
        by resource, the share of capacity that all classes together may take; the rest is a safety margin. Above 1 the
        machine is over-committed even by what is in use. Only resources named here are sold by class; the others are
        counted for all classes together.
    policy:
        by resource, what prod and mid are counted by for batch: ``usage``; ``request``; ``max-usage-request``, of each
        instance the larger one. Default ``usage``.
    batch_share:
        by resource, the share of capacity that batch gets at most. Without one it has no other limit.
    mid_share:
        by resource, the share of capacity that mid gets at most. Default 1.
    mid_unallocated:
        share of the capacity that prod has not requested that mid gets in addition to the prediction.
    mid_static:
        by resource, if given: mid gets this share of capacity, whatever is predicted.
    degrade_s:
        nothing is reclaimed of a machine whose data is older than this.
    peak_margin:
        by how much a predicted peak is raised.
    """

    share: Mapping[str, float] = field(default_factory=lambda: {"cpu": 0.6, "memory": 0.65})
    policy: Mapping[str, Policy] = field(default_factory=dict)
    batch_share: Mapping[str, float] = field(default_factory=dict)
    mid_share: Mapping[str, float] = field(default_factory=dict)
    mid_unallocated: float = 0.0
    mid_static: Mapping[str, float] = field(default_factory=dict)
    degrade_s: float = 900.0
    peak_margin: float = 0.1

    def __post_init__(self) -> None:
        if not self.share:
            raise ValueError("share: expected at least one resource")
        for name in ("share", "policy", "batch_share", "mid_share", "mid_static"):
            for resource in getattr(self, name):
                if resource not in RESOURCES:
                    raise ValueError(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
                if name != "share" and resource not in self.share:
                    raise ValueError(f"{name}.{resource}: share names no {resource}, so it is not sold by class")
        for name in ("share", "batch_share", "mid_share", "mid_static"):
            for resource, share in getattr(self, name).items():
                if not 0 <= share <= SHARE_MAX:
                    raise ValueError(f"{name}.{resource}: expected 0 to {SHARE_MAX:g}, got {share}")
        if not 0 <= self.mid_unallocated <= 1:
            raise ValueError(f"mid_unallocated: expected 0 to 1, got {self.mid_unallocated}")
        if not 0 < self.degrade_s < float("inf"):
            raise ValueError(f"degrade_s: expected more than 0, got {self.degrade_s}")
        if not 0 <= self.peak_margin <= SHARE_MAX:
            raise ValueError(f"peak_margin: expected 0 to {SHARE_MAX:g}, got {self.peak_margin}")

    @property
    def rows(self) -> list[int]:
        """The resources that are sold by class, as rows of a resource axis."""
        return [row for row, name in enumerate(RESOURCES) if name in self.share]
