"""Answers of ``machines`` and ``instances``: the scorer's data, filtered and in pages."""

import heapq
import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np

from schemas.resources import CPU, PRIORITY_CLASSES, RESOURCES
from schemas.rpc.parameters import Instances, MachineList, Risk
from schemas.rpc.request import InvalidRequest
from schemas.rpc.results import (
    Heating,
    InstanceRow,
    InstancesResult,
    MachineRow,
    MachinesResult,
    RiskResult,
    SoonHot,
    Violation,
)
from schemas.tables.window_table import PERCENTILES
from schemas.values.numbers import finite
from scorer.ledger.record.facets import FIELDS, Facet, named
from scorer.ledger.record.instance import LIVE, Instance, machines_of
from scorer.ledger.view.view import LedgerView
from scorer.planning.soon_hot import chances, loads_of, margins
from scorer.planning.which_machines import selected
from scorer.ranking.formulas.selectors import parse_selector
from scorer.ranking.inputs import ClassSums, RankingInputs, class_sums, quiet
from scorer.ranking.inputs import machines_of as seen_of
from scorer.ranking.machines import Machines
from scorer.ranking.scores.failed_starts import failed_starts
from scorer.ranking.staleness import fresh_until_s
from scorer.rpc.methods.records import ForPlanners, amounts_of, read_params, shown_record
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.usages import Usages, pair_digest

NAMED_MAX = 100
"""The most instances named for one violation, the newest."""
_EQUAL = ("state", *FIELDS)
READ_FOR_A_ROW = 20
"""The instances whose labels a selector reads in the time in which one row is made: 0.9 us each."""


def instances(
    params: dict[str, Any], view: LedgerView, find: Callable[[str], Instance | None], usages: Usages | None = None,
    most: float = math.inf, broken: Callable[[], list[Violation]] = list,
) -> InstancesResult:  # fmt: skip
    """Return the live instances that match, by id; a single id is found for a day after its end, too.

    Usage is read for the machine on which the ledger has the instance, since an agent measures only its own machine.
    ``broken`` returns the broken rules. Raises ForPlanners for more rows than ``most``, a selector on many times as
    many instances, or for these.
    """
    asked: Instances = read_params(Instances, params)
    if asked.id:
        record = view.instances.get(asked.id) or find(asked.id)
        found = [record] if record is not None else []
    else:
        found = _candidates(asked, view)
    if asked.violations and most < math.inf:
        raise ForPlanners
    if asked.selector and len(found) > READ_FOR_A_ROW * most:
        raise ForPlanners
    found, wrong = _matching(found, asked), list[Violation]()
    if asked.violations:
        matching = {one.id for one in found}
        wrong = [one for one in broken() if not matching.isdisjoint(one.instances)]
        named = {name for one in wrong for name in one.instances}
        found = [one for one in found if one.id in named]
        wrong = [msgspec.structs.replace(one, instances=one.instances[:NAMED_MAX]) for one in wrong]
    if asked.after:
        found = [one for one in found if one.id > asked.after]
    total, page = _page(found, attrgetter("id"), asked.limit, most)
    rows = [_shown(one, usages) for one in page]
    return InstancesResult(total=total, instances=rows, more=total > len(page), violations=wrong)


_Row = TypeVar("_Row")


def _page(rows: Sequence[_Row], name: Callable[[_Row], str], limit: int, most: float) -> tuple[int, list[_Row]]:
    """Return the number of rows, and the first ones by name."""
    if min(limit, len(rows)) > most:
        raise ForPlanners
    return len(rows), heapq.nsmallest(limit, rows, key=name)


def _candidates(asked: Instances, view: LedgerView) -> list[Instance]:
    if asked.machine:
        return view.held_on(asked.machine)
    facets: set[Facet] = {("label", key, value) for key, value in asked.labels.items()}
    facets.update((name, getattr(asked, name)) for name in FIELDS if getattr(asked, name))
    equal = [
        one for one in parse_selector(asked.selector) if one.operator == "=" and one.key not in ("machine", *FIELDS)
    ]
    facets.update(("label", one.key, *one.values) for one in equal)
    if facets:
        return [view.instances[instance_id] for instance_id in view.matching(frozenset(facets))]
    return list(view.instances.values())


def _matching(found: list[Instance], asked: Instances) -> list[Instance]:
    """Return the matching instances; filters that are not given cost nothing, since a list may have all instances."""
    if asked.machine:
        found = [one for one in found if asked.machine in machines_of(one)]
    for name in _EQUAL:
        if wanted := getattr(asked, name):
            get = attrgetter(name)
            found = [one for one in found if get(one) == wanted]
    if asked.labels:
        found = [one for one in found if asked.labels.items() <= one.labels.items()]
    if asked.selector:
        chosen = set(selected(asked.selector, {one.id: named(one) for one in found}))
        found = [one for one in found if one.id in chosen]
    return found


def _shown(record: Instance, usages: Usages | None) -> InstanceRow:
    usage = usages.find(record.machine, record.id) if usages and record.state in LIVE else None
    return shown_record(InstanceRow, record, usage=usage, **dict(zip(RESOURCES, amounts_of(record), strict=True)))


def machines(params: dict[str, Any], inputs: RankingInputs, most: float = math.inf) -> MachinesResult:
    """Return machines by name with their load, allocated amounts and age, as a decision would see them.

    Raises ForPlanners for more rows than ``most``.
    """
    asked: MachineList = read_params(MachineList, params)
    snapshot = inputs.snapshot
    names, index = snapshot.names, snapshot.roster.index
    if unknown := [name for name in asked.names or () if name not in index]:
        raise InvalidRequest(f"names: no machine {unknown[0]!r}")
    rows = [index[name] for name in asked.names] if asked.names else range(len(names))
    rows = [row for row in rows if names[row] > asked.after] if asked.after else rows
    if asked.labels:
        rows = [row for row in rows if asked.labels.items() <= snapshot.rules.labels(row).items()]
    total, page = _page(rows, names.__getitem__, asked.limit, most)
    found = _machines(seen_of(inputs, window_s=asked.window_s), class_sums(inputs), page)
    if asked.names:
        windows = _windows(snapshot.of_rows(np.array(page, np.int64)), len(page))
        found = [msgspec.structs.replace(one, windows=own) for one, own in zip(found, windows, strict=True)]
    return MachinesResult(total=total, machines=found, more=total > len(page))


def _windows(snapshot: Snapshot, machines: int) -> list[dict[str, dict[str, dict[str, float | None]]]]:
    """Return the windows' measured figures of so many machines."""
    titles = ("mean", "std", "max", "coverage", *(f"p{each}" for each in PERCENTILES))
    found: list[dict[str, Any]] = [{name: {} for name in RESOURCES} for _ in range(machines)]
    for place, seconds in enumerate(snapshot.windows_s):
        columns = [*(snapshot.window(title, place) for title in titles[:4])]
        columns += [*snapshot.window("percentile", place).swapaxes(0, 1)]
        by_machine = np.array(columns).transpose(2, 1, 0)
        known = by_machine.astype(object)
        known[~np.isfinite(by_machine)] = None
        for windows, values in zip(found, known.tolist(), strict=True):
            for name, row in zip(RESOURCES, values, strict=True):
                windows[name][str(seconds)] = dict(zip(titles, row, strict=True))
    return found


def _machines(seen: Machines, sums: ClassSums | None, rows: list[int]) -> list[MachineRow]:
    """Return the rows of some machines, from whole columns: reading single numbers takes four times as long."""
    snapshot = seen.snapshot
    shown: dict[str, Floats] = {
        "capacity": seen.capacity, "allocatable": seen.allocatable, "mean": seen.measured_mean, "std": seen.std,
        "credit": seen.credit, "debit": seen.debit, "promised": seen.allocated, "utilization": seen.utilization,
        "ratio": snapshot.rules.ratio,
    }  # fmt: skip
    taken = [(what, column[:, rows].tolist()) for what, column in shown.items()]
    plain = (column[rows].tolist() for column in (
        seen.has_data, seen.age_s, seen.window_s, seen.coverage, seen.warming, seen.cordon, seen.count, seen.maxmemory,
        failed_starts(seen),
    ))  # fmt: skip
    return [
        MachineRow(
            machine=snapshot.names[row],
            has_data=bool(has_data),
            age_s=finite(age_s),
            window_s=finite(window_s),
            coverage=finite(coverage),
            warming=bool(warming),
            cordon=bool(cordon),
            labels=dict(snapshot.rules.labels(row)),
            taints=[msgspec.to_builtins(t) for t in snapshot.rules.taint_sets[int(snapshot.rules.taint_codes[row])]],
            instances=int(count),
            failed_starts=round(failed, 3),
            maxmemory=finite(maxmemory),
            resources={
                name: {what: finite(column[position][at]) for what, column in taken}
                for position, name in enumerate(RESOURCES)
            },
            classes={} if sums is None else _classes(sums, row),
        )
        for at, (row, has_data, age_s, window_s, coverage, warming, cordon, count, maxmemory, failed) in enumerate(
            zip(rows, *plain, strict=True)
        )
    ]


def _classes(sums: ClassSums, row: int) -> dict[str, dict[str, dict[str, float | None]]]:
    columns = {"promised": sums.promised, "counted": sums.counted, "most": sums.most, "used": sums.used}
    return {
        name: {
            RESOURCES[position]: {what: finite(column[code, position, row]) for what, column in columns.items()}
            for position in sums.sold
        }
        for code, name in enumerate(PRIORITY_CLASSES)
    }


@quiet
def risk(params: dict[str, Any], inputs: RankingInputs) -> RiskResult:
    """Return the first machines by chance, of those with fresh data."""
    asked: Risk = read_params(Risk, params)
    snapshot = inputs.snapshot
    recent, mean, std = loads = loads_of(snapshot)
    margin = margins(recent, mean, std, asked.limit)
    fresh = np.isfinite(margin) & (fresh_until_s(snapshot, inputs.profile.stale_s) >= inputs.now_s)
    first = np.argsort(np.where(fresh, margin, np.inf), kind="stable")[: min(asked.top, int(fresh.sum()))]
    chance = chances(margin[first], asked.within_s)
    found = []
    for row, said, *load in zip(first.tolist(), chance.tolist(), *(one[first].tolist() for one in loads), strict=True):
        cores = float(snapshot.allocatable[CPU, row])
        heating = _instances(inputs, row)
        other = max(0.0, load[0] * cores - sum(one.cpu for one in heating))
        found.append(
            SoonHot(
                machine=snapshot.names[row], chance=said, recent=load[0], mean=load[1], std=load[2], allocatable=cores,
                instances=heating, other=other,
            )
        )  # fmt: skip
    return RiskResult(total=int(fresh.sum()), within_s=asked.within_s, limit=asked.limit, machines=found)


def _instances(inputs: RankingInputs, row: int) -> list[Heating]:
    """Return the measured instances of a machine, the largest use first."""
    columns, name = inputs.snapshot.usages.columns, inputs.snapshot.names[row]
    ids = [one.id for one in inputs.ledger.held_on(name)]
    digests = np.array([pair_digest(name, each) for each in ids], np.int64)
    rows = columns.rows(digests, np.full(len(ids), inputs.snapshot.column("at")[row]))
    used = columns.take(columns.recent, rows)[CPU].tolist()
    measured = [Heating(id=each, cpu=cpu) for each, cpu in zip(ids, used, strict=True) if cpu >= 0]
    return sorted(measured, key=lambda one: -one.cpu)
