"""What the commands share: asking the scorer, printing the answer, exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from schemas.names import Names
from schemas.settings import SettingsError
from scorer.client import Client, WindwardError
from scorer.settings import ClientSettings

OK, FAILED, USAGE, NO_MACHINE, NO_ANSWER = range(5)
"""Exit codes, as `ops.cli` documents them."""

_CODES = {"INVALID_ARGUMENT": USAGE, "DEADLINE_EXCEEDED": NO_ANSWER, "UNAVAILABLE": NO_ANSWER}


def client(settings: ClientSettings) -> Client:
    """Return a client for these settings; nothing is connected yet."""
    Names(settings.prefix)
    return Client(prefix=settings.prefix, timeout_s=settings.timeout, **settings.redis_arguments())


def ask(
    settings: ClientSettings, method: str, params: dict[str, Any], show: Callable[[Any], str], command: str = ""
) -> tuple[int, Any]:
    """Ask, print the answer as JSON or as ``show`` puts it; return the exit code and the answer (None on an error)."""
    try:
        with client(settings) as scorer:
            answer = scorer.call(method, params)
    except WindwardError as error:
        return report(error, command or method), None
    print(json.dumps(answer) if settings.json else show(answer))  # noqa: T201
    return OK, answer


def report(error: WindwardError, command: str) -> int:
    """Print an error on one line; return its exit code."""
    print(f"windward {command}: {error.code}: {error.message}", file=sys.stderr)  # noqa: T201
    return _CODES.get(error.code, FAILED)


def one_id(given: Sequence[str], command: str) -> str:
    """Return the one id that was given."""
    if len(given) != 1:
        raise SettingsError(f"id: expected one, as in `windward {command} ID`")
    return given[0]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns: the first to the left, the others to the right.

    >>> print(table(["machine", "score"], [["a", "9.5"]]))
    machine  score
    a          9.5
    """
    widths = [max(len(row[at]) for row in (headings, *rows)) for at in range(len(headings))]
    lines = []
    for row in (headings, *rows):
        cells = [
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def number(value: float | None, digits: int = 2) -> str:
    """Return a number for people; nothing known is a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def size(value: float | None) -> str:
    """Return bytes for people.

    >>> size(10e9), size(512), size(None)
    ('10.0G', '512', '-')
    """
    if value is None:
        return "-"
    for factor, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.1f}{suffix}"
    return f"{value:.0f}"


def ratio(value: float | None) -> str:
    """Return a ratio in percent."""
    return "-" if value is None else f"{100 * value:.0f}%"
