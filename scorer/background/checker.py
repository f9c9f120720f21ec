"""Shell: one scorer at a time checks the ledger, when it starts and at intervals; differences are only reported.

    every 10 s: look at the settings of the ledger's server; read what the last check found -> metrics, `health`
                is a check due? -> take the lease `check` -> read everything, compare -> store what was found

The result is stored beside the ledger, so that all scorers report the same. `windward ledger check --repair` stores the
differences left after the repair. A check of 200,000 instances takes seconds of computing. It is done in slices, with
four times as long a pause after each, so that queries are answered meanwhile.
It also warns of settings of the ledger's server that can lose the ledger: no append-only file, or eviction.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import redis
from prometheus_client import Gauge

from schemas.values.read_json import read_or
from schemas.values.redis_settings import not_appended, wrong_settings
from scorer.background.thread import BackgroundThread
from scorer.ledger.store.check import Check, Checked
from scorer.ledger.store.scripts import Lease, Ledger
from scorer.metrics import Metrics
from scorer.settings import ScorerSettings
from scorer.wire import Command, Wire


class ServerSettings:
    """The unsafe settings of the ledger's server, as `look` last read them; logged as ``PROCESS.ledger.unsafe``."""

    def __init__(self, wire: Wire, process: str, gauge: Gauge) -> None:
        self._wire, self._process, self._gauge = wire, process, gauge
        self.unsafe = ""
        """The dangers, in words; "" when there is none, or nothing is known."""

    def look(self) -> None:
        """Read the server's settings; raises one of `scorer.wire.AWAY`.

        Without the right to call INFO nothing is known.
        """
        answers = self._wire.ask([("INFO", "persistence"), ("INFO", "memory")])
        if any(isinstance(answer, redis.ResponseError) for answer in answers):
            return
        lines = b"\r\n".join(answers).decode().splitlines()
        pairs = (line.split(":", 1) for line in lines if ":" in line)
        info = {name: int(value) if value.isdecimal() else value for name, value in pairs}
        unsafe = "; ".join(filter(None, (not_appended(info), *wrong_settings(info))))
        self._gauge.set(float(bool(unsafe)))
        if unsafe != self.unsafe:
            self.unsafe = unsafe
            log = logging.getLogger(f"windward.{self._process}")
            values = {"problem": unsafe} if unsafe else {}
            log.warning(f"{self._process}.ledger.{'unsafe' if unsafe else 'safe'}", extra={"values": values})


log = logging.getLogger("windward.scorer")

_LEASE_S = 60.0
_RENEW_S = 15.0
_NAMED_MAX = 100
_PAUSES = 4.0
"""Length of a pause in a check, as a multiple of the work before it."""
_PAUSE_S_MAX = 0.5


class LastCheck:
    """The result of the last check, in Redis: how many machines, clusters, differences, rows too busy; and when."""

    def __init__(self, ledger: Ledger) -> None:
        self._wire, self._key = ledger.wire, ledger.checked

    def read(self) -> dict[str, int] | None:
        """Return the result; None when it is unknown."""
        return read_or(self._wire.one("GET", self._key), dict[str, int], None)

    def write(self, found: Checked) -> dict[str, int]:
        """Store the differences that were not repaired, and return the stored result."""
        told = {
            "machines": found.machines, "clusters": found.clusters, "busy": found.busy,
            "differences": len(found.differences) - found.repaired, "at": int(time.time()),
        }  # fmt: skip
        self._wire.one("SET", self._key, msgspec.json.encode(told))
        return told


class PacedWire(Wire):
    """A connection that calls ``pause`` before each round trip, with the processor time used since the last one."""

    def __init__(self, arguments: dict[str, Any], pause: Callable[[float], None]) -> None:
        super().__init__(arguments)
        self._pause = pause
        self._answered_s: float | None = None

    def ask(
        self, commands: Sequence[Command], block_s: float = 0.0, meanwhile: Callable[[], None] | None = None
    ) -> list[Any]:
        """Pause, then ask."""
        if self._answered_s is not None:
            self._pause(time.thread_time() - self._answered_s)
        try:
            return super().ask(commands, block_s, meanwhile)
        finally:
            self._answered_s = time.thread_time()


class Checker(BackgroundThread):
    """Checks under the lease `check`; does not check while another scorer holds the lease.

    ``ledger_on`` returns the ledger over a connection: the checker has one for the lease, and a paced one. The first
    check is a second after the start, so that the scorer begins to answer first.
    """

    first_s, every_s = 1.0, 10.0

    def __init__(
        self,
        ledger_on: Callable[[Wire], Ledger],
        arguments: dict[str, Any],
        metrics: Metrics,
        settings: ScorerSettings,
    ) -> None:
        wire, paced = Wire(arguments), PacedWire(arguments, self._pause)
        super().__init__("check", wire, paced)
        ledger, self._paced = ledger_on(wire), ledger_on(paced)
        self._lease = Lease(ledger, "check", settings.holder, _LEASE_S)
        self._last = LastCheck(ledger)
        self.server = ServerSettings(wire, "scorer", metrics.unsafe)
        self._metrics = metrics
        self._check_s, self._at_start = settings.ledger_check_s, True
        self._renewed_s = 0.0
        self.found: dict[str, int] | None = None
        """The result of the last check by any scorer; None while unknown."""

    def turn(self) -> None:
        """Look at the server's settings; check at the start, and then at each interval."""
        self.server.look()
        told = self._last.read()
        due = self._check_s and (told is None or time.time() - told["at"] >= self._check_s)
        if (self._at_start or due) and self._lease.take() is not None:
            self._renewed_s = time.monotonic()
            try:
                told = self._check()
            except PermissionError:  # an OSError, but no server is away
                log.warning("scorer.check.overtaken")
                return
            self._lease.give_up()
        self._at_start = False
        if told is not None:
            self._metrics.differences.set(told["differences"])
            self.found = told

    def _check(self) -> dict[str, int]:
        found = Check(self._paced).run()
        told = self._last.write(found)
        if found.differences:
            named = "; ".join(f"{one.kind} {one.name}: {one.what}" for one in found.differences[:_NAMED_MAX])
            log.error("scorer.ledger.differs", extra={"values": {**told, "what": named}})
        else:
            log.info("scorer.ledger.checked", extra={"values": told})
        return told

    def _pause(self, worked_s: float) -> None:
        """Pause, so that the thread of the queries can run; renew the lease."""
        if self.stopping.wait(min(_PAUSES * worked_s, _PAUSE_S_MAX)):
            raise redis.ConnectionError("the scorer stops")
        if time.monotonic() > self._renewed_s + _RENEW_S:
            self._renewed_s = time.monotonic()
            if self._lease.take() is None:
                raise PermissionError("another check has begun")
