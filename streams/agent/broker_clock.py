"""The offset of this machine's clock from the broker's, by the broker's time stamps of records. Pure.

A record that was sent at s and acknowledged at a, by this clock, and taken at b by the broker's, was taken between the
two. So this clock is ahead by s - b at least and a - b at most. The narrowest of the last `KEPT` such pairs counts. A
topic that keeps the sender's times (CreateTime) gives them back: then nothing is known.
"""

from collections import deque

from schemas.messages.process import CLOCK_OFF_S

KEPT = 8


class BrokerClock:
    """The bounds on the offset; all times in epoch seconds.

    >>> clock = BrokerClock()
    >>> clock.note(1060.0, 1000.0, 1060.2)
    True
    >>> clock.ahead_s, clock.is_off
    (60.1, True)
    """

    def __init__(self) -> None:
        self._bounds: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self.ahead_s: float | None = None
        """How far this clock is ahead of the broker's, below 0: behind; None: not known."""
        self.is_off = False
        """Whether it is surely further off than `CLOCK_OFF_S`."""

    def note(self, sent_s: float, taken_s: float, acknowledged_s: float) -> bool:
        """Add one record's times; return whether `is_off` has changed.

        After the clock was set, earlier pairs are dropped.
        """
        if taken_s == sent_s or acknowledged_s < sent_s:
            return False
        low, high = sent_s - taken_s, acknowledged_s - taken_s
        if any(high < least or low > most for least, most in self._bounds):
            self._bounds.clear()
        self._bounds.append((low, high))
        low, high = min(self._bounds, key=lambda bound: bound[1] - bound[0])
        self.ahead_s = round((low + high) / 2, 3)
        was_off, self.is_off = self.is_off, low > CLOCK_OFF_S or high < -CLOCK_OFF_S
        return self.is_off != was_off
