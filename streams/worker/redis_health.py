"""Whether Redis answered the last calls: logged once when it stops, exported by the page ``/ready``. Shell.

Partitions may be on several servers, so the state is kept for each of them, and once for all other calls.
"""

import logging
from collections.abc import Iterable

from redis.exceptions import RedisError

from schemas.process.redis_url import in_words
from streams.worker.metrics import Metrics

log = logging.getLogger("windward.stream")


class RedisHealth:
    """The state of a worker's Redis; ``ok`` is None before the first call."""

    def __init__(self, metrics: Metrics) -> None:
        self.ok: bool | None = None
        self._failing: set[int | None] = set()
        self._metrics = metrics

    def answered(self, partition: int | None = None) -> None:
        """Record an answered call; it is logged if it ends the last failure."""
        self._failing.discard(partition)
        self._note()

    def keep(self, partitions: Iterable[int]) -> None:
        if self.ok is not None:
            self._failing &= {None, *partitions}
            self._note()

    def _note(self) -> None:
        if self.ok is False and not self._failing:
            log.info("stream.redis.back")
        self.ok = not self._failing

    def failed(self, doing: str, error: RedisError, partition: int | None = None) -> None:
        """Record a failed call; the first in a row is logged."""
        if not self._failing:
            log.error("stream.redis.away", extra={"values": {"doing": doing, "error": in_words(error)}})
        self._failing.add(partition)
        self.ok = False
        self._metrics.flush_failures.labels("redis").inc()
