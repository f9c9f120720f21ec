"""The usage by instance in a fleet file, as the table that a scorer would read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import Quantity
from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.window_table import Header, WindowTable, decode_table, encode_table
from schemas.values.quantity import parse_amount
from scorer.commands.shared.fleet_fields import FleetFile, InvalidFleet
from scorer.ledger.record.instance import Instance

DAY_S = 86_400.0
FIELDS = ("usage", "usage_since_s", "usage_age_s")
"""The fields of an instance in the file that give its usage."""
_AMOUNT_MAX = 1e16
_SINCE_MAX = 2.0**32 - 1


def usage_table(file: FleetFile, said: Iterable[tuple[Instance, Mapping[str, Any]]]) -> WindowTable | None:
    """Return the usage of the instances and systems of a file; None when it has none.

    ``said``: each instance with its entry in the file. Raises InvalidFleet naming instance or machine, and field.
    """
    rows: list[tuple[str, float, float, dict[int, float]]] = []
    ends = {machine.name: file.now - machine.age_s for machine in file.machines}
    measured = set()
    for instance, entry in said:
        if "usage" in entry:
            place = f"instances[{instance.id}]"
            measured.add(instance.machine)
            at = ends.get(instance.machine, file.now) - _seconds(place, entry, "usage_age_s", 0.0)
            since = at - _seconds(place, entry, "usage_since_s", DAY_S)
            name = pair_name(instance.machine, instance.id)
            rows.append((name, at, since, _amounts(f"{place}.usage", entry["usage"])))
    for machine in file.machines:
        if machine.system or machine.name in measured:
            at, system = ends[machine.name], _amounts(f"{machine.name}.system", machine.system)
            rows.append((pair_name(machine.name, ""), at, at - DAY_S, system))
    if not rows:
        return None
    columns = {name: np.full((*axes, len(rows)), absent, kind) for name, (kind, axes, absent) in COLUMNS.items()}
    columns |= {name: columns[name].astype("f8") for name in ("recent", "daily")}  # as exact as the file says it
    columns["count"][:] = 100
    for row, (_, at, since, usage) in enumerate(rows):
        columns["at"][row], columns["since"][row] = at, min(max(since, 0.0), _SINCE_MAX)
        for resource, mean in usage.items():
            columns["recent"][resource, row] = columns["daily"][resource, row] = mean
    names = "\n".join(name for name, *_ in rows).encode()
    return decode_table(encode_table(Header(machines=len(rows), windows_s=(), columns=[]), columns, names))


def _seconds(place: str, entry: Mapping[str, Any], field: str, default: float) -> float:
    value = entry.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise InvalidFleet(f"{place}.{field}: expected seconds, zero or more, got {value!r}")
    return float(value)


def _amounts(place: str, given: Any) -> dict[int, float]:
    if not isinstance(given, Mapping):
        raise InvalidFleet(f"{place}: expected amounts by resource")
    found = {}
    for name, value in given.items():
        if name not in RESOURCES:
            raise InvalidFleet(f"{place}: no resource {name!r}; there are {', '.join(RESOURCES)}")
        try:
            amount = parse_amount(name, msgspec.convert(value, Quantity))
        except ValueError as error:  # msgspec's is one
            raise InvalidFleet(f"{place}.{name}: {error}") from None
        if not 0 <= amount <= _AMOUNT_MAX:
            raise InvalidFleet(f"{place}.{name}: expected 0 to {_AMOUNT_MAX:g}, got {value!r}")
        found[RESOURCES.index(name)] = amount
    return found
