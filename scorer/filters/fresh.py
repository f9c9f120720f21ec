"""Fresh: the machine's data is there and recent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from schemas.request import Request
from scorer.fleet import Fleet
from scorer.machines import Machines
from scorer.snapshot import Bools, Floats


@dataclass(frozen=True)
class Fresh:
    """Refuse machines whose newest sample is older than ``age_s_max``, or that never sent one.

    A machine that publishes rarely is given ``intervals_max`` of its own intervals where that is longer. Age is by the
    sample's own time, corrected by the machine's learned clock skew.
    """

    name: ClassVar[str] = "fresh"
    reason: ClassVar[str] = "stale"

    age_s_max: float = 60.0
    intervals_max: float = 3.0

    def __post_init__(self) -> None:
        if not self.age_s_max > 0:
            raise ValueError(f"age_s_max: expected more than 0, got {self.age_s_max}")
        if not self.intervals_max >= 0:
            raise ValueError(f"intervals_max: expected zero or more, got {self.intervals_max}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip when the profile decided to go by requests alone."""
        return not machines.fleet.requests_alone

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        if machines.rows is not None:
            return machines.age_s <= self._age_s_max(machines)
        until_s, first_s = self._fresh_until(machines.fleet)
        return machines.everybody if machines.now_s <= first_s else machines.now_s <= until_s

    def reasons(self, request: Request, machines: Machines) -> Mapping[str, Bools]:
        """Tell no data from old data."""
        return {"without data": ~machines.has_data, "stale": ~(machines.age_s <= self._age_s_max(machines))}

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show the age and its limit."""
        age_s = float(machines.age_s[position])
        return {
            "age_s": age_s if np.isfinite(age_s) else None,
            "age_s_max": float(self._age_s_max(machines)[position]),
        }

    def _age_s_max(self, machines: Machines) -> Floats:
        """Return [n]."""
        return np.fmax(self.age_s_max, self.intervals_max * machines.interval_s)

    def _fresh_until(self, fleet: Fleet) -> tuple[Floats, float]:
        """Return [M] until when each machine's data is fresh, and the earliest of them."""
        found: tuple[Floats, float] | None = fleet.fixed.get(self)
        if found is None:
            until_s = fleet.snapshot.seen_at + self._age_s_max(fleet.everything)
            found = fleet.fixed[self] = (until_s, float(until_s.min()) if until_s.size else 0.0)
        return found
