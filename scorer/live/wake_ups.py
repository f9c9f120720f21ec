"""Shell: waits until windows or operators' rules are written; their writers publish on a channel.

A message may be lost: with its connection, or with a writer that dies before it sends it. So a wait lasts at most
`LOOK_S`, after which everything is checked. A Redis user without the right to subscribe waits for `LOOK_S` each time.
"""

import logging
import threading
import time
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.names import Names
from schemas.process.redis_url import connected
from scorer.wire import ANSWER_S, AWAY, check_primary

log = logging.getLogger("windward.scorer")

LOOK_S = 1.0
"""The longest wait."""
STOP_S = 0.2
"""How soon a wait ends after ``stopping`` is set."""


class WakeUps:
    """A subscription, with a connection of its own that opens at the first wait and again after a failure."""

    def __init__(self, arguments: dict[str, Any], names: Names, stopping: threading.Event) -> None:
        self._client = connected(
            redis.Redis, **arguments, protocol=2, socket_timeout=ANSWER_S, socket_connect_timeout=2.0,
            retry=Retry(NoBackoff(), 0),
        )  # fmt: skip
        self._channel = names.changed
        self._stopping = stopping
        self._messages: Any = None
        self._refused = False

    def wait(self) -> set[int] | None:
        """Wait for messages; return the partitions that they name. None: check all partitions."""
        deadline = time.monotonic() + LOOK_S
        try:
            if self._messages is None:
                self._messages = self._client.pubsub(ignore_subscribe_messages=True)
                self._messages.subscribe(self._channel)
                return None  # what was written before is looked for once
            while not self._stopping.is_set() and (left := deadline - time.monotonic()) > 0:
                message = self._messages.get_message(timeout=min(left, STOP_S))
                if message is not None:
                    return self._waiting(message)
            check_primary(self._messages.connection)
        except redis.ResponseError as error:
            if not self._refused:
                log.warning("scorer.wake_ups.refused", extra={"values": {"error": str(error)}})
            self._refused = True
            self._pause(deadline)
        except AWAY:
            self._pause(deadline)
        return None

    def _waiting(self, message: dict[str, Any] | None) -> set[int] | None:
        """Return the partitions named by this message and by those queued behind it."""
        named: set[int] = set()
        while message is not None:
            try:
                named.update(int(partition) for partition in message["data"].split(b",") if partition)
            except ValueError:
                return None
            message = self._messages.get_message(timeout=0.0)
        return named

    def _pause(self, deadline: float) -> None:
        self.close()
        self._stopping.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Close the connection; the next wait opens a new one."""
        if self._messages is not None:
            self._messages.close()
            self._messages = None
