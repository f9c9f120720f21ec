"""Shell: warns of settings of the ledger's server that can lose the ledger: no append-only file, or eviction."""

import logging

import redis
from prometheus_client import Gauge

from schemas.values.redis_settings import not_appended, wrong_settings
from scorer.wire import Wire


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
