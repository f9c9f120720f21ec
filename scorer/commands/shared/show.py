"""Numbers and times for people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from schemas.resources import RESOURCES
from schemas.values.numbers import amount, counted, duration

if TYPE_CHECKING:
    from scorer.ranking.inputs import FleetState
    from scorer.ranking.profiles.profile import Profile

ON_THE_LIST = "; a mover takes the moves off the list; without one"
"""Said before the command that confirms by hand."""


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def age(seconds: float | None) -> str:
    """Return an age for people, in whole seconds.

    >>> age(0.2), age(75.4), age(None)
    ('0s', '1m15s', '-')
    """
    return duration(None if seconds is None else float(round(seconds)))


def amounts_in_words(amounts: Sequence[float | None]) -> str:
    """Return the amounts of a record, in the order of the resources, without those that are 0 or not given.

    >>> amounts_in_words([2.0, 1e10, None, 0.0])
    'cpu 2.00, memory 10.0G'
    """
    shown = zip(RESOURCES, amounts, strict=False)
    return ", ".join(f"{name} {amount(name, one)}" for name, one in shown if one) or "nothing"


def time_of(at_s: float | None) -> str:
    """Return a time for people, in this terminal's time zone; a dash for an unknown one."""
    return datetime.fromtimestamp(at_s).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z") if at_s else "-"


def ago(at_s: float | None, now_s: float) -> str:
    """Return how long ago a time is, or how long it is until then.

    >>> ago(940, 1000), ago(1300, 1000), ago(None, 1000)
    ('1m ago', 'in 5m', '-')
    """
    if not at_s:
        return "-"
    return f"in {duration(at_s - now_s)}" if at_s > now_s else f"{duration(now_s - at_s)} ago"


def resources(always: Collection[str], requested: Mapping[str, float | None]) -> list[str]:
    """Return the resources that a table shows, in their order: some always, the others when they are requested.

    >>> resources(("cpu", "memory"), {"cpu": 2.0, "memory": 0.0, "nic": 0.0})
    ['cpu', 'memory']
    >>> resources(("memory",), {"nic": 1e6})
    ['memory', 'nic']
    """
    return [name for name in RESOURCES if name in always or requested.get(name)]


def amount_of(name: str, decimals: int = 2) -> Callable[[Any], str]:
    """Return the cell function for the field of a row that has a resource's name."""
    return lambda row: amount(name, row[name], decimals)


def basis(fleet: FleetState, profile: Profile) -> dict[str, Any]:
    """Return what an answer was computed on, for JSON: the profile, the numbers of machines and of instances."""
    return {"profile": profile.name, "machines": len(fleet.snapshot), "instances": len(fleet.ledger)}


def basis_in_words(answer: Mapping[str, Any]) -> str:
    machines, instances = counted(answer["machines"], "machine"), counted(answer["instances"], "instance")
    return f"{machines}, {instances}, profile {answer['profile']}"
