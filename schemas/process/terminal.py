"""Standard output: a terminal of some width, or a file or pipe, where no column is left out."""

from __future__ import annotations

import os
import sys

from schemas.process.tables import Screen


def screen(*, wide: bool = False) -> Screen:
    """Return the screen for tables: the terminal's width; no limit with ``wide`` or without a terminal."""
    if not sys.stdout.isatty():
        return Screen()
    import shutil

    return Screen(None if wide else shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ)
