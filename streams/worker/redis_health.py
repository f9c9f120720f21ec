"""Whether Redis answered the last call: logged once when it stops, exported by the page ``/ready``. Shell."""

from __future__ import annotations

import logging

from redis.exceptions import RedisError

from schemas.process.redis_url import in_words
from streams.worker.metrics import Metrics

log = logging.getLogger("windward.stream")


class RedisHealth:
    """The state of a worker's Redis; ``ok`` is None before the first call."""

    def __init__(self, metrics: Metrics) -> None:
        self.ok: bool | None = None
        self._metrics = metrics

    def answered(self) -> None:
        """Note a call that was answered; the first after some that were not is logged."""
        if self.ok is False:
            log.info("stream.redis.back")
        self.ok = True

    def failed(self, doing: str, error: RedisError) -> None:
        """Count a call that failed; the first in a row is logged."""
        if self.ok is not False:
            log.error("stream.redis.away", extra={"values": {"doing": doing, "error": in_words(error)}})
        self.ok = False
        self._metrics.flush_failures.labels("redis").inc()
