"""The shape of each filter and score: its values for machines that differ in one property, computed by the plugin.

A plugin without an entry here is shown by CPU load, so a new one needs no entry.
"""

import io
from collections.abc import Callable, Mapping, Sequence
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
from scorer.ranking.ranking import Ranking

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


def ranked(
    machines: Sequence[Mapping[str, Any]],
    request: Mapping[str, Any],
    profile: Profile,
    instances: Sequence[Mapping[str, Any]] = (),
) -> Ranking:
    gone = [one for one in instances if "failed" in one]
    placed = [one for one in instances if "failed" not in one]
    fleet = read_fleet({"machines": list(machines), "instances": placed, "leavers": gone})
    return rank(read_request(dict(request)), fleet.inputs(profile))


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


@dataclass(frozen=True)
class Among:
    """Machines that differ in kind: the picture has one bar for each, labelled with its kind."""

    machines: Mapping[str, dict[str, Any]]
    """The arguments of `machine`, by kind."""
    request: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    instances: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)


def by_cpu(name: str, value: float, line: Any) -> dict[str, Any]:
    """Return a machine with this CPU load, and the line's standard deviation."""
    return machine(name, cpu=value, std=line or 0.0)


def by_promise(name: str, value: float) -> list[dict[str, Any]]:
    """Return an instance that requests this share of the machine's CPU and a quarter of its memory."""
    return [{"id": f"on-{name}", "machine": name, "cpu": 32 * value, "memory": 32e9, "limits": {"cpu": 48 * value}}]


def _peak(name: str, value: float, _: Any) -> dict[str, Any]:
    return machine(name, peak_today={"cpu": 32 * value, "memory": 4e10, "nic": 1e8}, peak_yesterday={})


def _memory(name: str, value: float, _: Any) -> dict[str, Any]:
    return machine(name, memory=value)


_DEVIATIONS = {"std 0": 0.0, "std 0.1": 0.1, "std 0.3": 0.3}
_PROMISES = {"about": "CPU requested, share of allocatable", "make": lambda name, value, line: machine(name, cpu=0.0),
             "instances": by_promise}  # fmt: skip
_REFUSE, _AVOID = ({"taints": [{"key": "gpu", "effect": effect}]} for effect in ("refuse", "avoid"))
_LABELLED = {
    "zone=a, ssd": {"labels": {"zone": "a", "disk": "ssd", "image-7": "yes"}},
    "zone=a": {"labels": {"zone": "a"}},
    "zone=b": {"labels": {"zone": "b"}},
}
_NEIGHBOURS: dict[str, dict[str, Any]] = {"none": {}, "one of app=web": {}, "two of app=web": {}, "one of app=db": {}}
_INSTANCES = {
    "one of app=web": [{"labels": {"app": "web"}, "cluster": "web", "kind": "web"}],
    "two of app=web": [{"labels": {"app": "web"}, "cluster": "web", "kind": "web"}] * 2,
    "one of app=db": [{"labels": {"app": "db"}, "cluster": "db", "kind": "db"}],
}

SHAPES: dict[str, Along | Among] = {
    # filters
    "fresh": Along("age of the newest sample, s", lambda name, value, _: machine(name, age_s=value),
                   values=np.linspace(0, 120, 121)),
    "warming": Along("share of the window that is covered", lambda name, value, _: machine(name) | {"windows": {
        w: {"cpu": {"mean": 8, "coverage": value}, "memory": {"mean": 4e10, "coverage": value}}
        for w in ("300", "900", "3600")}}, settings={"coverage_min": 0.5}),
    "fits": Along("CPU in use, share of allocatable", by_cpu),
    "usage_threshold": Along("CPU in use, share of allocatable", by_cpu,
                             settings={"thresholds": {"cpu": 0.9, "memory": 0.95}}),
    "daily_peak": Along("today's peak of CPU, share of allocatable", _peak, settings={"thresholds": {"cpu": 0.9}}),
    "memory_pressure": Along("memory in use, share of allocatable", _memory, request={"cpu": 1, "memory": "1G"}),
    "machine_name": Among({"named so": {"name": "m"}, "another": {}}, {"cpu": 1, "machine": "m"}),
    "cordon": Among({"as it is": {}, "cordoned": {"operator": {"cordon": True}}}, {"cpu": 1}),
    "taints": Among({"no taint": {}, "taint gpu: refuse": {"operator": _REFUSE}, "taint gpu: avoid":
                     {"operator": _AVOID}}, {"cpu": 1}),
    "selector": Among(_LABELLED, {"cpu": 1, "selector": "zone=a"}),
    "ports": Among({"port free": {}, "port taken": {}}, {"cpu": 1, "ports": [6379]},
                   instances={"port taken": [{"ports": [6379]}]}),
    "maxmemory": Along("maxmemory of its instances, share of allocatable", lambda name, value, _: machine(name),
                       request={"memory": "10G", "maxmemory": "10G"},
                       instances=lambda name, value: [{"id": f"on-{name}", "machine": name, "maxmemory": 128e9 * value}]),
    "masters": Among({"none": {}, "one of its masters": {}, "two of its masters": {}},
                     {"cpu": 1, "cluster": "c", "role": "master", "cluster_masters": 6},
                     instances={"one of its masters": [{"cluster": "c", "role": "master"}],
                                "two of its masters": [{"cluster": "c", "role": "master"}] * 2}),
    "affinity": Among(_NEIGHBOURS, {"cpu": 1, "affinity": [{"instances": {"app": "web"}}]}, instances=_INSTANCES),
    "anti_affinity": Among(_NEIGHBOURS, {"cpu": 1, "anti_affinity": [{"instances": {"app": "web"}}]},
                           instances=_INSTANCES),
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
    "machine_preference": Among(_LABELLED, {"cpu": 1, "prefer": [{"selector": "zone=a", "weight": 2},
                                                                 {"selector": "disk=ssd", "weight": 1}]}),
    "taint_preference": Among({"no taint": {}, "taint gpu: avoid": {"operator": _AVOID}}, {"cpu": 1}),
    "data_locality": Among(_LABELLED, {"cpu": 1, "data_labels": ["image-7", "zone=a"]}),
    "spread": Among(_NEIGHBOURS, {"cpu": 1, "cluster": "web", "labels": {"app": "web"}, "kind": "web"},
                    instances=_INSTANCES),
    "apart": Among(_NEIGHBOURS, {"cpu": 1, "cluster": "web"}, instances=_INSTANCES),
    "failed_starts": Among({"none failed": {}, "one failed": {}, "two failed": {}}, {"cpu": 1},
                           instances={"one failed": [{"failed": True}], "two failed": [{"failed": True}] * 2}),
}  # fmt: skip
ANY = Along("CPU in use, share of allocatable", by_cpu)


@dataclass(frozen=True)
class Drawn:
    """The data of a picture: a curve for each line, or a bar for each kind."""

    about: str
    x: list[Any]
    lines: dict[str, list[float]]
    shape: Along | Among


def drawn(plugin: type[Any], is_filter: bool) -> Drawn:
    """Return the values of a filter (1 allows, 0 refuses) or a score (0 to 100) for the machines of its shape."""
    shape = SHAPES.get(plugin.name, ANY)
    made = plugin(**shape.settings)
    profile = (
        Profile("shape", filters=(PlacedFilter(made),))
        if is_filter
        else Profile("shape", scores=(WeightedScore(made, 1.0, getattr(shape, "normalise", "none")),))
    )
    if isinstance(shape, Among):
        machines = [machine(**({"name": kind} | more)) for kind, more in shape.machines.items()]
        names = dict(zip(shape.machines, (each["name"] for each in machines), strict=True))
        instances = [
            {"id": f"{kind}-{number}", "machine": names[kind], "cpu": 1, **each}
            for kind, listed in shape.instances.items()
            for number, each in enumerate(listed)
        ]
        said = _said(ranked(machines, shape.request, profile, instances), [m["name"] for m in machines], is_filter)
        return Drawn("", list(shape.machines), {"": said}, shape)
    lines = {}
    for label, line in shape.lines.items():
        machines = [shape.make(f"m{number:03}", float(value), line) for number, value in enumerate(shape.values)]
        instances = [
            one
            for m, value in zip(machines, shape.values, strict=True)
            for one in shape.instances(m["name"], float(value))
        ]
        ranking = ranked(machines, shape.request, profile, instances)
        lines[label] = _said(ranking, [m["name"] for m in machines], is_filter)
    return Drawn(shape.about, [float(value) for value in shape.values], lines, shape)


def _said(ranking: Any, names: list[str], is_filter: bool) -> list[float]:
    """Return the values of the machines, in the order of ``names``."""
    at = {ranking.machines.name(row): row for row in range(len(ranking.machines))}
    rows = [at[name] for name in names]
    column = ranking.feasible.astype(float) if is_filter else ranking.total
    return [float(column[row]) for row in rows]


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
