"""How far the past has been published: a bar on a terminal, a log line every few seconds elsewhere."""

from __future__ import annotations

import logging
from typing import TextIO

log = logging.getLogger("windward.fleet")

BAR_CHARACTERS = 40
TERMINAL_PERIOD_S = 0.1
LOG_PERIOD_S = 5.0


class Progress:
    """Shows ``done`` of ``total``; time is an argument, so that no clock is read here."""

    def __init__(self, total: int, stream: TextIO, started_s: float) -> None:
        self._total = total
        self._stream = stream
        self._terminal = stream.isatty()
        self._started_s = started_s
        self._shown_s = started_s

    def update(self, done: int, now_s: float) -> None:
        """Show the progress, unless it was shown a moment ago."""
        if now_s - self._shown_s < (TERMINAL_PERIOD_S if self._terminal else LOG_PERIOD_S):
            return
        self._shown_s = now_s
        if self._terminal:
            self._stream.write("\r" + bar(done, self._total, now_s - self._started_s))
            self._stream.flush()
        else:
            values = {"published": done, "total": self._total, "share": round(done / max(self._total, 1), 3)}
            log.info("fleet.backfill.progress", extra={"values": values})

    def finish(self, done: int, now_s: float) -> None:
        """Show that it is done, and the rate."""
        seconds = max(now_s - self._started_s, 1e-9)
        if self._terminal:
            self._stream.write("\r" + bar(done, max(done, 1), seconds) + "\n")
            self._stream.flush()
        else:
            values = {"published": done, "seconds": round(seconds, 2), "records_per_s": round(done / seconds)}
            log.info("fleet.backfill.done", extra={"values": values})


def bar(done: int, total: int, seconds: float) -> str:
    """Return one line of text.

    >>> bar(180, 360, 2.0)
    'publishing the past  [####################                    ]  50%  180/360  90/s'
    """
    share = min(done / max(total, 1), 1.0)
    filled = "#" * int(share * BAR_CHARACTERS)
    rate = done / seconds if seconds > 0 else 0.0
    return f"publishing the past  [{filled:<{BAR_CHARACTERS}}] {share:>4.0%}  {done}/{total}  {rate:.0f}/s"
