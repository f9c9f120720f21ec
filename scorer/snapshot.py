"""The Snapshot: what is known of every machine at one moment, as read-only numpy columns, the machine the last axis.

It is built every few tens of milliseconds, so it copies nothing it need not: a column is joined from the window tables
when somebody first asks for it; names, labels and operator columns are taken over from the snapshot before while
nothing in them changed. Letters as in `schemas.window_table`: W windows, R resources, Q percentiles, M machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.operator import OperatorFacts, Taint, effective
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.sample import MachineFacts
from schemas.window_table import PERCENTILES, WARMING_COVERAGE, WindowTable

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]

LONGEST_COVERED = 0
"""As a window: for each machine the longest one that is covered."""

_R, _Q, _C = len(RESOURCES), len(PERCENTILES), len(PRIORITY_CLASSES)
_LEADING_AXES: dict[str, tuple[str, ...]] = {
    "at": (), "skew": (), "end": (), "boot": (), "interval_s": (), "peak_since": (),
    "capacity": ("R",), "peak_today": ("R",), "peak_yesterday": ("R",),
    "mean": ("W", "R"), "std": ("W", "R"), "max": ("W", "R"), "filled": ("W", "R"), "coverage": ("W", "R"),
    "percentile": ("W", "R", "Q"), "class_mean": ("C", "W", "R"),
}  # fmt: skip
_ABSENT = {"filled": 0.0, "coverage": 0.0, "skew": 0.0}
"""What a column holds where nothing is known; NaN unless listed."""


@dataclass(frozen=True, eq=False)
class Roster:
    """The machines and their rows. Two snapshots with the same machines share one roster, so rows can be compared."""

    names: tuple[str, ...]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Name to row."""
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def name_order(self) -> Integers:
        """[M] Position of each row's name among the sorted names: how ties are broken."""
        order = np.empty(len(self.names), np.int64)
        order[np.argsort(np.array(self.names, dtype=np.str_))] = np.arange(len(self.names))
        return order


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """One label of all machines: ``codes`` [M] indexes ``values``; -1 where a machine has no such label."""

    values: tuple[str, ...]
    codes: Integers


class MachineRules:
    """The slow columns: labels, taints, cordon, shares, thresholds. Made anew only when somebody changes one."""

    def __init__(
        self, roster: Roster, facts: Mapping[str, MachineFacts], operator: Mapping[str, OperatorFacts]
    ) -> None:
        said = (
            [effective(operator, name) for name in roster.names] if operator else [OperatorFacts()] * len(roster.names)
        )
        reported = [facts.get(name) for name in roster.names]
        self._labels: list[Mapping[str, str]] = [
            (fact.labels | rule.labels) if fact else rule.labels for fact, rule in zip(reported, said, strict=True)
        ]
        self._label_columns: dict[str, LabelColumn] = {}
        self.cordon: Bools = np.array([rule.cordon for rule in said], np.bool_)
        self.has_cordon = bool(self.cordon.any())
        self.share = _by_resource([rule.share for rule in said], 1.0)
        self.reserve = _by_resource([rule.reserve for rule in said], 0.0)
        self.capacity_operator = _by_resource([rule.capacity for rule in said], np.nan)
        self.capacity_agent = _by_resource([fact.capacity if fact else {} for fact in reported], np.nan)
        self.thresholds = _by_resource([rule.thresholds for rule in said], np.nan)
        self.prod_thresholds = _by_resource([rule.prod_thresholds for rule in said], np.nan)
        self.percentile_thresholds = _by_resource([rule.percentile_thresholds for rule in said], np.nan)
        self.has_thresholds = bool(np.isfinite(self.thresholds).any())
        self.has_prod_thresholds = bool(np.isfinite(self.prod_thresholds).any())
        self.has_percentile_thresholds = bool(np.isfinite(self.percentile_thresholds).any())
        power = [(rule.power.k0, rule.power.k1, rule.power.k2) if rule.power else (0.0, 0.0, 0.0) for rule in said]
        self.power: Floats = np.ascontiguousarray(np.array(power, np.float64).reshape(-1, 3).T)
        self.plain_allocatable = not any(rule.share or rule.reserve or rule.capacity for rule in said)
        codes: dict[tuple[Taint, ...], int] = {}
        self.taint_codes: Integers = np.array([codes.setdefault(rule.taints, len(codes)) for rule in said], np.int64)
        self.taint_sets: tuple[tuple[Taint, ...], ...] = tuple(codes)

    def label(self, key: str) -> LabelColumn:
        """Return one label as a column; made at the first asking."""
        column = self._label_columns.get(key)
        if column is None:
            codes: dict[str, int] = {}
            rows = [codes.setdefault(labels[key], len(codes)) if key in labels else -1 for labels in self._labels]
            column = self._label_columns[key] = LabelColumn(tuple(codes), np.array(rows, np.int64))
        return column

    def labels(self, row: int) -> Mapping[str, str]:
        """Return the labels of one machine."""
        return self._labels[row]


def _by_resource(rows: Sequence[Mapping[str, Any]], absent: float) -> Floats:
    """Return [R, M] from one mapping a machine."""
    column = np.full((_R, len(rows)), absent)
    for row, mapping in enumerate(rows):
        for resource, value in mapping.items():
            if resource in RESOURCES:
                column[RESOURCES.index(resource), row] = float(value)
    return column


@dataclass(frozen=True, eq=False)
class WindowView:
    """The windows that one decision goes by: one for each machine."""

    window_s: Floats
    """[M] length of the window used."""
    position: Integers
    """[M] its place on the W axis."""
    mean: Floats
    """[R, M] mean usage; NaN where unknown."""
    std: Floats
    """[R, M] population standard deviation."""
    filled: Floats
    """[R, M] filled slots."""
    coverage: Floats
    """[M] the least coverage over the resources the machine has."""
    warming: Bools
    """[M] less than half covered."""


class Snapshot:
    """Everything known of all machines. Read-only; make it with `build_snapshot`."""

    def __init__(
        self,
        tables: Sequence[WindowTable],
        roster: Roster,
        rules: MachineRules,
        gather: Integers | None,
        sources: Any,
    ) -> None:
        self.roster = roster
        self.rules = rules
        self.windows_s: tuple[int, ...] = tuple(sorted({w for table in tables for w in table.header.windows_s}))
        self._tables = tables
        self._gather = gather
        self.sources = sources
        self._columns: dict[str, Floats] = {}
        self._views: dict[int, WindowView] = {}
        self._constants: dict[Any, dict[Any, Any]] = {}

    def __len__(self) -> int:
        return len(self.roster.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The machines in row order."""
        return self.roster.names

    def column(self, name: str) -> Floats:
        """Return a column of the window tables over all machines, as float64; joined at the first asking."""
        column = self._columns.get(name)
        if column is None:
            column = self._join(name)
            column.flags.writeable = False
            self._columns[name] = column
        return column

    def _join(self, name: str) -> Floats:
        axes = _LEADING_AXES[name]
        sizes = {"W": len(self.windows_s), "R": _R, "Q": _Q, "C": _C}
        absent = _ABSENT.get(name, np.nan)
        parts = []
        for table in self._tables:
            part = table.columns.get(name)
            shape = (*(sizes[axis] for axis in axes), table.header.machines)
            if part is None:
                part = np.full(shape, absent)
            elif "W" in axes and table.header.windows_s != self.windows_s:
                part = _align_windows(part, axes.index("W"), table.header.windows_s, self.windows_s, absent)
            parts.append(part)
        if self._gather is not None:
            parts.append(np.full((*(sizes[axis] for axis in axes), 1), absent))
        if len(parts) == 1 and self._gather is None:
            return np.asarray(parts[0], np.float64)[...]
        if not parts:
            return np.empty((*(sizes[axis] for axis in axes), 0))
        joined = np.concatenate(parts, axis=-1, dtype=np.float64)
        return joined if self._gather is None else joined.take(self._gather, axis=-1)

    @cached_property
    def has_data(self) -> Bools:
        """[M] Whether any sample was ever seen."""
        return np.isfinite(self.column("at"))

    @cached_property
    def seen_at(self) -> Floats:
        """[M] Event time of the newest sample on the broker's clock: age is now less this; -inf without data."""
        return np.where(self.has_data, self.column("at") - np.nan_to_num(self.column("skew")), -np.inf)

    @cached_property
    def capacity(self) -> Floats:
        """[R, M] The operator's figure, else the window table's, else the agent's fact; NaN where unknown."""
        capacity = self.column("capacity")
        agent, operator = self.rules.capacity_agent, self.rules.capacity_operator
        if np.isnan(capacity.sum()):
            capacity = np.where(np.isfinite(capacity), capacity, agent)
        return capacity if self.rules.plain_allocatable else np.where(np.isfinite(operator), operator, capacity)

    @cached_property
    def allocatable(self) -> Floats:
        """[R, M] capacity * share - reserve, never below 0: the one basis of every comparison."""
        if self.rules.plain_allocatable:
            return self.capacity
        return np.maximum(self.capacity * self.rules.share - self.rules.reserve, 0.0)

    @cached_property
    def inverse_allocatable(self) -> Floats:
        """[R, M] 1 / allocatable; NaN where unknown or 0."""
        with np.errstate(divide="ignore"):
            inverse = 1.0 / self.allocatable
        if np.isinf(inverse).any():
            inverse[np.isinf(inverse)] = np.nan
        return inverse

    def view(self, window_s: int = LONGEST_COVERED) -> WindowView:
        """Return the columns of one window length, or of each machine's longest covered window.

        Where no window is covered it is the longest of those with the best coverage, and the machine is warming.

        Raises KeyError for a length that no table has.
        """
        view = self._views.get(window_s)
        if view is None:
            if window_s != LONGEST_COVERED and window_s not in self.windows_s:
                raise KeyError(window_s)
            view = self._views[window_s] = self._make_view(window_s)
        return view

    def _make_view(self, window_s: int) -> WindowView:
        machines = len(self)
        if not self.windows_s:
            nothing = np.full((_R, machines), np.nan)
            zero, all_true = np.zeros(machines), np.ones(machines, np.bool_)
            return WindowView(zero, zero.astype(np.int64), nothing, nothing, np.zeros((_R, machines)), zero, all_true)
        lengths = np.array(self.windows_s, np.float64)
        least = self._least_coverage
        if window_s != LONGEST_COVERED:
            position = np.full(machines, self.windows_s.index(window_s), np.int64)
        elif machines == 0 or least[-1].min() >= WARMING_COVERAGE:
            position = np.full(machines, len(lengths) - 1, np.int64)
        else:
            covered = least >= WARMING_COVERAGE
            longest = len(lengths) - 1 - np.argmax(covered[::-1], axis=0)
            position = np.where(covered.any(axis=0), longest, len(lengths) - 1 - np.argmax(least[::-1], axis=0))
        coverage = self._pick(least, position)
        return WindowView(
            window_s=lengths[position],
            position=position,
            mean=self._pick(self.column("mean"), position),
            std=self._pick(self.column("std"), position),
            filled=self._pick(self.column("filled"), position),
            coverage=coverage,
            warming=coverage < WARMING_COVERAGE,
        )

    @cached_property
    def _least_coverage(self) -> Floats:
        """[W, M] Least coverage over the resources that have any data in the window; 0 where none has."""
        coverage, mean = self.column("coverage"), self.column("mean")
        somewhere_unknown = bool(np.isnan(mean.sum()))
        known = np.where(np.isfinite(mean), coverage, np.inf) if somewhere_unknown else coverage
        least: Floats = np.minimum.reduce(known, axis=1)
        if somewhere_unknown:
            least[np.isinf(least)] = 0.0
        return least

    @staticmethod
    def _pick(column: Floats, position: Integers) -> Floats:
        """Return [..., M]: of a [W, ..., M] column each machine's own window; a view when all use the same."""
        if position.size and position[0] == position[-1] and (position == position[0]).all():
            found: Floats = column[position[0]]
            return found
        index = position.reshape((1,) * (column.ndim - 1) + (-1,))
        picked: Floats = np.take_along_axis(column, np.broadcast_to(index, (1, *column.shape[1:])), axis=0)[0]
        return picked

    def constants(self, key: Any) -> dict[Any, Any]:
        """Return where what follows from the snapshot alone is kept, under one way of looking at it."""
        return self._constants.setdefault(key, {})

    def picked(self, name: str, view: WindowView) -> Floats:
        """Return any other W column at the windows of a view: ``max`` [R, M], ``percentile`` [R, Q, M], ..."""
        column = self.column(name)
        if name == "class_mean":
            return np.stack([self._pick(column[c], view.position) for c in range(column.shape[0])])
        return self._pick(column, view.position) if column.shape[0] else np.full(column.shape[1:], np.nan)


def _align_windows(
    part: NDArray[Any], axis: int, own: tuple[int, ...], wanted: tuple[int, ...], absent: float
) -> NDArray[Any]:
    """Put a table's windows at their places among those of all tables."""
    shape = list(part.shape)
    shape[axis] = len(wanted)
    aligned = np.full(shape, absent)
    target = np.moveaxis(aligned, axis, 0)
    source = np.moveaxis(part, axis, 0)
    for position, window_s in enumerate(own):
        target[wanted.index(window_s)] = source[position]
    return aligned


@dataclass(frozen=True, eq=False)
class _Sources:
    """What roster and rules were made from, to tell whether they can be used again."""

    names: tuple[bytes, ...]
    facts: Mapping[str, MachineFacts]
    operator: Mapping[str, OperatorFacts]
    ledger_machines: Iterable[str]
    rows: Mapping[str, list[int]]
    """Machines that are in several tables, with their rows in the joined order."""
    gather: Integers | None


def build_snapshot(
    tables: Sequence[WindowTable],
    facts: Mapping[str, MachineFacts],
    operator: Mapping[str, OperatorFacts],
    *,
    ledger_machines: Iterable[str] = (),
    previous: Snapshot | None = None,
) -> Snapshot:
    """Return the snapshot of these tables; takes 50 µs when only the numbers changed.

    Names, labels and rules of ``previous`` are used again when the tables' ``names`` bytes are equal, ``facts`` and
    ``operator`` are the very same objects (pass new ones only when their content changed), and no machine is new.
    A machine of several tables is that of the newest ``at``. One that only facts, the operator or the ledger know is
    there without data.
    """
    names = tuple(table.names for table in tables)
    old: _Sources | None = previous.sources if previous else None
    same_machines = (
        previous is not None
        and old is not None
        and old.names == names
        and old.facts is facts
        and old.operator is operator
        and (old.ledger_machines is ledger_machines or all(name in previous.roster.index for name in ledger_machines))
    )
    if same_machines and old is not None and previous is not None:
        roster, rules = previous.roster, previous.rules
        gather = _choose_newest(tables, old.gather, old.rows, roster)
        return Snapshot(tables, roster, rules, gather, old)
    joined = [name for table in tables for name in table.machines]
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(joined):
        rows.setdefault(name, []).append(row)
    known = [name for name in (*facts, *operator, *ledger_machines) if name != "*" and name not in rows]
    ordered = (*rows, *dict.fromkeys(known))
    roster = previous.roster if previous is not None and previous.names == ordered else Roster(ordered)
    duplicates = {name: at for name, at in rows.items() if len(at) > 1}
    gather = None
    if known or duplicates:
        gather = np.array([*(at[-1] for at in rows.values()), *(len(joined) for _ in dict.fromkeys(known))], np.int64)
    sources = _Sources(names, facts, operator, ledger_machines, duplicates, gather)
    gather = _choose_newest(tables, gather, duplicates, roster)
    return Snapshot(tables, roster, MachineRules(roster, facts, operator), gather, sources)


def _choose_newest(
    tables: Sequence[WindowTable], gather: Integers | None, duplicates: Mapping[str, list[int]], roster: Roster
) -> Integers | None:
    """Point each machine of several tables at its row with the newest ``at``."""
    if gather is None or not duplicates:
        return gather
    at = np.concatenate([table.columns["at"] for table in tables])
    chosen = gather.copy()
    for name, rows in duplicates.items():
        chosen[roster.index[name]] = max(rows, key=lambda row: (np.nan_to_num(at[row], nan=-np.inf), row))
    return chosen
