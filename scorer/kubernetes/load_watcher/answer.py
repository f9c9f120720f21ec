"""A load watcher's answer: the load of all nodes over one window, in percent of their capacity.

A node's name is its machine's id, and its capacity is the one in its samples: the plugins multiply by the capacity of
the Node, which the kubelet reads on the same host. A mean and its deviation are listed together or not at all: Trimaran
takes a deviation without a mean for that of an idle node. A resource without a capacity is left out, and a node without
any.

A node whose data are stale is left out, which scores 0. While the pipeline is silent (`scorer.ranking.staleness`) all
nodes are listed with their last known load. The end of the window is the oldest of those listed, never now:
TargetLoadPacking adds the pods placed after it. A node's end is the time of its newest sample; the window's end is up
to one slot later, and may be in the future.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.staleness import fresh_until_s, is_silent
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot

TYPES = {"cpu": "CPU", "memory": "Memory"}
"""Trimaran's name of each resource that it reads."""
_DECIMALS = 4


class Metric(msgspec.Struct, frozen=True):
    name: str
    type: str
    operator: str
    rollup: str
    value: float


class NodeMetrics(msgspec.Struct, frozen=True):
    """The figures of a node; tags and metadata are Trimaran's, and empty."""

    metrics: list[Metric]
    tags: dict[str, str] = {}
    metadata: dict[str, str] = {}


class Data(msgspec.Struct, frozen=True):
    nodes: Mapping[str, NodeMetrics] = msgspec.field(name="NodeMetricsMap")


class Window(msgspec.Struct, frozen=True):
    """The window of all figures, in whole seconds."""

    duration: str
    start: int
    end: int


class WatcherMetrics(msgspec.Struct, frozen=True):
    """The body of the answer to ``GET /watcher``."""

    timestamp: int
    window: Window
    source: str
    data: Data


@dataclass(frozen=True)
class Answer:
    """An answer, with the time at which the first of its nodes becomes stale."""

    body: WatcherMetrics
    until_s: float
    left_out: int
    """Machines that had data once and are not listed."""
    silent: bool


def make_answer(snapshot: Snapshot, window_s: int, stale_s: float, now_s: float) -> Answer | None:
    """Return the answer at a time; None without known load of any node.

    ``window_s`` must be one of the tables' windows, else no load is known.
    """
    if window_s not in snapshot.windows_s:
        return None
    until_s = fresh_until_s(snapshot, stale_s)
    silent = is_silent(snapshot, stale_s, now_s)
    figures = _figures(snapshot, window_s)
    known = snapshot.has_data & np.logical_or.reduce([np.isfinite(mean) for mean, _ in figures.values()])
    listed = np.flatnonzero(known if silent else known & (now_s <= until_s))
    if not listed.size:
        return None
    end = math.floor(snapshot.seen_at[listed].min())
    rollup = f"{window_s // 60}m" if window_s % 60 == 0 else f"{window_s}s"
    return Answer(
        WatcherMetrics(
            timestamp=math.floor(snapshot.seen_at[listed].max()),
            window=Window(rollup, end - window_s, end),
            source="Windward",
            data=Data(_nodes(snapshot.names, listed.tolist(), figures, rollup)),
        ),
        until_s=math.inf if silent else float(until_s[listed].min()),
        left_out=snapshot.machines_with_data - int(listed.size),
        silent=silent,
    )


def _figures(snapshot: Snapshot, window_s: int) -> dict[str, tuple[Floats, Floats]]:
    """Return mean and deviation of each type, in percent: both NaN where one of them or the capacity is unknown."""
    windows, capacity, found = snapshot.windows(window_s), snapshot.column("capacity"), {}
    for name, kind in TYPES.items():
        row = RESOURCES.index(name)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, std = 100.0 * windows.mean[row] / capacity[row], 100.0 * windows.std[row] / capacity[row]
        whole = np.isfinite(mean) & np.isfinite(std)
        found[kind] = (np.where(whole, mean, np.nan).round(_DECIMALS), np.where(whole, std, np.nan).round(_DECIMALS))
    return found


def _nodes(
    names: tuple[str, ...], listed: list[int], figures: Mapping[str, tuple[Floats, Floats]], rollup: str
) -> dict[str, NodeMetrics]:
    found: dict[str, list[Metric]] = {names[row]: [] for row in listed}
    for kind, (means, stds) in figures.items():
        for row, mean, std in zip(listed, means[listed].tolist(), stds[listed].tolist(), strict=True):
            if not math.isnan(mean):
                found[names[row]] += (
                    Metric("windward", kind, "AVG", rollup, mean),
                    Metric("windward", kind, "STD", rollup, std),
                )
    return {name: NodeMetrics(metrics) for name, metrics in found.items()}
