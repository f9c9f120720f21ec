"""Answers of ``machines`` and ``instances``: what the scorer sees, filtered and in pages.

A page is made in steps, between which other queries are answered.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.rpc.parameters import Instances, MachineList
from schemas.rpc.request import InvalidRequest
from schemas.rpc.results import InstanceRow, InstancesResult, MachineRow, MachinesResult
from schemas.values.numbers import finite
from scorer.ledger.record.facets import Facet
from scorer.ledger.record.instance import LIVE, Instance, machines_of
from scorer.ledger.view.view import LedgerView
from scorer.placement.choosing.steps import Steps
from scorer.ranking.class_sums import ClassSums, class_sums
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.machines import Machines
from scorer.ranking.seen import machines_of as seen_of
from scorer.rpc.methods.parameters import read_params
from scorer.rpc.methods.records import amounts_of, shown_record
from scorer.rpc.methods.slices import AT_ONCE, in_slices
from scorer.snapshot.usages import Usages

_EQUAL = ("state", "cluster", "role", "kind")
_AT_ONCE_INSTANCES = 250
_LOOKED_AT = 5_000
"""Instances or machines filtered in one step."""


def instances(
    params: dict[str, Any], view: LedgerView, find: Callable[[str], Instance | None], usages: Usages | None = None
) -> Steps[InstancesResult]:
    """Return the live instances that match, by id; a single id is found for a day after its end, too.

    Usage is that of the machine on which the ledger has the instance; an agent measures no other machine.
    """
    asked: Instances = read_params(Instances, params)
    if asked.id:
        record = view.instances.get(asked.id) or find(asked.id)
        found = [record] if record is not None else []
    else:
        found = _candidates(asked, view)
    if len(found) > _AT_ONCE_INSTANCES:
        yield  # there may be no room for a long answer: nothing is made before
    total, page = yield from _page(found, lambda record: _matches(record, asked), lambda one: one.id, asked.limit)
    rows: list[Any] = yield from in_slices(page, lambda part: (_shown(record, usages) for record in part))
    return InstancesResult(total=total, instances=rows, more=total > len(page))


_Row = TypeVar("_Row")


def _page(
    rows: Sequence[_Row], matches: Callable[[_Row], bool], name: Callable[[_Row], str], limit: int
) -> Steps[tuple[int, list[_Row]]]:
    """Return how many rows match, and the first of them by name."""
    total, page = 0, list[_Row]()
    for first in range(0, len(rows), _LOOKED_AT):
        if first:
            yield
        found = [row for row in rows[first : first + _LOOKED_AT] if matches(row)]
        total += len(found)
        page = heapq.nsmallest(limit, [*page, *found], key=name)
    return total, page


def _candidates(asked: Instances, view: LedgerView) -> list[Instance]:
    if asked.machine:
        return view.held_on(asked.machine)
    facets: set[Facet] = {("label", key, value) for key, value in asked.labels.items()}
    facets.update((name, getattr(asked, name)) for name in ("cluster", "role", "kind") if getattr(asked, name))
    if facets:
        return [view.instances[instance_id] for instance_id in view.matching(frozenset(facets))]
    return list(view.instances.values())


def _matches(record: Instance, asked: Instances) -> bool:
    return (
        record.id > asked.after
        and (not asked.machine or asked.machine in machines_of(record))
        and all(getattr(record, name) == getattr(asked, name) for name in _EQUAL if getattr(asked, name))
        and all(record.labels.get(key) == value for key, value in asked.labels.items())
    )


def _shown(record: Instance, usages: Usages | None) -> InstanceRow:
    usage = usages.find(record.machine, record.id) if usages and record.state in LIVE else None
    return shown_record(InstanceRow, record, usage=usage, **dict(zip(RESOURCES, amounts_of(record), strict=True)))


def machines(params: dict[str, Any], inputs: RankingInputs) -> Steps[MachinesResult]:
    """Return machines by name with their load, allocated amounts and age, as a decision would see them."""
    asked: MachineList = read_params(MachineList, params)
    if len(inputs.snapshot) > AT_ONCE and not asked.names:
        yield  # there may be no room for a long answer: nothing is made before
    seen = seen_of(inputs, window_s=asked.window_s)
    sums, snapshot = class_sums(inputs), inputs.snapshot
    names = snapshot.names
    rows = list(range(len(names)))
    if asked.names:
        if unknown := [name for name in asked.names if name not in snapshot.roster.index]:
            raise InvalidRequest(f"names: no machine {unknown[0]!r}")
        rows = [snapshot.roster.index[name] for name in asked.names]

    def matches(row: int) -> bool:
        given = asked.labels.items()
        return names[row] > asked.after and all(snapshot.rules.labels(row).get(key) == value for key, value in given)

    total, page = yield from _page(rows, matches, names.__getitem__, asked.limit)
    found: list[Any] = yield from in_slices(page, lambda part: (_machine(seen, sums, row) for row in part))
    return MachinesResult(total=total, machines=found, more=total > len(page))


def _machine(seen: Machines, sums: ClassSums | None, row: int) -> MachineRow:
    snapshot = seen.snapshot
    columns = {
        "capacity": seen.capacity, "allocatable": seen.allocatable, "mean": seen.measured_mean, "std": seen.std,
        "credit": seen.credit, "debit": seen.debit, "promised": seen.allocated, "utilization": seen.utilization,
    }  # fmt: skip
    return MachineRow(
        machine=snapshot.names[row],
        has_data=bool(seen.has_data[row]),
        age_s=finite(seen.age_s[row]),
        window_s=finite(seen.window_s[row]),
        coverage=finite(seen.coverage[row]),
        warming=bool(seen.warming[row]),
        cordon=bool(seen.cordon[row]),
        labels=dict(snapshot.rules.labels(row)),
        taints=[msgspec.to_builtins(t) for t in snapshot.rules.taint_sets[int(snapshot.rules.taint_codes[row])]],
        instances=int(seen.count[row]),
        maxmemory=finite(seen.maxmemory[row]),
        resources={
            name: {what: finite(column[position, row]) for what, column in columns.items()}
            | {"ratio": finite(snapshot.rules.ratio[position, row])}
            for position, name in enumerate(RESOURCES)
        },
        classes={} if sums is None else _classes(sums, row),
    )


def _classes(sums: ClassSums, row: int) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return the sums by class of one machine."""
    columns = {"promised": sums.promised, "counted": sums.counted, "most": sums.most, "used": sums.used}
    return {
        name: {
            RESOURCES[position]: {what: finite(column[code, position, row]) for what, column in columns.items()}
            for position in sums.sold
        }
        for code, name in enumerate(PRIORITY_CLASSES)
    }
