"""The names of a panel's series, below it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from ops.grafana.pictures.panel_data import Line
from ops.grafana.pictures.style import (
    LEGEND_MAX,
    LEGEND_ROW,
    LEGEND_ROWS_MAX,
    legend_columns,
)


def add_legend(axes: Axes, place: Mapping[str, int], inner_rows: float, lines: Sequence[Line]) -> None:
    """Put the names of the largest series below the axes, as Grafana does.

    ``place`` is the panel's place in Grafana's grid, ``inner_rows`` the height of its axes there. Further lines of
    names make the axes lower.
    """
    handles, names = axes.get_legend_handles_labels()
    largest = {name: max((value for _, value in points), default=0.0) for name, points in lines}
    order = sorted(range(len(names)), key=lambda at: -largest.get(names[at], math.inf))[:LEGEND_MAX]
    columns = legend_columns([len(names[at]) for at in order], place["w"])
    order = order[: columns * LEGEND_ROWS_MAX]
    more = LEGEND_ROW * (math.ceil(len(order) / columns) - 1)
    box = axes.get_position()
    raised = box.height * more / inner_rows
    axes.set_position((box.x0, box.y0 + raised, box.width, box.height - raised))
    axes.legend(
        [handles[at] for at in order], [names[at] for at in order], fontsize=8, frameon=False,
        loc="upper left", bbox_to_anchor=(-0.03, -0.75 / (inner_rows - more)), ncols=columns, handlelength=1.2,
        columnspacing=1, borderpad=0, handletextpad=0.4, labelspacing=0.2,
    )  # fmt: skip
