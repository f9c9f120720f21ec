"""Draws the pictures as SVG, readable on light and dark pages. Needs matplotlib. Shell."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from ops.docs.shapes import Drawn

COLOURS = BLUE, ORANGE, GREEN, PURPLE = ("#3f6fb5", "#e07b39", "#3d8f5f", "#8a5fb0")
GREY = "#7a828c"
LOOK: dict[Any, Any] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "windward",
    "font.size": 9,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.color": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#b8bec6",
    "grid.alpha": 0.4,
}


def svg(draw: Callable[[Any], None]) -> str:
    """Return the picture that ``draw`` makes on axes; the same each time."""
    with mpl.rc_context(LOOK):
        figure = Figure(figsize=(6.4, 2.8), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots())
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        return text.getvalue()


def shape(drawn: Drawn, is_filter: bool) -> str:
    """Return the picture of a filter's or a score's shape."""
    return svg(lambda axes: _bars(axes, drawn, is_filter) if not drawn.about else _curves(axes, drawn, is_filter))


def _curves(axes: Any, drawn: Drawn, is_filter: bool) -> None:
    for colour, (label, values) in zip(COLOURS, drawn.lines.items(), strict=False):
        if is_filter:
            axes.fill_between(drawn.x, values, step="mid", color=colour, alpha=0.35, linewidth=0)
        axes.plot(drawn.x, values, color=colour, label=label or None, drawstyle="steps-mid" if is_filter else "default")
    if len(drawn.lines) > 1:
        axes.legend(frameon=False)
    axes.set_xlabel(drawn.about)
    axes.set_xlim(drawn.x[0], drawn.x[-1])
    _vertical(axes, is_filter, max(max(values) for values in drawn.lines.values()))


def _bars(axes: Any, drawn: Drawn, is_filter: bool) -> None:
    (values,) = drawn.lines.values()
    axes.bar(drawn.x, values, width=0.55, color=[COLOURS[0]] * len(values))
    for place, value in enumerate(values):
        said = ("allowed" if value else "refused") if is_filter else f"{value:.0f}"
        axes.annotate(said, (place, value), ha="center", va="bottom", xytext=(0, 2), textcoords="offset points")
    _vertical(axes, is_filter, max(values))


def _vertical(axes: Any, is_filter: bool, largest: float) -> None:
    if is_filter:
        axes.set_yticks([0, 1], ["refused", "allowed"])
        axes.set_ylim(-0.02, 1.25)
    else:
        axes.set_ylabel("score")
        axes.set_ylim(0, 108)
        axes.grid(axis="y")
    assert largest <= 100.0 + 1e-6
