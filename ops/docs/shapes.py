"""The shape of filters and scores: values for machines that differ in one number, computed by the plugin, as SVG.

A plugin without an entry here has no picture: machines differ for it in kind, as its docstring says.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from schemas.rpc.request import read_request
from scorer.commands.shared.fleet_file import read_fleet
from scorer.ranking.profiles.profile import Normalisation, PlacedFilter, Profile, WeightedScore
from scorer.ranking.rank import rank

LOADS = np.linspace(0.0, 1.0, 101)
CAPACITY = {"cpu": 32.0, "memory": 128e9, "nic": 1.25e9, "disk": 1.0}


def machine(name: str, cpu: float = 0.3, std: float = 0.0, memory: float = 0.3, **more: Any) -> dict[str, Any]:
    """Return a machine of 32 cores and 128 GB, with its loads as shares of these."""
    usage = {
        "cpu": {"mean": 32 * cpu, "std": 32 * std},
        "memory": {"mean": 128e9 * memory, "std": 0.0},
        "nic": {"mean": 1e8, "std": 0.0},
        "disk": {"mean": 0.1, "std": 0.0},
    }
    return {"name": name, "capacity": CAPACITY, "usage": usage} | more


@dataclass(frozen=True)
class Along:
    """Machines that differ in a number: the picture is a curve for each of ``lines``."""

    about: str
    make: Callable[[str, float, Any], dict[str, Any]]
    """Makes a machine from its name, the number and the line's value."""
    values: Any = field(default_factory=lambda: LOADS)
    lines: Mapping[str, Any] = field(default_factory=lambda: {"": None})
    request: Mapping[str, Any] = field(default_factory=lambda: {"cpu": 2, "memory": "10G"})
    settings: Mapping[str, Any] = field(default_factory=dict)
    instances: Callable[[str, float], list[dict[str, Any]]] = lambda name, value: []
    normalise: Normalisation = "none"


def by_cpu(name: str, value: float, line: Any) -> dict[str, Any]:
    """Return a machine with this CPU load, and the line's standard deviation."""
    return machine(name, cpu=value, std=line or 0.0)


def by_promise(name: str, value: float) -> list[dict[str, Any]]:
    """Return an instance that requests this share of the machine's CPU and a quarter of its memory."""
    return [{"id": f"on-{name}", "machine": name, "cpu": 32 * value, "memory": 32e9, "limits": {"cpu": 48 * value}}]


def _memory(name: str, value: float, _: Any) -> dict[str, Any]:
    return machine(name, memory=value)


_DEVIATIONS = {"std 0": 0.0, "std 0.1": 0.1, "std 0.3": 0.3}
_PROMISES = {"about": "CPU requested, share of allocatable", "make": lambda name, value, line: machine(name, cpu=0.0),
             "instances": by_promise}  # fmt: skip

_BY_CPU = Along("CPU in use, share of allocatable", by_cpu)
SHAPES: dict[str, Along] = {
    # filters
    "fresh": Along("age of the newest sample, s", lambda name, value, _: machine(name, age_s=value),
                   values=np.linspace(0, 120, 121)),
    "warming": Along("share of the window that is covered", lambda name, value, _: machine(name) | {"windows": {
        w: {"cpu": {"mean": 8, "coverage": value}, "memory": {"mean": 4e10, "coverage": value}}
        for w in ("300", "900", "3600")}}, settings={"coverage_min": 0.5}),
    "fits": _BY_CPU,
    "usage_threshold": Along("CPU in use, share of allocatable", by_cpu,
                             settings={"thresholds": {"cpu": 0.9, "memory": 0.95}}),
    "daily_peak": Along("today's peak of CPU, share of allocatable", lambda name, value, _: machine(
        name, peak_today={"cpu": 32 * value, "memory": 4e10, "nic": 1e8}, peak_yesterday={}),
        settings={"thresholds": {"cpu": 0.9}}),
    "memory_pressure": Along("memory in use, share of allocatable", _memory, request={"cpu": 1, "memory": "1G"}),
    "maxmemory": Along("maxmemory of its instances, share of allocatable", lambda name, value, _: machine(name),
                       request={"memory": "10G", "maxmemory": "10G"},
                       instances=lambda name, value: [{"id": f"on-{name}", "machine": name, "maxmemory": 128e9 * value}]),
    # scores
    "global_variance": Along("CPU in use, share of allocatable", by_cpu, normalise="min-max"),
    "expected_overload": Along("CPU in use, share of allocatable", by_cpu, lines=_DEVIATIONS, normalise="min-max"),
    "load_variation_risk": Along("CPU in use, share of allocatable", by_cpu, lines=_DEVIATIONS),
    "low_risk_overcommitment": Along("CPU in use, share of allocatable", by_cpu, lines=_DEVIATIONS,
                                     request={"cpu": 2, "memory": "10G", "limits": {"cpu": 4, "memory": 1e10}},
                                     instances=lambda name, _: [{"id": f"on-{name}", "machine": name, "cpu": 8,
                                                                 "memory": 32e9, "limits": {"cpu": 40}}]),
    "peaks": Along("CPU in use, share of allocatable", lambda name, value, _: by_cpu(name, value, None) | {
        "operator": {"power": {"k0": 100.0, "k1": 30.0, "k2": 0.02}}}),
    "least_allocated": Along(**_PROMISES),  # type: ignore[arg-type]
    "most_allocated": Along(**_PROMISES),  # type: ignore[arg-type]
    "balanced_allocation": Along(**_PROMISES),  # type: ignore[arg-type]
    "requested_to_capacity_ratio": Along(**_PROMISES),  # type: ignore[arg-type]
    "expression": Along("memory in use, share of allocatable", _memory),
    "target_load_packing": _BY_CPU,
    "load_aware": _BY_CPU,
}  # fmt: skip


def drawn(plugin: type[Any], shape: Along, is_filter: bool) -> dict[str, list[float]]:
    """Return by line the values of a filter (1 allows, 0 refuses) or a score (0 to 100) for the machines of a shape."""
    made = plugin(**shape.settings)
    profile = (
        Profile("shape", filters=(PlacedFilter(made),))
        if is_filter
        else Profile("shape", scores=(WeightedScore(made, 1.0, shape.normalise),))
    )
    lines = {}
    for label, line in shape.lines.items():
        machines = [shape.make(f"m{number:03}", float(value), line) for number, value in enumerate(shape.values)]
        instances = [
            one
            for m, value in zip(machines, shape.values, strict=True)
            for one in shape.instances(m["name"], float(value))
        ]
        fleet = read_fleet({"machines": machines, "instances": instances})
        ranking = rank(read_request(dict(shape.request)), fleet.inputs(profile))
        at = {ranking.machines.name(row): row for row in range(len(ranking.machines))}
        column = ranking.feasible.astype(float) if is_filter else ranking.total
        lines[label] = [float(column[at[each["name"]]]) for each in machines]
    return lines


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


def picture(shape: Along, lines: Mapping[str, list[float]], is_filter: bool) -> str:
    """Return the curves of `drawn` as a picture."""
    return svg(lambda axes: _curves(axes, shape, lines, is_filter))


def _curves(axes: Any, shape: Along, lines: Mapping[str, list[float]], is_filter: bool) -> None:
    for colour, (label, values) in zip(COLOURS, lines.items(), strict=False):
        if is_filter:
            axes.fill_between(shape.values, values, step="mid", color=colour, alpha=0.35, linewidth=0)
        style = "steps-mid" if is_filter else "default"
        axes.plot(shape.values, values, color=colour, label=label or None, drawstyle=style)
    if len(lines) > 1:
        axes.legend(frameon=False)
    axes.set_xlabel(shape.about)
    axes.set_xlim(shape.values[0], shape.values[-1])
    if is_filter:
        axes.set_yticks([0, 1], ["refused", "allowed"])
        axes.set_ylim(-0.02, 1.25)
    else:
        axes.set_ylabel("score")
        axes.set_ylim(0, 108)
        axes.grid(axis="y")
