"""Data that a recording lacks, as text: how it was filled in, or that it was left out."""

from __future__ import annotations

from dataclasses import dataclass

from ops.record.entry import Gap
from ops.replay.recorded.usage import Filled
from ops.replay.workload import MINUTE_S, Workload
from schemas.values.durations import duration


@dataclass(frozen=True)
class Missing:
    """The data that a recording lacks."""

    gaps: tuple[Gap, ...]
    filled: Filled
    never_ran: int
    guessed_ends: int
    unknown_machines: int
    """Machines without a known number of cores: left out."""
    moved: int
    refused: int
    """Instances that were refused in the recorded time."""
    unrecorded_s: float
    """The part of the requested time before the first or after the last entry, s."""

    def lines(self, world: Workload) -> list[str]:
        """Return a line for each kind of missing data."""
        count, minutes = len(world.instances), world.minutes * len(world.machines)
        filled = self.filled
        said = [
            (self.unrecorded_s >= MINUTE_S, f"{duration(self.unrecorded_s)} of the time asked for were not recorded"),
            (filled.shared, f"{filled.shared} of {count} instances have no usage: a share of what their machine used"),
            (filled.asked, f"{filled.asked} of {count} instances have no usage, nor their machine: what they ask for"),
            (filled.held, f"{filled.held} minutes of instances without a report: the value before holds"),
            (filled.unmeasured, f"{filled.unmeasured} of {minutes} minutes of machines without a sample: likewise"),
            (self.guessed_ends, f"{self.guessed_ends} instances whose end was not recorded: when they were missed"),
            (self.never_ran, f"{self.never_ran} reservations that were never confirmed: left out"),
            (self.refused, f"{self.refused} instances were refused: left out, since their usage is unknown"),
            (self.moved, f"{self.moved} instances were moved: placed once here"),
            (self.unknown_machines, f"{self.unknown_machines} machines without a known number of cores: left out"),
        ]
        lines = [line for there, line in said if there]
        return lines + [
            f"gap: {gap.source}, {duration(gap.until - gap.since)}"
            + (f", {gap.lost} messages" if gap.lost else "")
            + f": {gap.why}"
            for gap in self.gaps
        ]
