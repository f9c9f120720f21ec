"""Limits: the most that a sum or a count on a machine may be, compared by the reserve and update scripts.

    Limit(total("memory"), 64e9, "too much memory promised")    all instances of the machine
    Limit(total("cpu", "batch", "free"), 8.0, "too much cpu of batch promised")  only those of two priority classes
    Limit(total("instances"), 50, "50 instances")               how many there are
    Limit(on_port(6379), 1, "port 6379 taken")                  those with this port
    Limit(in_role("shop", "master"), 1, "too many masters")     those of a cluster with a role

A limit is compared with the instance already added. An instance that adds nothing to the sum is not refused by it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from scorer.ledger.record.instance import (
    COUNT_MAX,
    NO_LIMIT,
    UNITS,
    Instance,
    counts_of,
    port_count,
    role_count,
    sums_of,
)
from scorer.snapshot.arrays import Floats

Measure = tuple[str, ...]
"""The quantity that a limit bounds: ``("total", name, class, ...)`` or ``("count", what)``, as the scripts know it."""


class Limit(NamedTuple):
    measure: Measure
    most: float | Floats
    """In base units, the instance included; NaN: no limit. A filter gives one number, or [n] for all machines."""
    reason: str
    """Why an instance is refused that exceeds it: ``too much cpu promised``."""


def total(name: str, *classes: str) -> Measure:
    """Return the measure of a resource, ``maxmemory`` or ``instances``: over all, or over some priority classes."""
    return ("total", name, *classes)


def on_port(port: int) -> Measure:
    """Return the measure that counts the instances with this port."""
    return ("count", port_count(port))


def in_role(cluster: str, role: str) -> Measure:
    """Return the measure that counts the instances of this cluster with this role."""
    return ("count", role_count(cluster, role))


def one_to_a_port(ports: Iterable[int]) -> list[Limit]:
    """Return the limits by which each of these ports is used once on a machine."""
    return [Limit(on_port(port), 1, f"port {port} taken") for port in ports]


def adds(instance: Instance, measure: Measure) -> int:
    """Return an instance's contribution to a measure, in the ledger's units.

    >>> one = Instance(id="a", machine="m", state="reserved", amounts=(0.5, 0.0, None), priority_class="batch")
    >>> [adds(one, measure) for measure in (total("cpu"), total("cpu", "prod"), total("instances"), on_port(1))]
    [500000, 0, 1, 0]
    """
    return _adds(measure, sums_of(instance), counts_of(instance), instance.priority_class)


def _adds(measure: Measure, sums: Mapping[str, int], counts: Collection[str], priority_class: str) -> int:
    if measure[0] == "count":
        return int(measure[1] in counts)
    if len(measure) > 2 and priority_class not in measure[2:]:
        return 0
    return sums.get(measure[1], 0)


def measures_in_script(instance: Instance, limits: Sequence[Limit]) -> list[tuple[str | int, ...]]:
    """Return the limited measures, with the instance's contribution to each, as the scripts read them."""
    sums, counts = sums_of(instance), counts_of(instance)
    return [(_adds(measure, sums, counts, instance.priority_class), *measure) for measure, _, _ in limits]


Scale = tuple[float, float] | None
"""(factor, addend) that make a limit a whole number: ``int(most * factor + addend)``; None: no limit."""


def scales_in_script(measures: Sequence[tuple[str | int, ...]]) -> list[Scale]:
    """Return the scale of each measure; None for a measure to which the instance contributes nothing."""
    return [None if not one[0] else (UNITS[str(one[2])], 0.5) if one[2] in UNITS else (1.0, 0.0) for one in measures]


def mosts_in_script(limits: Sequence[Limit], scales: Sequence[Scale]) -> list[int]:
    """Return the value of each limit in the ledger's units; NaN is no limit, and a negative limit counts as 0."""
    found = []
    for limit, scale in zip(limits, scales, strict=True):
        if scale is None:
            found.append(NO_LIMIT)
            continue
        counted = limit[1] * scale[0] + scale[1]
        if 0.0 <= counted <= COUNT_MAX:
            found.append(int(counted))
        else:  # NaN is neither
            found.append(0 if counted < 0.0 else int(COUNT_MAX) if counted > COUNT_MAX else NO_LIMIT)
    return found


def of_growth(limits: Sequence[Limit], old: Instance, new: Instance) -> tuple[Limit, ...]:
    """Return the limits on the measures in which an instance that stays on its machine grows.

    Amounts that it holds already are not checked again, nor is its role.
    """
    role = in_role(new.cluster, new.role)
    return tuple(
        limit for limit in limits if limit.measure != role and adds(new, limit.measure) > adds(old, limit.measure)
    )
