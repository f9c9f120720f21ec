"""``windward top``: its settings, and the fleet at one moment: rows, figures, the newest decisions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from schemas.process.connections import WindowsSettings
from schemas.process.settings import setting
from schemas.process.tables import Column, Screen, table
from schemas.resources import CPU, MEMORY, NIC, RESOURCES
from schemas.values.numbers import counted, duration, finite, number
from scorer.commands.shared.show import age, ratio
from scorer.planning.soon_hot import chances, margins
from scorer.settings import ClientSettings
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class TopSettings(ClientSettings, WindowsSettings):
    """Watch the fleet: machines of highest load, their windows, risk, the fleet's spread, the newest decisions.

    Keys: c m n d k h a sort by cpu, memory, nic, disk, risk, soon (the chance to be hot within an hour), age; N by
    name; r reverses the order; / filters by name; s shows stale machines only; q ends.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward top",
        "windward top --once --sort memory --limit 10      # one frame, for a script or a mail",
    )

    once: bool = setting(False, "print one frame and exit")
    sort: Literal["cpu", "memory", "nic", "disk", "risk", "soon", "age", "machine"] = setting(
        "cpu", "order by", metavar="COLUMN"
    )
    reverse: bool = setting(False, "the other way round")
    filter: str = setting("", "only machines whose name contains this", metavar="TEXT")
    limit: Annotated[int, Meta(ge=1, le=10_000)] = setting(20, "with --once: the most machines printed")
    interval_s: Annotated[float, Meta(ge=0.2, le=3600)] = setting(2.0, "how often it looks")


STALE_S = 60.0
REST = RESOURCES[NIC:]
"""Resources with one column, of the shortest window; one that no machine reports has none."""


@dataclass(frozen=True)
class Row:
    """One machine: utilization by window, shortest first; for `REST` in the shortest alone. None where unknown."""

    machine: str
    cpu: tuple[float | None, ...]
    cpu_std: float | None
    memory: tuple[float | None, ...]
    rest: Mapping[str, float | None]
    risk: float | None
    soon: float | None
    """The chance that CPU load is above `scorer.planning.soon_hot.LIMIT` within an hour."""
    age_s: float

    @property
    def stale(self) -> bool:
        """Return whether the machine's data is too old to be used."""
        return self.age_s > STALE_S


@dataclass(frozen=True)
class Decision:
    at_s: float
    what: str
    refused: str = ""
    """How many machines were refused, and why."""


@dataclass(frozen=True)
class Moment:
    """The state of the fleet at one moment; at 0 nothing was read yet."""

    now_s: float
    windows_s: Sequence[int] = ()
    rows: Sequence[Row] = ()
    std: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Standard deviation of utilization over the fleet, by resource, then window."""
    waiting: int = 0
    scorers: int = 0
    decisions: Sequence[Decision] = ()
    problem: str = ""
    """What is wrong with what is shown: the process that causes it comes first in the heading."""


def utilization(fleet: Snapshot) -> Floats:
    """Return [W, R, M]: mean over capacity, as the tables of the windows have them; NaN where either is unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        used: Floats = fleet.column("mean") / fleet.column("capacity")
    return used


def deviation(fleet: Snapshot, window: int) -> Floats:
    """Return [R, M]: the standard deviation in one window over capacity, as above."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = fleet.column("std")[window] / fleet.column("capacity")
    return found


def risks_of(fleet: Snapshot) -> Floats:
    """Return [M] the risk of each machine, 0 to 1: the highest of CPU, memory and NIC, over the longest window.

    It is `load_variation_risk` of the measured load against capacity, without credits and operators' reserves. So every
    machine has one, whether a scorer would offer it or not. NaN where no load is known.
    """
    spread = np.nan_to_num(deviation(fleet, -1))[[CPU, MEMORY, NIC]]
    risks = (np.clip(utilization(fleet)[-1][[CPU, MEMORY, NIC]], 0.0, 1.0) + np.clip(spread, 0.0, 1.0)) / 2.0
    worst: Floats = np.fmax.reduce(risks, axis=0)
    return worst


def soon_of(fleet: Snapshot) -> Floats:
    """Return [M] the chance of each machine to be hot soon, by its load against capacity; NaN where it is unknown."""
    used = utilization(fleet)[:, CPU]
    return chances(margins(used[0], used[-1], deviation(fleet, -1)[CPU]))


def rows_of(fleet: Snapshot, now_s: float) -> list[Row]:
    """Return one row for each machine of the window tables."""
    if not len(fleet):
        return []
    used, risks, soon = utilization(fleet), risks_of(fleet), soon_of(fleet)
    std, at_s = deviation(fleet, 0)[CPU], fleet.column("at")
    return [
        Row(
            machine=name,
            cpu=tuple(finite(value) for value in used[:, CPU, at]),
            cpu_std=finite(std[at]),
            memory=tuple(finite(value) for value in used[:, MEMORY, at]),
            rest={name: finite(used[0, r, at]) for r, name in enumerate(RESOURCES) if name in REST},
            risk=finite(risks[at]),
            soon=finite(soon[at]),
            age_s=now_s - float(at_s[at]),
        )
        for at, name in enumerate(fleet.names)
    ]


def spread_of(fleet: Snapshot) -> dict[str, tuple[float | None, ...]]:
    """Return the standard deviation of utilization over the fleet: by resource, one for each window."""
    if not len(fleet):
        return {}
    used = utilization(fleet)
    with np.errstate(invalid="ignore"):
        return {
            name: tuple(finite(np.nanstd(window)) if np.isfinite(window).any() else None for window in used[:, r])
            for name, r in (("cpu", CPU), ("memory", MEMORY), ("nic", NIC))
        }


def chosen(moment: Moment, by: str, *, reverse: bool = False, text: str = "", stale_only: bool = False) -> list[Row]:
    """Return the rows whose name contains ``text``, the highest value of column ``by`` first; names in their order."""
    found = [row for row in moment.rows if text.lower() in row.machine.lower() and (row.stale or not stale_only)]
    if by == "machine":
        return sorted(found, key=lambda row: row.machine, reverse=reverse)

    def value(row: Row) -> float:
        what = {
            "cpu": row.cpu[:1],
            "memory": row.memory[:1],
            "risk": (row.risk,),
            "soon": (row.soon,),
            "age": (row.age_s,),
        }.get(by, (row.rest.get(by),))
        known = what[0] if what else None
        return -1.0 if known is None else known

    return sorted(found, key=value, reverse=not reverse)


def reported(moment: Moment) -> list[str]:
    """Return the resources of `REST` that some machine reports."""
    return [name for name in REST if any(row.rest.get(name) is not None for row in moment.rows)]


def columns(moment: Moment) -> list[Column]:
    """Return the columns: the name, CPU and memory by window, then the rest; the first window is never hidden.

    The longer windows of memory, which changes slowly, are hidden first, then the std, which is in the risk.
    """
    found = [Column("machine")]
    for name, priority in (("cpu", 2), ("mem", 6)):
        found += [Column(f"{name} {duration(s)}", priority if at else 0) for at, s in enumerate(moment.windows_s)]
        found += [Column("std", 6)] if name == "cpu" else []
    found += [Column(name, 5) for name in reported(moment)]
    return [*found, Column("risk", 1), Column("soon", 6), Column("age", 1)]


def cells(row: Row, rest: Sequence[str]) -> list[str]:
    """Return a row's cells, in the order of `columns`; ``rest`` are the resources that are `reported`."""
    return [
        row.machine, *map(ratio, row.cpu), ratio(row.cpu_std), *map(ratio, row.memory),
        *(ratio(row.rest.get(name)) for name in rest), number(row.risk), ratio(row.soon),
        age(row.age_s) + "!" * row.stale,
    ]  # fmt: skip


def heading(moment: Moment) -> list[str]:
    """Return the figures of the fleet, one per line; none before the first reading."""
    if not moment.now_s:
        return [moment.problem or "reading the fleet"]
    stale = sum(row.stale for row in moment.rows)
    counts = f"{counted(len(moment.rows), 'machine')}, {stale} stale   {counted(moment.scorers, 'scorer')}"
    lines = [moment.problem] * bool(moment.problem)
    lines.append(f"{counts}, {moment.waiting} {'query waits' if moment.waiting == 1 else 'queries wait'}")
    if moment.windows_s:
        windows = "/".join(map(duration, moment.windows_s))
        sides = "   ".join(
            f"{name} " + "/".join(number(v, 3) for v in values) for name, values in list(moment.std.items())[:2]
        )
        lines.append(f"std over the fleet ({windows}): {sides}")
    return lines


def decision_lines(moment: Moment, most: int) -> list[str]:
    """Return the newest decisions, the newest first; the reason of equal refusals in a row is shown once."""
    found, said = [], ""
    for one in moment.decisions[:most]:
        ago = duration(max(0.0, float(round(moment.now_s - one.at_s))))
        found.append(f"{ago:>6} ago  {one.what}" + (f": {one.refused}" if one.refused not in ("", said) else ""))
        said = one.refused
    return found


def as_json(moment: Moment) -> dict[str, Any]:
    """Return the state as data for `--json`: each row has the resources of `REST` by name."""
    rows = [{**asdict(row), **row.rest} for row in moment.rows]
    return {**asdict(moment), "rows": [{name: row[name] for name in row if name != "rest"} for row in rows]}


def frame(moment: Moment, rows: Sequence[Row], screen: Screen, *, machines: int, decisions: int) -> str:
    rest = reported(moment)
    shown = table(columns(moment), [cells(row, rest) for row in rows[:machines]], screen)
    lines = [*heading(moment), "", shown, "", "decisions", *decision_lines(moment, decisions)]
    return "\n".join(
        line if screen.width is None else line[: screen.width] if line.startswith("  ") else line for line in lines
    )
