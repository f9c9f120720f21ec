"""Refused messages: a sample of them is kept on the rejects topic, with the reason in their headers. Shell.

A message is kept unchanged up to ``VALUE_BYTES_MAX``; a longer one is cut. Kafka limits the compressed size of a
record, so a message read from the log may be too large to be produced again. Headers of each:

    reason, detail      why it was refused
    partition, offset   its place in the samples topic
    bytes               length of the whole value

All refusals are counted, but not all are kept: for each reason ``BURST`` messages, then ``RATE_HZ`` a second. Failure
to keep a message is counted and logged, and never stops the fold.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from streams.fold.batch import Arrived, Refused
from streams.worker.metrics import Metrics

log = logging.getLogger("windward.stream")

VALUE_BYTES_MAX = 65_536
KEY_BYTES_MAX = 1_024
DETAIL_BYTES_MAX = 500

BURST = 100
RATE_HZ = 10.0

SEND_WAIT_S = 10.0
"""Longest wait for the acknowledgement of all; messages lost by then are counted."""

PAUSE_S = 30.0
"""Pause after the broker did not answer: each try may take the whole wait."""

LOG_S = 10.0
"""Shortest time between two log lines of one reason."""


class Rejects:
    """Keeps refused messages. ``topic`` is a Faust topic; ``clock`` counts seconds."""

    def __init__(self, topic: Any, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = topic
        self._kept = metrics.rejects
        self._clock = clock
        self._room: dict[str, tuple[float, float]] = {}
        """By reason: how many may be kept, and when that was."""
        self._logged: dict[str, float] = {}
        self._paused_until = float("-inf")

    async def keep(self, partition: int, refused: Sequence[tuple[Arrived, Refused]]) -> None:
        """Send a sample of refused messages of one partition and wait until the broker has them."""
        now = self._clock()
        self._log(partition, refused, now)
        chosen = [one for one in refused if self._has_room(one[1].reason, now)]
        self._kept.labels("left-out").inc(len(refused) - len(chosen))
        if not chosen:
            return
        if now < self._paused_until:
            self._kept.labels("lost").inc(len(chosen))
            return
        try:
            lost = await asyncio.wait_for(self._send(partition, chosen), timeout=SEND_WAIT_S)
        except TimeoutError as error:
            lost = [error] * len(chosen)
            self._paused_until = self._clock() + PAUSE_S
        self._kept.labels("kept").inc(len(chosen) - len(lost))
        if lost:
            self._kept.labels("lost").inc(len(lost))
            log.error("stream.rejects.lost", extra={"values": {"messages": len(lost), "error": repr(lost[0])}})

    async def _send(self, partition: int, chosen: Sequence[tuple[Arrived, Refused]]) -> list[BaseException]:
        """Send messages; return one error for each message that the broker did not accept."""
        sent: list[Any] = []
        lost: list[BaseException] = []
        for message, one in chosen:
            try:
                sent.append(await self._topic.send(**_record(partition, message, one)))
            except Exception as error:  # Faust's or aiokafka's, of one message: the others go on
                lost.append(error)
        answers = await asyncio.gather(*sent, return_exceptions=True)
        return lost + [answer for answer in answers if isinstance(answer, BaseException)]

    def _has_room(self, reason: str, now: float) -> bool:
        """Return whether one more message of this reason may be kept, and count it."""
        room, since = self._room.get(reason, (float(BURST), now))
        room = min(float(BURST), room + (now - since) * RATE_HZ)
        self._room[reason] = (max(0.0, room - 1), now) if room >= 1 else (room, now)
        return room >= 1

    def _log(self, partition: int, refused: Sequence[tuple[Arrived, Refused]], now: float) -> None:
        for reason in {one.reason for _, one in refused}:
            if now - self._logged.get(reason, float("-inf")) < LOG_S:
                continue
            self._logged[reason] = now
            message, example = next(one for one in refused if one[1].reason == reason)
            values = {"reason": reason, "detail": example.detail[:200], "partition": partition}
            log.warning("stream.rejected", extra={"values": {**values, "offset": message.offset}})


def _record(partition: int, message: Arrived, refused: Refused) -> dict[str, Any]:
    value = message.value
    return {
        "key": message.key and message.key[:KEY_BYTES_MAX],
        "value": value and value[:VALUE_BYTES_MAX],
        "headers": {
            "reason": refused.reason.encode(),
            "detail": refused.detail.encode(errors="replace")[:DETAIL_BYTES_MAX],
            "partition": str(partition).encode(),
            "offset": str(message.offset).encode(),
            "bytes": str(len(value or b"")).encode(),
        },
    }
