"""Load variation risk: Trimaran's LoadVariationRiskBalancing, and the reduced form of the in-house study."""

from dataclasses import dataclass
from typing import Any, Literal

from scorer.ranking.kernel.layout import R, struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request, ResourceName, by_resource


@dataclass(frozen=True)
class LoadVariationRisk(Plugin):
    """Prefer machines whose load is low and steady: ``100 * (1 - risk)`` for the worst resource.

    Per resource ``mu = (mean + expected) / allocatable``, ``sigma = std / allocatable``, both clipped to 0-1, and
    ``risk = (mu + min(margin * sigma^(1/sensitivity), 1)) / 2``. So a full but steady machine scores 50. The instance's
    own standard deviation counts as 0. A resource without data is left out. A machine without any data scores 0, and so
    does one whose allocatable amount of a measured resource is 0.

    resources:
        the resources compared; the peer has cpu and memory.
    margin, sensitivity:
        as above; a higher sensitivity makes small deviations count more.
    form:
        ``trimaran``; ``reduced``: ``risk = min(mu + sigma, 1)``, which loses all order among busy machines.
    newcomer:
        ``expected``: its expected usage; ``request``, as the peer.
    rounding:
        round the result half away from zero, as the peer does.

    Reference: Trimaran, pkg/trimaran/loadvariationriskbalancing/analysis.go.
    """

    name = "load_variation_risk"
    struct = struct(margin="f8", sensitivity="f8", by_requests="i4", reduced="i4", rounding="i4", used=("?", R))

    margin: float = 1.0
    sensitivity: float = 1.0
    resources: tuple[ResourceName, ...] = ("cpu", "memory")
    form: Literal["trimaran", "reduced"] = "trimaran"
    newcomer: Literal["request", "expected"] = "expected"
    rounding: bool = False

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise ValueError(f"margin: expected zero or more, got {self.margin}")
        if not self.sensitivity >= 0:
            raise ValueError(f"sensitivity: expected zero or more, got {self.sensitivity}")
        if not self.resources:
            raise ValueError("resources: expected at least one")

    def derived(self) -> dict[str, Any]:
        return {
            "by_requests": self.newcomer == "request", "reduced": self.form == "reduced", "used": self.resources,
        }  # fmt: skip

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        risks = by_resource(said, 0, self.resources)
        return {"risk": max((risk for risk in risks.values() if risk is not None), default=None), "risks": risks}
