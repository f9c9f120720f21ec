"""Target load packing: Trimaran's TargetLoadPacking, for any resource."""

from dataclasses import dataclass
from typing import Any, Literal

from schemas.resources import RESOURCES
from schemas.values.numbers import finite
from scorer.ranking.kernel.layout import struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request, ResourceName


@dataclass(frozen=True)
class TargetLoadPacking(Plugin):
    """Fill machines up to a target utilization of one resource, then avoid them.

    ``U = (mean + expected) / limit``, the mean with the credits of placed instances. The peer's numbers come with its
    estimate (``base = "limit-first"``, factor 1.5, default 1 core) and credits ``trimaran-60s``, which the profile
    ``trimaran`` sets. A machine without data scores 0; one with a limit of 0 counts as utilization 0, as in the peer.

    target:
        share of the limit, 0-1.
    resource:
        the resource that is packed; the peer has only cpu, the in-house study needed memory.
    limit:
        ``allocatable``, or ``capacity`` as the peer.
    rounding:
        round half away from zero, as the peer.

    Reference: Trimaran, pkg/trimaran/targetloadpacking/targetloadpacking.go.
    """

    name = "target_load_packing"
    struct = struct(target="f8", resource="i4", of_capacity="i4", rounding="i4")

    target: float = 0.4
    resource: ResourceName = "cpu"
    limit: Literal["allocatable", "capacity"] = "allocatable"
    rounding: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise ValueError(f"target: expected more than 0 and at most 1, got {self.target}")

    def derived(self) -> dict[str, Any]:
        resource, of_capacity = RESOURCES.index(self.resource), self.limit == "capacity"
        return {"target": self.target * 100.0, "resource": resource, "of_capacity": of_capacity}

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"utilization_percent": finite(said[0]), "target_percent": self.target * 100.0}
