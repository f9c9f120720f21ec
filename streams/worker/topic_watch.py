"""Watches the samples topic: reads its id and its number of partitions at intervals. Shell.

A new id under the same name is a new topic, which is read from its start and folded into the same state. The number of
partitions is written to Redis, where scorers read from it how many window tables there are.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kafka.errors import KafkaError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from schemas.values.redis_settings import wrong_settings
from streams.worker.redis_health import RedisHealth
from streams.worker.servers import Servers
from streams.worker.settings import StreamSettings
from streams.worker.topics import check_topics, ensure_topics, topic_id

log = logging.getLogger("windward.stream")

_RETRY_S = 0.5

GRACE_S = 15.0
"""A broker that has not answered for so long after a check was due is away."""


@dataclass(eq=False)
class TopicWatch:
    """Checks the topic; each check awaits ``seen(changed)``, with whether it is another topic than before."""

    settings: StreamSettings
    redis: Redis
    windows: Servers
    health: RedisHealth
    seen: Callable[[bool], Awaitable[None]]
    topic_id: str = ""
    """Id of the topic at the last check; "" before the first."""
    _broker_away: bool = False
    _answered_at: float = float("-inf")
    _redis_checked: bool = False

    @property
    def broker_up(self) -> bool:
        """Whether the broker answered recently; one failed check does not count."""
        return time.monotonic() - self._answered_at < self.settings.broker_check_s + GRACE_S

    async def await_topic(self) -> None:
        """Wait until the broker has the topics; create missing ones.

        Call before Faust starts: if it subscribes to a missing topic it gets no partitions for minutes.
        """
        while not await self.look():
            await asyncio.sleep(_RETRY_S)

    async def look(self) -> bool:
        """Read the topic's id and write its number of partitions to Redis; return whether the broker answered."""
        try:
            count = await asyncio.to_thread(ensure_topics, self.settings)
            current = await asyncio.to_thread(topic_id, self.settings)
        except (KafkaError, OSError) as error:
            if not self._broker_away:
                log.warning("stream.broker.away", extra={"values": {"error": repr(error)}})
            self._broker_away = True
            return False
        if self._broker_away:
            log.warning("stream.broker.back")
        self._broker_away = False
        self._answered_at = time.monotonic()
        await self._note(current)
        await self._check_redis()
        try:
            await self.redis.set(self.settings.names.partitions, count)
            self.health.answered()
        except RedisError as error:
            self.health.failed("announce", error)
        return True

    async def _note(self, current: str) -> None:
        before, self.topic_id = self.topic_id, current
        if before not in ("", current):
            log.warning("stream.topic.changed", extra={"values": {"old": before, "new": current}})
        if before != current:
            await self._check_settings()
        await self.seen(current != before)

    async def _check_settings(self) -> None:
        """Log wrong settings of a topic when it is first seen."""
        try:
            await asyncio.to_thread(check_topics, self.settings)
        except (KafkaError, OSError) as error:
            log.warning("stream.topic.settings_unknown", extra={"values": {"error": repr(error)}})

    async def _check_redis(self) -> None:
        """Log wrong settings of Redis, once."""
        if self._redis_checked:
            return
        self._redis_checked = True
        try:
            found = await self.windows.each(lambda redis: redis.info("memory"))
        except RedisError as error:
            log.warning("stream.redis.settings_unknown", extra={"values": {"error": repr(error)}})
            return
        for problem in dict.fromkeys(problem for info in found for problem in wrong_settings(info)):
            log.warning("stream.redis.wrong_setting", extra={"values": {"problem": problem}})
