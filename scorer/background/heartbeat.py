"""Shell: heartbeats of scorers or planners; queries that a dead one had claimed return to their lists."""

import logging
from collections.abc import Sequence
from contextlib import suppress

import redis

from schemas.messages.process import CLOCK_OFF_S
from scorer.background.thread import BackgroundThread
from scorer.metrics import AnsweringMetrics
from scorer.settings import AnsweringSettings
from scorer.wire import AWAY, ServerClock, Wire

log = logging.getLogger("windward.scorer")

_REMEMBERED_S = 3600.0
"""A process without a heartbeat for so long is removed from the list."""


class Heartbeat(BackgroundThread):
    """Every ``heartbeat_s``: writes a heartbeat, and returns the queries of dead processes of its kind."""

    def __init__(self, wire: Wire, metrics: AnsweringMetrics, settings: AnsweringSettings, clock: ServerClock) -> None:
        super().__init__("heartbeat", wire)
        self._wire = wire
        self._clock = clock
        self._clock_off = False
        self._lists = settings.lists
        self._name = settings.holder
        self._metrics = metrics
        self._heartbeat_s = settings.heartbeat_s
        self._silent_s = settings.silent_s

    def beat(self) -> None:
        """Write one heartbeat, and return the queries of silent processes to their lists.

        The name of a silent process is kept for an hour: if it was only suspended, it may claim a query before its next
        heartbeat.
        """
        now_s = self._clock.read(self._wire)
        self._tell_clock(self._clock.ahead_s)
        names = self._lists.answering
        _, _, silent = self._wire.ask(
            [
                ("ZADD", names, now_s, self._name),
                ("ZREMRANGEBYSCORE", names, "-inf", now_s - _REMEMBERED_S),
                ("ZRANGEBYSCORE", names, "-inf", now_s - self._silent_s),
            ]
        )
        if isinstance(silent, list) and silent:
            self._return([name.decode(errors="replace") for name in silent])

    def _tell_clock(self, ahead_s: float) -> None:
        """Report how far this host's clock is off; queries are answered nevertheless."""
        self._metrics.clock_ahead.set(ahead_s)
        if (abs(ahead_s) > CLOCK_OFF_S) != self._clock_off:
            self._clock_off = not self._clock_off
            word = "scorer.clock.off" if self._clock_off else "scorer.clock.right"
            log.warning(word, extra={"values": {"ahead_s": round(ahead_s, 3)}})

    def _return(self, silent: Sequence[str]) -> None:
        """Return the queries that silent processes had claimed to their lists; several processes may do so at once."""
        claimed = [(name, *lists) for name in silent for lists in self._lists.pairs(name)]
        while claimed:
            moved = self._wire.ask([("LMOVE", taken, queue, "LEFT", "RIGHT") for _, taken, queue in claimed])
            claimed = [one for one, query in zip(claimed, moved, strict=True) if isinstance(query, bytes)]
            for name, _, _ in claimed:
                self._metrics.returned.inc()
                log.warning("scorer.query.returned", extra={"values": {"silent": name}})

    def run(self) -> None:
        """Write heartbeats until `stop`, then remove the process's name, unless its queries must still be returned."""
        while not self.stopping.is_set():
            try:
                self.beat()
            except AWAY:
                pass
            except redis.ResponseError as error:
                log.warning("scorer.heartbeat.refused", extra={"values": {"error": str(error)}})
            self.stopping.wait(self._heartbeat_s)
        with suppress(*AWAY, redis.ResponseError):
            if not any(self._wire.one("LLEN", taken) for taken, _ in self._lists.pairs(self._name)):
                self._wire.one("ZREM", self._lists.answering, self._name)
