"""Shell: heartbeats of scorers or planners; queries that a dead one had claimed return to their lists."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis

from schemas.process.presence import Presence
from scorer.metrics import AnsweringMetrics
from scorer.settings import AnsweringSettings
from scorer.wire import AWAY, ServerClock, Wire

log = logging.getLogger("windward.scorer")

_REMEMBERED_S = 3600.0
"""A process without a heartbeat for so long is removed from the list."""


class Heartbeat(Presence):
    """Every ``heartbeat_s``: writes a heartbeat, and returns the queries of dead processes of its kind."""

    def __init__(
        self, wire: Wire, metrics: AnsweringMetrics, settings: AnsweringSettings, clock: ServerClock, *where: Any,
        **about: Any,
    ) -> None:  # fmt: skip
        """``where``, ``about``: the arguments of `Presence`."""
        super().__init__(*where, **about, tell_clock=metrics.clock_ahead.set)
        self._wire, self._metrics, self._clock = wire, metrics, clock
        self._lists, self._name = settings.lists, settings.holder
        self.every_s, self._silent_s = settings.heartbeat_s, settings.silent_s

    def _read_clock(self) -> float:
        """Note the process in the list of those that answer, and return the queries of silent ones to their lists.

        The name of a silent process is kept for an hour: if it was only suspended, it may claim a query before its next
        heartbeat. Returns the server's time.
        """
        now_s = self._clock.read(self._wire)
        self.tell(self._clock.ahead_s)
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
        return now_s

    def _return(self, silent: Sequence[str]) -> None:
        """Return the queries that silent processes had claimed to their lists; several processes may do so at once."""
        claimed = [(name, *lists) for name in silent for lists in self._lists.pairs(name)]
        while claimed:
            moved = self._wire.ask([("LMOVE", taken, queue, "LEFT", "RIGHT") for _, taken, queue in claimed])
            claimed = [one for one, query in zip(claimed, moved, strict=True) if isinstance(query, bytes)]
            for name, _, _ in claimed:
                self._metrics.returned.inc()
                log.warning("scorer.query.returned", extra={"values": {"silent": name}})

    def stop(self, *, goodbye: bool = True) -> None:
        """End the heartbeats, and remove the process's name, unless its queries must still be returned."""
        super().stop(goodbye=goodbye)
        with suppress(*AWAY, redis.ResponseError):
            if not any(self._wire.one("LLEN", taken) for taken, _ in self._lists.pairs(self._name)):
                self._wire.one("ZREM", self._lists.answering, self._name)
