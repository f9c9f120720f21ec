"""The readings of one resource in one interval, reduced to their moments one by one.

Welford's update, which never subtracts large sums:

    d = x - mean,  mean += d / n,  m2 += d · (x - mean)
"""

from schemas.messages.sample import Moments


class Readings:
    """n, mean, m2 and max of the values added so far, and the last capacity.

    >>> readings = Readings()
    >>> for usage in (1.0, 2.0, 3.0):
    ...     readings.add(usage, capacity=4.0)
    >>> readings.moments()
    Moments(n=3, mean=2.0, m2=2.0, max=3.0, capacity=4.0)
    """

    __slots__ = ("capacity", "m2", "max", "mean", "n")

    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0
        self.m2 = 0.0
        self.max = 0.0
        self.capacity = 0.0

    def add(self, usage: float, capacity: float) -> None:
        """Add one reading. Of a machine that has shrunk, all earlier ones are dropped if one exceeds its capacity."""
        if self.max > capacity and capacity < self.capacity:
            self.__init__()  # type: ignore[misc]
        self.n += 1
        distance = usage - self.mean
        self.mean += distance / self.n
        self.m2 += distance * (usage - self.mean)
        self.max = max(self.max, usage)
        self.capacity = capacity

    def moments(self) -> Moments:
        """Return the moments of one or more readings."""
        return Moments(n=self.n, mean=self.mean, m2=self.m2, max=self.max, capacity=self.capacity)
