"""Fresh: the machine's data is there and recent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scorer.ranking.plugin import Bools, Detail, Floats, Machines, Plugin, Reasons, Request


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
    scope = "machine"
    momentary = True

    age_s_max: float = 60.0
    intervals_max: float = 3.0

    def __post_init__(self) -> None:
        if not self.age_s_max > 0:
            raise ValueError(f"age_s_max: expected more than 0, got {self.age_s_max}")
        if not self.intervals_max >= 0:
            raise ValueError(f"intervals_max: expected zero or more, got {self.intervals_max}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip when the ranking is by requests alone."""
        return not machines.requests_alone

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]; while the last known load is used, every machine that ever sent a sample is allowed."""
        if machines.last_known:
            return machines.has_data
        if machines.rows is not None:
            return machines.age_s <= self._age_s_max(machines)
        if machines.now_s <= machines.of_snapshot("first", lambda m: float(self._until_s(m).min(initial=np.inf))):
            return machines.all_true
        fresh: Bools = machines.now_s <= machines.constant("until", self._until_s)
        return fresh

    def reasons(self, request: Request, machines: Machines) -> Reasons:
        """Tell no data from old data."""
        return {"without data": ~machines.has_data, "stale": ~(machines.age_s <= self._age_s_max(machines))}

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the age and its limit."""
        age_s = float(machines.age_s[position])
        return {
            "age_s": age_s if np.isfinite(age_s) else None,
            "age_s_max": float(self._age_s_max(machines)[position]),
        }

    def _age_s_max(self, machines: Machines) -> Floats:
        return np.fmax(self.age_s_max, self.intervals_max * machines.interval_s)

    def _until_s(self, machines: Machines) -> Floats:
        """Return [n] until when each machine's data is fresh."""
        return machines.seen_at + self._age_s_max(machines)
