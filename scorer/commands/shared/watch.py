"""``--watch``: a list on a terminal that is refreshed every two seconds.

Chosen: the frame is written over the one before, line by line, so that it does not flicker. Rejected: the alternate
screen, which takes the last list away when the command ends.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from schemas.process.settings import SettingsError, setting
from schemas.process.tables import readable
from scorer.client import WindwardError
from scorer.commands.shared import ask
from scorer.settings import ClientSettings

EVERY_S = 2.0
_CLEAR, _HOME, _END_OF_LINE, _REST = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"
_Listed = TypeVar("_Listed")


@dataclass(frozen=True, kw_only=True)
class ListedSettings(ClientSettings):
    """The settings of a command that prints a list."""

    watch: bool = setting(False, f"draw the list again every {EVERY_S:.0f} s, until Ctrl-C", group="output")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.watch and self.json:
            raise ValueError("watch: for a terminal, not with --json; `windward events --follow --json` tells changes")


def listed(settings: ListedSettings, find: Callable[[], tuple[_Listed, ask.Show[_Listed]]]) -> int:
    """Print the result of ``find``, an answer and its text form; with ``watch`` repeatedly."""
    if not settings.watch:
        ask.tell(settings, *find())
        return ask.OK
    if not sys.stdout.isatty():
        raise SettingsError("watch: standard output is no terminal")
    from shutil import get_terminal_size

    text = ""
    print(_CLEAR, end="")  # noqa: T201
    while True:
        trouble = ""
        try:
            answer, show = find()
            text = ask.shown(settings, answer, show)
        except WindwardError as error:
            if not (text and error.retryable):
                raise
            trouble = f"; {readable(error.message)}: the list is from before"
        drawn = frame(text, get_terminal_size().lines, f"{time.strftime('%H:%M:%S')}{trouble}")
        print(f"{_HOME}{drawn}", flush=True)  # noqa: T201
        time.sleep(EVERY_S)


def frame(text: str, height: int, heading: str) -> str:
    r"""Return a list cut to the terminal's height; its last line, the count, stays.

    >>> print(frame("machine\na\nb\nc\n3 of 3", 6, "12:00:00").replace(_END_OF_LINE, "").replace(_REST, ""))
    12:00:00
    machine
    a
    (2 more lines)
    3 of 3
    """
    lines = text.splitlines()
    room = height - 2  # the heading, and the line below the list where the cursor stands
    if len(lines) > room:
        kept = max(room - 2, 0)
        lines = [*lines[:kept], f"({len(lines) - kept - 1} more lines)", lines[-1]]
    return "".join(f"{line}{_END_OF_LINE}\n" for line in (heading, *lines))[:-1] + _REST
