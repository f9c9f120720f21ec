"""Fresh: the machine has data, and it is recent."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.values.numbers import finite
from scorer.ranking.kernel.layout import struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Fresh(Plugin):
    """Refuse machines whose newest sample is older than ``age_s_max``, or that never sent one.

    While the pipeline is silent and the profile ranks by the last known load (``stale = "last-known"``), age is no
    reason to refuse: when the data of every machine is old, this is no difference between them.

    A machine that publishes rarely is given ``intervals_max`` of its own intervals where that is longer. Age is by the
    sample's own time, corrected by the machine's learned clock skew.
    """

    name = "fresh"
    reason = "stale"
    momentary = True
    struct = struct(age_s_max="f8", intervals_max="f8")

    age_s_max: float = 60.0
    intervals_max: float = 3.0

    def __post_init__(self) -> None:
        if not self.age_s_max > 0:
            raise ValueError(f"age_s_max: expected more than 0, got {self.age_s_max}")
        if not self.intervals_max >= 0:
            raise ValueError(f"intervals_max: expected zero or more, got {self.intervals_max}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        return not machines.requests_alone

    @property
    def reasons(self) -> Sequence[str]:
        return ("without data", "stale")

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"age_s": finite(said[0]), "age_s_max": float(said[1])}
