"""``windward machines history``: the load of one machine, slot by slot, from the state that the stream app keeps.

The hour of slots of a partition is one value a slot, of all its machines (`schemas.names`): only the requested slots
are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schemas.names import RING_SLOTS, SLOT_S, Names
from schemas.process.tables import Screen
from schemas.resources import RESOURCES
from schemas.tables.window_table import TableError, aligned, decode_table
from schemas.values.numbers import amount, duration, finite
from scorer.client import MachineRow, WindwardError
from scorer.commands.machines.machine_table import share, windows_table
from scorer.commands.shared.show import time_of
from scorer.live.windows_reader import asking

if TYPE_CHECKING:
    from scorer.cluster_wire import WindowsWire

_READ = 40
"""Slots that are read at once."""
_WIDTH = 60
_BARS = "▁▂▃▄▅▆▇█"


def read_history(windows: WindowsWire, names: Names, partitions: int, machine: str, since_s: float) -> dict[str, Any]:
    """Return the means of the newest slots of a machine by resource, null where one is empty; raises WindwardError."""
    ask, newest, row, number = asking(windows), -1, 0, 0
    for partition, raw in enumerate(ask([("GET", names.vitals(each)) for each in range(partitions)])):
        table = decode_table(raw) if raw else None
        if table is not None and machine in table.machines:
            place = table.machines.index(machine)
            if (head := int(table.columns["head"][place])) > newest:
                newest, row, number = head, place, partition
    if newest < 0:
        raise WindwardError("NOT_FOUND", f"the stream app has no samples of machine {machine!r}")
    slots = range(newest - min(RING_SLOTS, max(1, round(since_s / SLOT_S))) + 1, newest + 1)
    means = np.full((len(RESOURCES), len(slots)), np.nan)
    for first in range(0, len(slots), _READ):
        keys = [("GET", names.slots(number, slot % RING_SLOTS)) for slot in slots[first : first + _READ]]
        for place, raw in enumerate(ask(keys), first):
            means[:, place] = _means(raw, row)
    by_name = zip(RESOURCES, means.tolist(), strict=True)
    return {
        "machine": machine,
        "slot_s": SLOT_S,
        "until": (newest + 1) * SLOT_S,
        "slots": {name: [finite(value) for value in values] for name, values in by_name},
    }


def _means(raw: bytes | None, row: int) -> Any:
    """Return the means by resource in one slot; unknown where the slot has no data of this machine."""
    try:
        table = decode_table(raw or b"")
    except TableError:
        return np.nan
    count, mean = aligned(table, "n"), aligned(table, "mean")
    if count is None or mean is None or row >= table.header.machines:
        return np.nan
    return np.where(count[:, row] > 0, mean[:, row], np.nan)


def sparkline(values: Sequence[float | None], width: int = _WIDTH) -> str:
    """Return the values as bars between 0 and the highest; a space where none is known.

    >>> sparkline([0.0, 1.0, None, 4.0, 8.0]), sparkline([1.0, 3.0, 8.0, 8.0], 2), sparkline([0.0])
    ('▁▁ ▄█', '▂█', '▁')
    """
    parts = np.array_split(np.array(values, float), min(width, len(values)))
    known = [finite(part[np.isfinite(part)].mean()) if np.isfinite(part).any() else None for part in parts]
    top = max((value for value in known if value is not None), default=0.0) or 1.0
    return "".join(" " if value is None else _BARS[min(7, int(8 * value / top - 1e-9))] for value in known)


def show(found: dict[str, Any], row: MachineRow, screen: Screen | None = None) -> str:
    """Return the history for people: a sparkline by resource, and the windows."""
    length = duration(len(found["slots"][RESOURCES[0]]) * found["slot_s"])
    lines = [f"{found['machine']}: the {length} before {time_of(found['until'])}"]
    wide = max(10, min(_WIDTH, (screen.width if screen is not None and screen.width else 100) - 40))
    for name, values in found["slots"].items():
        if not (known := [value for value in values if value is not None]):
            continue
        whole = row.resources[name]["allocatable"]
        low, high, last = (f"{amount(name, one)} ({share(one, whole)})" for one in (min(known), max(known), known[-1]))
        lines.append(f"  {name:8}{sparkline(values, wide)}  {low} to {high}, now {last}")
    return "\n".join([*lines, *windows_table(row, screen)])
