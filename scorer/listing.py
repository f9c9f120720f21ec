"""Answers of ``machines`` and ``instances``: what the scorer sees, filtered and page by page."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from schemas.request import InvalidRequest, Request
from schemas.resources import RESOURCES
from scorer.instance import Instance
from scorer.ledger_view import Facet, LedgerView
from scorer.lifecycle import read_params
from scorer.machines import Machines
from scorer.profile import Profile
from scorer.rank import fleet_of
from scorer.snapshot import Snapshot

_EQUAL = ("machine", "state", "cluster", "role", "kind")
Limit = Annotated[int, Meta(ge=1, le=10_000)]


class Instances(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``instances``; all that are given must match."""

    id: str = ""
    machine: str = ""
    state: Literal["", "reserved", "confirmed"] = ""
    cluster: str = ""
    role: str = ""
    kind: str = ""
    labels: dict[str, str] = {}
    after: str = ""
    """The last id of the page before."""
    limit: Limit = 1000


class MachineList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``machines``."""

    names: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    profile: str = ""
    window_s: Annotated[int, Meta(ge=0)] = 0
    after: str = ""
    limit: Limit = 1000


def instances(params: dict[str, Any], view: LedgerView, find: Callable[[str], Instance | None]) -> dict[str, Any]:
    """Return the live instances that match, by id; a single id is found for a day after its end, too."""
    asked: Instances = read_params(Instances, params)
    if asked.id:
        record = view.instances.get(asked.id) or find(asked.id)
        found = [record] if record is not None else []
    else:
        found = _candidates(asked, view)
    matching = [record for record in found if _matches(record, asked)]
    page = heapq.nsmallest(asked.limit, matching, key=lambda record: record.id)
    return {"total": len(matching), "instances": [_shown(record) for record in page], "more": len(matching) > len(page)}


def _candidates(asked: Instances, view: LedgerView) -> list[Instance]:
    if asked.machine:
        return view.on_machine(asked.machine)
    facets: set[Facet] = {("label", key, value) for key, value in asked.labels.items()}
    facets.update((name, getattr(asked, name)) for name in ("cluster", "role", "kind") if getattr(asked, name))
    if facets:
        return [view.instances[instance_id] for instance_id in view.matching(frozenset(facets))]
    return list(view.instances.values())


def _matches(record: Instance, asked: Instances) -> bool:
    return (
        record.id > asked.after
        and all(getattr(record, name) == getattr(asked, name) for name in _EQUAL if getattr(asked, name))
        and all(record.labels.get(key) == value for key, value in asked.labels.items())
    )


def _shown(record: Instance) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(record)
    shown.pop("request", None)
    shown.pop("swap", None)
    amounts = shown.pop("amounts")
    return shown | dict(zip(RESOURCES, amounts, strict=False))


def machines(
    params: dict[str, Any], snapshot: Snapshot, view: LedgerView, profile: Profile, now_s: float
) -> dict[str, Any]:
    """Return machines by name with their load, promises and age, as a decision would see them."""
    asked: MachineList = read_params(MachineList, params)
    seen = Machines(fleet_of(snapshot, view, profile.sight, asked.window_s), Request(), now_s)
    names = snapshot.names
    if asked.names:
        unknown = [name for name in asked.names if name not in snapshot.roster.index]
        if unknown:
            raise InvalidRequest(f"names: no machine {unknown[0]!r}")
        rows = [snapshot.roster.index[name] for name in asked.names]
    else:
        rows = list(range(len(names)))
    rows = [
        row
        for row in rows
        if names[row] > asked.after
        and all(snapshot.rules.labels(row).get(key) == value for key, value in asked.labels.items())
    ]
    page = heapq.nsmallest(asked.limit, rows, key=names.__getitem__)
    return {"total": len(rows), "machines": [_machine(seen, row) for row in page], "more": len(rows) > len(page)}


def _machine(seen: Machines, row: int) -> dict[str, Any]:
    snapshot = seen.fleet.snapshot
    columns = {
        "capacity": seen.capacity, "allocatable": seen.allocatable, "mean": seen.measured_mean, "std": seen.std,
        "credit": seen.credit, "promised": seen.requested, "utilization": seen.utilization,
    }  # fmt: skip
    return {
        "machine": snapshot.names[row],
        "has_data": bool(seen.has_data[row]),
        "age_s": _plain(seen.age_s[row]),
        "window_s": _plain(seen.window_s[row]),
        "coverage": _plain(seen.coverage[row]),
        "warming": bool(seen.warming[row]),
        "cordon": bool(seen.cordon[row]),
        "labels": dict(snapshot.rules.labels(row)),
        "taints": [msgspec.to_builtins(t) for t in snapshot.rules.taint_sets[int(snapshot.rules.taint_codes[row])]],
        "instances": int(seen.count[row]),
        "maxmemory": _plain(seen.maxmemory[row]),
        "resources": {
            name: {what: _plain(column[position, row]) for what, column in columns.items()}
            for position, name in enumerate(RESOURCES)
        },
    }


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
