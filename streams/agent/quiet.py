"""Keeps kafka-python from filling the log while the broker is away: it repeats messages several times a second."""

from __future__ import annotations

import logging
import time


class OncePerMinute(logging.Filter):
    """Shows each message of one library once a minute, without its traceback; records of others always."""

    def __init__(self, library: str, period_s: float = 60.0) -> None:
        super().__init__()
        self._library = library
        self._period_s = period_s
        self._last_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is shown."""
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

    Its selector reports any wait for Python's lock as a blocked loop, so only its errors are shown.
    """
    logging.getLogger(f"{library}.net.selector").setLevel(logging.ERROR)
    if hush:
        logging.getLogger(library).setLevel(logging.CRITICAL)
    for handler in logging.getLogger().handlers:
        handler.addFilter(OncePerMinute(library))
