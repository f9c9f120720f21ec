"""The machines of an answer for people: filtered, ordered, in columns; or one on a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from schemas.process.settings import SettingsError
from schemas.process.tables import Column, Screen, table
from schemas.resources import RESOURCES
from schemas.values.durations import duration
from schemas.values.near import did_you_mean
from scorer.client import MachineRow
from scorer.commands.shared.show import age, amount, ratio

State = Literal["fresh", "stale", "silent", "warming", "cordoned", "tainted"]
STATES: tuple[str, ...] = get_args(State)
if TYPE_CHECKING:
    Sort = str
else:
    Sort = Literal["machine", *RESOURCES, "instances", "age"]
STALE_S = 60.0
"""Data older than this is stale; the same as in the built-in profiles."""

_MEASURED = {"cpu": ("mean", "std", "allocatable"), "memory": ("mean", "allocatable")}
"""Resources whose amounts are in the table, and which amounts."""
_HEADINGS = {"mean": "mean", "std": "std", "allocatable": "of"}
TITLES = (
    "machine", *RESOURCES, "instances", "age", "notes",
    *(f"{name} {_HEADINGS[what]}" for name, parts in _MEASURED.items() for what in parts), "labels",
)  # fmt: skip


def states(row: MachineRow) -> list[str]:
    """Return the states a machine is in."""
    found = ["silent" if not row.has_data else "stale" if (row.age_s or 0.0) > STALE_S else "fresh"]
    return found + ["warming"] * row.warming + ["cordoned"] * row.cordon + ["tainted"] * bool(row.taints)


def matching(rows: Iterable[MachineRow], wanted: Sequence[str], selector: str) -> list[MachineRow]:
    """Return the machines in all of these states that the selector matches."""
    from scorer.commands.machines.known_machines import selects

    found = [row for row in rows if set(wanted) <= set(states(row))]
    return [row for row in found if selects(selector, row.machine, row.labels)] if selector else found


def ordered(rows: list[MachineRow], by: str, *, reverse: bool = False) -> list[MachineRow]:
    """Return the machines by name, or with the highest load, count or age first; unknown values come last."""
    if by == "machine":
        return sorted(rows, key=lambda row: str(row.machine), reverse=reverse)

    def value(row: MachineRow) -> float | None:
        found = row.age_s if by == "age" else row.instances if by == "instances" else _used(row, by)
        return None if found is None else float(found)

    known = [row for row in rows if value(row) is not None]
    return sorted(known, key=lambda row: (value(row) or 0.0) * (1 if reverse else -1)) + [
        row for row in rows if value(row) is None
    ]


def listing(rows: Sequence[MachineRow], wanted: Sequence[str] = (), screen: Screen | None = None) -> str:
    """Return a table: shares first, then amounts of cpu and memory; ``wanted``: these columns only, in their order.

    Raises SettingsError for a column that is not there.
    """
    for title in wanted:
        if title not in TITLES:
            hint = did_you_mean(title, TITLES) or f"; there are {', '.join(TITLES)}"
            raise SettingsError(f"columns: no column {title!r}{hint}")
    others = [name for name in RESOURCES if name not in _MEASURED and any(_used(row, name) is not None for row in rows)]
    cells: dict[str, tuple[Column, list[str]]] = {}

    def add(title: str, values: list[str], priority: int = 0, *, left: bool = False) -> None:
        cells[title] = (Column(title, priority, left), values)

    add("machine", [row.machine for row in rows])
    for name in (*_MEASURED, *(RESOURCES if wanted else others)):
        add(name, [ratio(_used(row, name)) for row in rows], 0 if name in _MEASURED else 3)
    add("instances", [str(row.instances) for row in rows], 2)
    add("age", [age(row.age_s) for row in rows], 1)
    add("notes", [_notes(row) for row in rows], 1, left=True)
    for name, parts in _MEASURED.items():
        for what in parts:
            values = [row.resources[name][what] for row in rows]
            shown = [amount(name, value, 0 if what == "allocatable" else 2) for value in values]
            add(f"{name} {_HEADINGS[what]}", shown, 5 if what == "std" else 4)
    if wanted or any(row.labels for row in rows):
        add("labels", [_pairs(row.labels) for row in rows], 6, left=True)
    chosen = [cells[title] for title in (wanted or cells)]
    if wanted:
        chosen = [(Column(column.title, 0, column.left), values) for column, values in chosen]
    return table([column for column, _ in chosen], list(zip(*(values for _, values in chosen), strict=True)), screen)


def page(row: MachineRow, screen: Screen | None = None) -> str:
    """Return all that is known about one machine, as text."""
    lines = [
        f"{row.machine}: {', '.join(states(row))}",
        f"  data       {age(row.age_s)} old",
        f"  window     {duration(row.window_s)}, {ratio(row.coverage)} of it covered",
        f"  instances  {row.instances}",
        f"  labels     {_pairs(row.labels)}",
        f"  taints     {', '.join(map(_taint, row.taints)) or '-'}",
        "",
    ]
    names = ("utilization", "mean", "std", "credit", "promised", "allocatable", "capacity")
    rows = []
    for name in RESOURCES:
        terms = row.resources.get(name) or {}
        rows.append([name, *(ratio(terms.get(w)) if w == "utilization" else amount(name, terms.get(w)) for w in names)])
    titles = {"utilization": "used", "promised": "allocated"}
    columns = [Column("resource"), *(Column(titles.get(name, name)) for name in names)]
    return "\n".join([*lines, table(columns, rows, screen), *_by_class(row.classes, screen)])


def _by_class(classes: Mapping[str, Mapping[str, Mapping[str, float | None]]], screen: Screen | None) -> list[str]:
    """Return a table by class: usage, allocated, sum and limit; empty when the profile counts all classes as one."""
    if not classes:
        return []
    rows = [
        [name, resource, *(amount(resource, said.get(what)) for what in ("used", "promised", "counted", "most"))]
        for name, resources in classes.items()
        for resource, said in resources.items()
    ]
    columns = [
        Column("class"),
        Column("resource", left=True),
        Column("used"),
        Column("allocated"),
        Column("sum"),
        Column("at most"),
    ]
    return ["", table(columns, rows, screen)]


def _notes(row: MachineRow) -> str:
    return ", ".join(state for state in states(row) if state != "fresh") or "-"


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "-"


def _taint(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect', 'refuse')}"


def _used(row: MachineRow, resource: str) -> float | None:
    terms = row.resources.get(resource)
    found: float | None = terms["utilization"] if terms else None
    return found
