"""A list of machines for people: filtered, sorted, in columns; or one machine in full."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from schemas.process.settings import SettingsError
from schemas.process.tables import Column, Screen, table, view
from schemas.resources import RESOURCES
from schemas.values.near import did_you_mean
from schemas.values.numbers import amount, counted, duration
from scorer.client import MachineRow, RiskResult, SoonHot
from scorer.commands.shared.show import age, ratio

State = Literal["fresh", "stale", "silent", "warming", "cordoned", "tainted", "failing"]
STATES: tuple[str, ...] = get_args(State)
if TYPE_CHECKING:
    Sort = str
else:
    Sort = Literal["machine", *RESOURCES, "instances", "age"]
STALE_S = 60.0
"""Data older than this is stale; the same as in the built-in profiles."""

_MEASURED = {"cpu": ("mean", "std", "allocatable"), "memory": ("mean", "allocatable")}
"""Resources whose amounts are in the table, and which amounts."""
_IN_WINDOW = ("mean", "std", "p50", "p90", "p95", "p99", "max")
_SHARES = ("mean", "p95", "max")
"""Figures that are also shown as a share of allocatable, like the thresholds of profiles."""
_HEADINGS = {"mean": "mean", "std": "std", "allocatable": "of"}


def states(row: MachineRow) -> list[str]:
    found = ["silent" if not row.has_data else "stale" if (row.age_s or 0.0) > STALE_S else "fresh"]
    found += ["warming"] * row.warming + ["cordoned"] * row.cordon + ["tainted"] * bool(row.taints)
    return found + ["failing"] * (row.failed_starts >= 0.5)


def matching(rows: Iterable[MachineRow], wanted: Sequence[str], selector: str) -> list[MachineRow]:
    """Return the machines in all of these states that the selector matches."""
    from scorer.commands.machines.operator_facts import selects

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
    """Return a table: shares first, then amounts of cpu and memory. ``wanted``: only these columns, in this order.

    Raises SettingsError for an unknown column.
    """
    for title in wanted:
        if title not in TITLES:
            hint = did_you_mean(title, TITLES) or f"; there are {', '.join(TITLES)}"
            raise SettingsError(f"columns: no column {title!r}{hint}")
    named = {column.title: column for column in COLUMNS}
    if wanted:
        return view([replace(named[title], priority=0) for title in wanted], rows, screen)
    empty = {name for name in RESOURCES if name not in _MEASURED and all(_used(row, name) is None for row in rows)}
    empty |= set() if any(row.labels for row in rows) else {"labels"}
    return view([column for column in COLUMNS if column.title not in empty], rows, screen)


def page(row: MachineRow, screen: Screen | None = None) -> str:
    """Return all that is known about one machine, as text."""
    lines = [
        f"{row.machine}: {', '.join(states(row))}",
        f"  data       {age(row.age_s)} old",
        f"  window     {duration(row.window_s)}, {ratio(row.coverage)} of it covered",
        f"  instances  {row.instances}",
        f"  failed     {row.failed_starts:g} starts (each counts half after ten minutes)",
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
    lines += [table(columns, rows, screen), *windows_table(row, screen)]
    classes = [(name, resource, said) for name, of in row.classes.items() for resource, said in of.items()]
    return "\n".join([*lines, *["", view(_CLASSES, classes, screen)] * bool(classes)])


def share(value: float | None, whole: float | None) -> str:
    """Return an amount as a share; a dash where one of the two is unknown."""
    return ratio(value / whole if whole and value is not None else None)


def windows_table(row: MachineRow, screen: Screen | None) -> list[str]:
    """Return a table of the windows by resource, as measured; empty where none has data."""
    whole = {name: row.resources[name].get("allocatable") for name in row.windows}
    rows = [
        [name, duration(float(length)), *(amount(name, said[what]) for what in _IN_WINDOW),
         *(share(said[what], whole[name]) for what in _SHARES),
         ratio(said["coverage"])]
        for name, by_length in row.windows.items()
        for length, said in by_length.items()
        if said["mean"] is not None
    ]  # fmt: skip
    columns = [Column("resource"), Column("window"), *(Column(what, 1) for what in _IN_WINDOW)]
    columns += [*(Column(f"{what} share") for what in _SHARES), Column("covered", 2)]
    return ["", table(columns, rows, screen)] if rows else []


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "-"


def _taint(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect', 'refuse')}"


def _used(row: MachineRow, resource: str) -> float | None:
    terms = row.resources.get(resource)
    return terms["utilization"] if terms else None


def _share(name: str, row: MachineRow) -> str:
    return ratio(_used(row, name))


def _part(name: str, what: str, row: MachineRow) -> str:
    return amount(name, row.resources[name][what], 0 if what == "allocatable" else 2)


COLUMNS = (
    Column("machine", of="machine"),
    *(Column(name, 0 if name in _MEASURED else 3, of=partial(_share, name))
      for name in sorted(RESOURCES, key=lambda name: name not in _MEASURED)),
    Column("instances", 2, of="instances"), Column("age", 1, of=lambda row: age(row.age_s)),
    Column("notes", 1, left=True, of=lambda row: ", ".join(one for one in states(row) if one != "fresh") or "-"),
    *(Column(f"{name} {_HEADINGS[what]}", 5 if what == "std" else 4, of=partial(_part, name, what))
      for name, parts in _MEASURED.items() for what in parts),
    Column("labels", 6, left=True, of=lambda row: _pairs(row.labels)),
)  # fmt: skip
TITLES = tuple(column.title for column in COLUMNS)


def _of_class(what: str, row: tuple[str, str, Mapping[str, float | None]]) -> str:
    return amount(row[1], row[2].get(what))


_CLASSES = (
    Column("class", of=lambda row: row[0]), Column("resource", left=True, of=lambda row: row[1]),
    *(Column(title, of=partial(_of_class, what)) for title, what in
      (("used", "used"), ("allocated", "promised"), ("sum", "counted"), ("at most", "most"))),
)  # fmt: skip


def soon_hot(found: RiskResult, screen: Screen | None = None) -> str:
    """Return the answer of ``risk``: a table, and over how many machines it is."""
    above = f"above {ratio(found.limit)} cpu within {duration(found.within_s)}"
    return f"{view(_SOON_HOT, found.machines, screen)}\n{above}; of {counted(found.total, 'machine')} with fresh data"


def _heated_by(row: SoonHot) -> str:
    """Return what heats a machine, the three largest instances and the rest, as shares of allocatable."""
    parts = [f"{one.id} {share(one.cpu, row.allocatable)}" for one in row.instances[:3]]
    if more := row.instances[3:]:
        parts.append(f"{counted(len(more), 'more instance')} {share(sum(one.cpu for one in more), row.allocatable)}")
    return ", ".join([*parts, f"other {share(row.other, row.allocatable)}"])


_SOON_HOT = (
    Column("machine", of="machine"), Column("chance", of=lambda row: ratio(row.chance)),
    Column("now", of=lambda row: ratio(row.recent)), Column("mean", 2, of=lambda row: ratio(row.mean)),
    Column("std", 3, of=lambda row: ratio(row.std)),
    Column("trend", 2, of=lambda row: f"{100 * (row.recent - row.mean):+.0f}%"),
    Column("heated by", 1, left=True, of=_heated_by),
)  # fmt: skip
