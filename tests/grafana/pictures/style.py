"""Colours of the pictures, and values and names as a person reads them."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

PALETTE = ("#3f7fbf", "#e08214", "#4daf4a", "#c2403a", "#8e63b0", "#8c6d31", "#d36ba6", "#6b6b6b", "#17a2b8", "#b5bd22")
COLORS = {
    "green": "#3f9b46", "yellow": "#d9a300",
    "red": "#c8352d", "orange": "#e07b1a", "blue": "#3f7fbf", "purple": "#8e63b0",
}  # fmt: skip
GREY = "#6a6f76"
LEGEND_CHARACTERS = 10
"""So many fit a column of Grafana's grid."""


def shown(value: float, unit: str) -> str:
    """Return a value with its unit, as a person reads it.

    >>> shown(0.123, "percentunit"), shown(3.2e9, "bytes"), shown(75, "s"), shown(12.0, "short")
    ('12.3 %', '2.98 GiB', '1.2 min', '12')
    """
    if not math.isfinite(value):
        return "-"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return f"{value / 60:.2g} min" if value >= 60 else f"{value:.2g} s" if value >= 1 else f"{1000 * value:.3g} ms"
    if unit in ("bytes", "Bps"):
        step = max(0, min(5, int(math.log(max(value, 1), 1024))))
        return f"{value / 1024**step:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[step]}{'/s' * (unit == 'Bps')}"
    text = f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.3g}"
    if unit.startswith("suffix:"):
        return text + unit.removeprefix("suffix:")
    return f"{text}/s" if unit == "ops" else text


def shortened(text: str) -> str:
    """Return a text of at most 26 characters."""
    return text if len(text) <= 26 else f"{text[:25]}…"


def legend_columns(lengths: Sequence[int], width: int, rows_max: int = 3) -> int:
    """Return in how many columns names of these lengths stand below a panel that is ``width`` columns of the grid wide.

    The fewest rows in which all fit; names that fit in no number of rows stand in as many columns as the longest
    allows.

    >>> legend_columns([4, 4, 4], 6), legend_columns([15, 15, 15, 19, 14], 6), legend_columns([40] * 9, 6)
    (3, 2, 1)
    """
    for rows in range(1, rows_max + 1):
        columns = math.ceil(len(lengths) / rows)
        taken, more = divmod(len(lengths), columns)
        ends = [place * taken + min(place, more) for place in range(columns + 1)]
        widest = [max(lengths[start:end]) for start, end in itertools.pairwise(ends)]
        if sum(widest) + 5 * columns <= LEGEND_CHARACTERS * width:
            return columns
    return max(1, LEGEND_CHARACTERS * width // (max(lengths) + 5))


def color_at(value: float, steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the colour of the highest step that the value reaches."""
    color = steps[0]["color"]
    for step in steps[1:]:
        if value >= step["value"]:
            color = step["color"]
    return COLORS.get(color, "#3f7fbf")
