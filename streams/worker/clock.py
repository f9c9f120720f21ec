"""Detects that this worker's clock is behind: then most records are ahead of it. Pure."""

from __future__ import annotations

import math

MEMORY_S = 60.0
"""A record read so long ago has a weight of 1/e."""

RECORDS_MIN = 10.0
"""With fewer records the share is taken as 0."""


class ClockWatch:
    """The share of recently read records whose time was too far ahead of this worker's clock."""

    def __init__(self) -> None:
        self._records = self._ahead = 0.0
        self._since = 0.0

    def note(self, records: int, ahead: int, now: float) -> None:
        """Note records that were read, of which some were refused for being ahead; ``now`` counts seconds."""
        kept = math.exp(-max(0.0, now - self._since) / MEMORY_S)
        self._records, self._ahead, self._since = self._records * kept + records, self._ahead * kept + ahead, now

    @property
    def ahead(self) -> float:
        """The share, 0 to 1; 0 with too few records.

        >>> watch = ClockWatch()
        >>> watch.note(40, 10, 0.0)
        >>> watch.ahead
        0.25
        """
        return self._ahead / self._records if self._records >= RECORDS_MIN else 0.0

    @property
    def behind(self) -> bool:
        """Whether most records are ahead: then this clock is wrong, not theirs."""
        return self.ahead > 0.5
