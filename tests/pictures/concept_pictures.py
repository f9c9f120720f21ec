"""The pictures of the concepts page. Moments, credits and risk are computed by the product. Shell."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import FancyBboxPatch, Rectangle, Wedge

from ops.docs.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE
from ops.docs.shapes import machine, ranked
from scorer.ranking.profiles.catalogue import load_profiles
from tests.pictures.drawing import Pictures, named


def pipeline(axes: Any) -> None:
    """From the readings of a machine to an answer."""
    steps = ["/proc", "agent", "Kafka", "stream app", "Redis", "scorer", "answer"]
    carried = ["readings", "samples", "samples", "windows", "windows", "machine"]
    for place, step in enumerate(steps):
        box(axes, place * 2.0, 0, step, BLUE if step in ("agent", "stream app", "scorer") else GREY, width=1.25)
    for place, what in enumerate(carried):
        arrow(axes, (place * 2.0 + 0.64, 0), (place * 2.0 + 1.36, 0))
        axes.text(place * 2.0 + 1.0, 0.42, what, ha="center", fontsize=7)
    plain(axes, (-0.8, 12.8), (-0.6, 0.75))


def sample(axes: Any) -> None:
    """Thirty readings, and the moments of each ten: a burst between two samples stays in them."""
    random = np.random.default_rng(7)
    readings = np.clip(8 + random.normal(0, 0.7, 30), 0, None)
    readings[14:17] += (9.0, 14.0, 6.0)
    seconds = np.arange(30)
    axes.plot(seconds, readings, ".-", color=GREY, linewidth=0.8, label="readings, once a second")
    for first in (0, 10, 20):
        part = readings[first : first + 10]
        ends, mean, std = (first - 0.4, first + 9.4), part.mean(), part.std()
        labels = (None, None) if first else ("mean ± std of a sample", "maximum")
        axes.fill_between(ends, mean - std, mean + std, color=BLUE, alpha=0.2)
        axes.hlines(mean, *ends, color=BLUE, label=labels[0])
        axes.plot(first + float(part.argmax()), part.max(), "v", color=ORANGE, label=labels[1])
    named(axes, "seconds", "cores used", legend="upper left")


def slots(axes: Any) -> None:
    """The ring of 360 slots of ten seconds, and the windows that end at the newest one."""
    windows = (
        (30.0, 0.86, ORANGE, "5 minutes: 30 slots"),
        (90.0, 0.73, GREEN, "15 minutes: 90 slots"),
        (360.0, 0.60, BLUE, "an hour: 360 slots"),
    )
    for degrees, inner, colour, _ in windows:
        axes.add_patch(Wedge((0, 0), inner + 0.11, 90.0, 90.0 + degrees, width=0.1, color=colour, alpha=0.75))
    ends = np.array([1, 1.06])
    for slot in range(0, 360, 6):
        angle = np.deg2rad(90 + slot)
        axes.plot(ends * np.cos(angle), ends * np.sin(angle), color=GREY, linewidth=0.8)
    line = {"arrowstyle": "-", "color": GREY}
    axes.annotate("newest slot: windows end here", (0, 1.06), (0.55, 1.12), arrowprops=line)
    for place, (*_, colour, words) in enumerate(windows):
        axes.text(1.45, 0.35 - 0.35 * place, words, color=colour)
    axes.text(0, 0, "one machine's\nlast hour,\n10 s a slot", ha="center", va="center", fontsize=8)
    plain(axes, (-1.3, 3.4), (-1.15, 1.35))
    axes.set_aspect("equal")


def credit(axes: Any) -> None:
    """The mean usage of a machine after an instance of 8 cores was placed on it: measured, and with the credit."""
    minutes = [float(minute) for minute in range(0, 76, 5)]
    profile = load_profiles().choose()
    measured, with_credit = [], []
    for ago in minutes:
        shown = min(ago / 60, 1.0)
        host = machine("m", cpu=(4 + 8 * shown) / 32)
        placed = {"id": "i", "machine": "m", "cpu": 8, "memory": "8G", "placed_ago_s": ago * 60}
        ranking = ranked([host], {"cpu": 1}, profile, [placed])
        measured.append(4 + 8 * shown)
        with_credit.append(float(ranking.machines.mean[0, 0]))
    axes.plot(minutes, measured, color=BLUE, label="mean of the hour's window")
    axes.plot(minutes, with_credit, color=GREEN, label="with the credit: what filters and scores see")
    axes.fill_between(minutes, measured, with_credit, color=GREEN, alpha=0.2)
    axes.axhline(12, color=GREY, linestyle=":", linewidth=1)
    axes.text(75, 12.3, "what it really uses", ha="right", fontsize=7)
    named(axes, "minutes since an instance of 8 cores started", "cores used", 15, legend="lower right")


def reservation(axes: Any) -> None:
    """The states of an instance."""
    for x, y, state, colour in (
        (0, 0, "reserved", BLUE),
        (4, 0, "confirmed", GREEN),
        (8, 0, "released", GREY),
        (4, -1.8, "expired", GREY),
    ):
        box(axes, x, y, state, colour, 1.7)
    arrow(axes, (-2.2, 0), (-0.9, 0), "place")
    arrow(axes, (0.9, 0), (3.1, 0), "confirm")
    arrow(axes, (4.9, 0), (7.1, 0), "release")
    arrow(axes, (0.5, -0.35), (3.1, -1.6), "its time is over", (1.2, -1.35))
    arrow(axes, (0.3, 0.4), (7.7, 0.4), rad=-0.22)
    axes.text(4, 1.32, "release: given back", ha="center", fontsize=8)
    axes.text(4, -0.62, "update: resized, or moved", ha="center", fontsize=7)
    plain(axes, (-2.6, 9.2), (-2.4, 1.7))


def generation(axes: Any) -> None:
    """One id, three reservations."""
    for first, last, number, end, colour in (
        (0, 3, 17, "released", BLUE),
        (3.6, 5.4, 41, "expired", PURPLE),
        (6.2, 10, 58, "", GREEN),
    ):
        axes.add_patch(Rectangle((first, 0), last - first, 0.7, color=colour, alpha=0.35, linewidth=0))
        axes.text((first + last) / 2, 0.35, f"db-1\ngeneration {number}", ha="center", va="center", fontsize=8)
        axes.text(last, -0.3, end, ha="right", fontsize=7)
    axes.annotate("confirm of generation 41 comes late:\nrefused, 58 is not touched", (6.9, 0.72), (6.2, 1.25),
                  fontsize=7, arrowprops={"arrowstyle": "->", "color": ORANGE})  # fmt: skip
    axes.text(10, -0.3, "time →", ha="right", fontsize=7)
    plain(axes, (-0.2, 10.4), (-0.5, 1.75))


def box(axes: Any, x: float, y: float, words: str, colour: str, width: float = 1.4) -> None:
    """Draw a named box around a point."""
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - 0.3), width, 0.6, boxstyle="round,pad=0.04", facecolor="none", edgecolor=colour
        )
    )
    axes.text(x, y, words, ha="center", va="center", color=colour)


def arrow(
    axes: Any,
    start: tuple[float, float],
    end: tuple[float, float],
    words: str = "",
    at: tuple[float, float] | None = None,
    rad: float = 0.0,
) -> None:
    """Draw an arrow, with words above its middle or at a place of their own."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": GREY, "connectionstyle": f"arc3,rad={rad}"})
    if words:
        x, y = at or ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.14)
        axes.text(x, y, words, ha="center", fontsize=8)


def plain(axes: Any, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Show no axes."""
    axes.set_axis_off()
    axes.set_xlim(*x)
    axes.set_ylim(*y)


PICTURES: Pictures = {
    "pipeline": (pipeline, 8.0, 1.5),
    "sample": (sample, 6.4, 2.6),
    "slots": (slots, 6.4, 3.0),
    "credit": (credit, 6.4, 2.8),
    "reservation": (reservation, 7.0, 2.4),
    "generation": (generation, 7.0, 1.7),
}
"""Each picture with its width and height."""
