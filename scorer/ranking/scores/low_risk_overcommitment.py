"""Low risk overcommitment: Trimaran's LowRiskOverCommitment, with beta distributions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scorer.ranking.kernel.layout import R, struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request, by_resource, check_thresholds


@dataclass(frozen=True)
class LowRiskOvercommitment(Plugin):
    """Prefer machines where neither limits nor load are likely to exceed the capacity: ``100 * (1 - risk)``.

    Per resource ``risk = w * limit risk + (1 - w) * load risk`` (`limit_risk`, `load_risk`), for the worst resource.
    The requested instance counts by its limit only; load is compared with the requests of the instances already placed.
    The std is multiplied by the square root of the smoothing window. Limits are at least the requests. A best-effort
    request and a machine without any data score 0.

    smoothing_window:
        samples over which the input was averaged before its std was taken; 1 for windows whose std is over the
        readings themselves, as Windward's is; the peer's default is 5.
    limit_weights:
        w by resource.
    rounding:
        round half away from zero, as the peer does.

    Reference: Trimaran, pkg/trimaran/lowriskovercommitment/.
    """

    name = "low_risk_overcommitment"
    struct = struct(smoothing="f8", weights=("f8", R), rounding="i4", used=("?", R))

    smoothing_window: float = 5.0
    limit_weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 0.5, "memory": 0.5})
    rounding: bool = False

    def __post_init__(self) -> None:
        if not self.smoothing_window > 0:
            raise ValueError(f"smoothing_window: expected more than 0, got {self.smoothing_window}")
        check_thresholds("limit_weights", self.limit_weights)
        if not self.limit_weights:
            raise ValueError("limit_weights: expected at least one resource")

    def derived(self) -> dict[str, Any]:
        weights = self.limit_weights
        return {"smoothing": math.sqrt(self.smoothing_window), "weights": weights, "used": tuple(weights)}

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"risks": by_resource(said, 0, tuple(self.limit_weights))}
