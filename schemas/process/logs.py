"""Log lines for machines and people: a constant dotted event and its values, in logfmt or JSON, on stderr.

log = logging.getLogger("windward.agent")
log.warning("agent.publish.failed", extra={"values": {"error": "timeout", "queued": 12}})
"""

import json
import logging
import sys
import time
from typing import Any


class _Formatter(logging.Formatter):
    """Render the event and its values; an exception becomes one more value."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        head = {"at": at, "level": record.levelname.lower()}
        line: dict[str, Any] = {**head, **_event(record), **getattr(record, "values", {}), **head}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if self._json:
            return json.dumps(line, default=str)
        return " ".join(f"{key}={_logfmt(value)}" for key, value in line.items())


def _event(record: logging.LogRecord) -> dict[str, Any]:
    """Return the event of a line; for a line of a library its logger and message."""
    library, _, _ = record.name.partition(".")
    if library == "windward":
        return {"event": record.getMessage()}
    return {"event": f"{library}.said", "logger": record.name, "message": record.getMessage()}


def _logfmt(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return json.dumps(text) if any(c in text for c in ' "=') or not text.isprintable() or not text else text


def configure_logs(level: str, form: str) -> None:
    """Send this process's log lines to stderr; those of libraries from warning upwards."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(form))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("windward").setLevel(level.upper())


class OncePerMinute(logging.Filter):
    """Shows each message of one library once a minute, without its traceback; records of others always."""

    def __init__(self, library: str, period_s: float = 60.0) -> None:
        super().__init__()
        self._library = library
        self._period_s = period_s
        self._last_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
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
    """Filter the library's lines on the handler of `configure_logs`; ``hush``: no line below critical.

    Its selector reports any wait for Python's lock as a blocked loop, so only the selector's errors are shown.
    """
    logging.getLogger(f"{library}.net.selector").setLevel(logging.ERROR)
    if hush:
        logging.getLogger(library).setLevel(logging.CRITICAL)
    for handler in logging.getLogger().handlers:
        handler.addFilter(OncePerMinute(library))
