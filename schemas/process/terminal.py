"""What standard output is: a terminal of some width, or a file or pipe, where nothing is left out."""

from __future__ import annotations

import os
import sys

from schemas.process.tables import Screen


def screen(*, wide: bool = False) -> Screen:
    """Return how tables are shown: as wide as the terminal, or whole with ``wide`` and where there is none."""
    if not sys.stdout.isatty():
        return Screen()
    import shutil

    return Screen(None if wide else shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ)
