"""A fleet in a JSON file: how ``windward rank --fleet-file`` and the tests describe machines.

    {
      "machines": [
        {"name": "a1", "capacity": {"cpu": 64, "memory": "256G", "nic": "1.25G"},
         "usage": {"cpu": {"mean": 20, "std": 4}, "memory": "100G"}},
        {"name": "a2", "capacity": {"cpu": 64, "memory": "256G"},
         "windows": {"300": {"cpu": {"mean": 30, "std": 6, "p95": 41, "max": 50, "coverage": 0.4}}},
         "age_s": 4, "labels": {"rack": "r7"}, "operator": {"cordon": true}}
      ],
      "instances": [{"id": "i1", "machine": "a1", "cpu": 2, "memory": "10G", "placed_ago_s": 30, "started": true}],
      "operator": {"*": {"reserve": {"memory": "8G"}}}
    }

| field of a machine         | meaning, and its default                                                               |
|----------------------------|----------------------------------------------------------------------------------------|
| capacity                   | by resource, absolute; a resource without one is unknown, never 0                      |
| usage                      | by resource: a mean, or statistics (below); for every window that ``windows`` lacks    |
| windows                    | by window length in s, then by resource                                                |
| age_s, interval_s          | age of the newest sample (0), publishing interval (10)                                 |
| window_age_s               | age of the end of the windows (``age_s``)                                              |
| skew_s                     | learned clock skew (0)                                                                 |
| peak_today, peak_yesterday | highest one-minute mean by resource (the longest window's maximum; unknown)            |
| peak_today_ago_s, peak_yesterday_ago_s | how long ago that minute was, by resource (unknown)                        |
| classes                    | mean usage by priority class, then by resource (unknown)                               |
| system                     | what it uses besides its instances, by resource, where theirs is measured (unknown)    |
| labels                     | labels that the agent reports                                                          |
| operator                   | operators' rules: `schemas.messages.operator.OperatorFacts`                            |

Statistics: ``mean``, ``std`` (0), ``p50 p90 p95 p99`` and ``max`` (the mean), ``coverage`` (1), ``filled`` slots (what
the coverage makes). Amounts are numbers in base units (cores, bytes, bytes/s) or text with a suffix. A machine without
``usage`` and ``windows`` has no data. An instance has the fields of a request, its machine, ``placed_ago_s`` (long
ago), ``started`` (true) and ``state`` (confirmed). What it uses, where that is measured: ``usage`` by resource,
``usage_since_s`` (a day) before the last report, which is ``usage_age_s`` (0) older than the sample. ``leavers`` lists
instances that ended, ``ended_ago_s`` (0) ago: a profile with ``debits`` subtracts their load from the windows. Of one
that is ``failed`` (false) the start failed.
``learned`` has the learned factors by resource. ``now`` and ``windows_s`` (300, 900, 3600) may be given at the top.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.messages.operator import InvalidOperatorFacts, OperatorFacts, read_operator_facts
from schemas.messages.sample import VERSION, MachineFacts
from schemas.resources import RESOURCES
from schemas.rpc.request import InvalidRequest, read_request
from schemas.tables.learned import FACTOR_MAX, FACTOR_MIN, Learned
from schemas.values.errors import field_error
from scorer.commands.shared.fleet_fields import FilePlaced, FleetFile, InvalidFleet
from scorer.commands.shared.fleet_table import usage_table, window_table
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.fleet_state import FleetState
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.usages import Usages, UsageTable

__all__ = ["FleetState", "InvalidFleet", "read_fleet"]


def read_fleet(value: Any) -> FleetState:
    """Return the fleet in decoded JSON; a bare list is the list of machines.

    Raises InvalidFleet.
    """
    try:
        file = msgspec.convert({"machines": value} if isinstance(value, list) else value, FleetFile)
        msgspec.json.encode(value)
    except msgspec.ValidationError as error:
        raise InvalidFleet(field_error(error)) from None
    except UnicodeEncodeError:
        raise InvalidFleet("a text in it is not valid Unicode: it holds half of a surrogate pair") from None
    names = [machine.name for machine in file.machines]
    if broken := next((name for name in names if "\n" in name), None):
        raise InvalidFleet(f"machines: {broken!r} is no name: it has more than one line")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidFleet(f"machines: {twice!r} is listed twice")
    operator = {name: _operator(name, entry) for name, entry in file.operator.items()}
    operator |= {
        machine.name: _operator(machine.name, machine.operator) for machine in file.machines if machine.operator
    }
    facts = {
        machine.name: MachineFacts(v=VERSION, machine=machine.name, boot=0, at=0.0, labels=machine.labels)
        for machine in file.machines
        if machine.labels
    }
    placed = [_placed("instances", number, entry, file.now) for number, entry in enumerate(file.instances, 1)]
    left = [_placed("leavers", number, entry, file.now) for number, entry in enumerate(file.leavers, 1)]
    leavers = sorted((leaver for leaver, _ in left), key=lambda leaver: leaver.ended_at)
    ledger = LedgerView([instance for instance, _ in placed], leavers)
    table, usage = window_table(file), usage_table(file, [*placed, *left])
    usages = Usages([UsageTable(usage)]) if usage else None
    learned = Learned(version=1, factors=_factors(file.learned)) if file.learned else None
    snapshot = build_snapshot([table], facts, operator, ledger_machines=ledger.machine_names)
    return FleetState(snapshot.with_use(learned, usages), ledger, file.now)


def _operator(name: str, entry: Mapping[str, Any]) -> OperatorFacts:
    try:
        return read_operator_facts(entry)
    except InvalidOperatorFacts as error:
        raise InvalidFleet(f"operator of {name}: {error}") from None


def _factors(given: Mapping[str, float]) -> dict[str, float]:
    for resource, factor in given.items():
        if resource not in RESOURCES or not FACTOR_MIN <= factor <= FACTOR_MAX:
            raise InvalidFleet(f"learned.{resource}: expected a resource with {FACTOR_MIN} to {FACTOR_MAX}: {factor}")
    return dict(given)


def _placed(of: str, number: int, entry: Mapping[str, Any], now_s: float) -> tuple[Instance, FilePlaced]:
    """Return an entry of ``instances`` or ``leavers`` as a record, and what the file says besides its request."""
    place = f"{of}[{entry.get('id', number)}]"
    own = {*FilePlaced.__struct_fields__} - ({"ended_ago_s", "failed"} if of == "instances" else set())
    try:
        said = msgspec.convert(entry, FilePlaced)
        if not said.machine or "\n" in said.machine:
            raise InvalidFleet(f"{place}.machine: expected a machine's name")
        request = read_request({key: value for key, value in entry.items() if key not in own})
    except msgspec.ValidationError as error:
        raise InvalidFleet(f"{place}.{field_error(error)}") from None
    except InvalidRequest as error:
        raise InvalidFleet(f"{place}.{error}") from None
    at_s = now_s - said.placed_ago_s
    record = instance_of(request, said.machine, at_s, request.id or f"instance-{number}")
    started_at = at_s if said.started and said.state == "confirmed" else 0.0
    if of == "leavers":
        ended = {"ended_at": now_s - said.ended_ago_s, "failed": said.failed}
        return copy_with(record, state="released", started_at=started_at, **ended), said
    return copy_with(record, state=said.state, started_at=started_at), said
