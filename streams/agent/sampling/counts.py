"""The agent's counters: plain numbers, which cost nothing while no metrics page is served."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Counts that the sampler and the publisher increase; the metrics page and the last log line read them."""

    samples: int = 0
    """Samples made."""
    readings: Counter[str] = field(default_factory=Counter)
    """Readings taken, by resource."""
    collector_failures: Counter[str] = field(default_factory=Counter)
    """Readings that raised, by resource."""
    impossible: Counter[str] = field(default_factory=Counter)
    """Readings left out since a counter rose by more than the elapsed time allows, by resource."""
    lacks: dict[str, str] = field(default_factory=dict)
    """By resource without a present reading: the reason."""
    delivered: int = 0
    """Records the broker acknowledged."""
    dropped: int = 0
    """Records dropped from a full backlog."""
    refused: int = 0
    """Records the broker will never take."""
    send_failures: int = 0
    """Rounds of sending that failed; their records went back to the backlog."""
    connections: int = 0
    """Producers built."""
    waiting: int = 0
    """Records in the backlog now."""
    in_flight: int = 0
    """Records sent and not yet acknowledged."""
    last_delivery_s: float = 0.0
    """Epoch s of the last acknowledgement."""
    clock_ahead_s: float | None = None
    """How far this machine's clock is ahead of the broker's; None: not known."""
    instances: int = 0
    """Instances in the last report."""
    instance_reports: int = 0
    """Reports of instances made."""
    instance_troubles: Counter[str] = field(default_factory=Counter)
    """Instances that could not be measured completely, by kind."""

    def results(self, left: int) -> dict[str, int]:
        """Return the outcomes of the records, for the last log line; ``left``: the number given up."""
        known = {"delivered": self.delivered, "dropped": self.dropped, "refused": self.refused}
        return {**known, "undelivered": left}
