"""Keep kafka-python from filling the log while the broker is away: it says the same thing several times a second."""

from __future__ import annotations

import logging
import time


class OncePerMinute(logging.Filter):
    """Lets each message form of one library through once a minute, without its traceback; everything else always."""

    def __init__(self, library: str, period_s: float = 60.0) -> None:
        super().__init__()
        self._library = library
        self._period_s = period_s
        self._last_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the record is shown."""
        if record.name.partition(".")[0] != self._library:
            return True
        record.exc_info = None
        form = f"{record.name}:{record.lineno}"
        now_s = time.monotonic()
        if now_s - self._last_s.get(form, -self._period_s) < self._period_s:
            return False
        self._last_s[form] = now_s
        return True


def quieten(library: str, *, hush: bool = False) -> None:
    """Put the filter on what `schemas.process.logs.configure_logs` set up; ``hush``: the library says nothing.

    Its selector takes any wait for Python's lock for a blocked loop: that is heard from errors upwards only.
    """
    logging.getLogger(f"{library}.net.selector").setLevel(logging.ERROR)
    if hush:
        logging.getLogger(library).setLevel(logging.CRITICAL)
    for handler in logging.getLogger().handlers:
        handler.addFilter(OncePerMinute(library))
