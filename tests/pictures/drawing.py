"""What several of the pictures draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ops.docs.drawing import GREY

SOLID = 0.85
"""Blocks with text in them: white on them is readable on light and dark pages."""
Pictures = dict[str, tuple[Callable[[Any], None], float, float]]
"""By name: what draws a picture on axes, their width and height in inches."""


def named(axes: Any, x: str, y: str, top: float | None = None, *, legend: str = "", columns: int = 1) -> None:
    """Name both axes, end the upright one at ``top``, and put a legend in the place of that name."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if top is not None:
        axes.set_ylim(0, top)
    if legend:
        axes.legend(frameon=False, fontsize=7, loc=legend, ncols=columns)


def block(axes: Any, at: Any, bottom: float, height: float, words: str, colour: str | None, **more: Any) -> None:
    """Draw a bar with words in it; without a colour it is an outline."""
    look: dict[str, Any] = {"color": "none", "edgecolor": GREY, "linestyle": "--"}
    if colour is not None:
        look = {"color": colour, "alpha": SOLID, "edgecolor": "white"}
    axes.bar(at, height, bottom=bottom, **look, **more)
    ink = {} if colour is None else {"color": "white"}
    axes.text(at, bottom + height / 2, words, ha="center", va="center", fontsize=7, **ink)
