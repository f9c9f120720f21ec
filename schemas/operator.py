"""What operators say of machines: written by ``windward machines``, read by the scorer; it wins over the agent.

The entry ``*`` is the default of every machine. A machine's own entry is laid over it: ``labels``, ``capacity``,
``share`` and ``reserve`` key by key, each group of thresholds as a whole, ``taints`` are added, ``cordon`` holds if
either says so, ``power`` is the machine's own if it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.quantity import parse_quantity
from schemas.request import Quantity, Ratio
from schemas.resources import RESOURCES

DEFAULT = "*"
"""The key of the entry that holds for every machine."""


class Taint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Keep instances away that do not tolerate it: ``refuse`` is a filter, ``avoid`` costs score."""

    key: Annotated[str, Meta(min_length=1)]
    value: str = ""
    effect: Literal["refuse", "avoid"] = "refuse"


class PowerModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Power drawn at CPU utilization x in percent: ``k0 + k1 * exp(k2 * x)`` watts."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class OperatorFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One machine's entry, or that of all. allocatable = capacity * share - reserve, never below 0."""

    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    cordon: bool = False
    capacity: Annotated[dict[str, Quantity], Meta(description="by resource name; replaces what the agent says")] = {}
    share: Annotated[dict[str, Ratio], Meta(description="share of the capacity that may be used, by resource")] = {}
    reserve: Annotated[dict[str, Quantity], Meta(description="kept free, by resource, in its unit")] = {}
    thresholds: Annotated[dict[str, Ratio], Meta(description="usage thresholds of allocatable, by resource")] = {}
    prod_thresholds: Annotated[dict[str, Ratio], Meta(description="the same for usage by class prod")] = {}
    percentile_thresholds: Annotated[dict[str, Ratio], Meta(description="the same for a percentile of usage")] = {}
    power: PowerModel | None = None


class InvalidOperatorFacts(ValueError):
    """An entry that cannot be read; the message names the field."""


def read_operator_facts(value: Any) -> OperatorFacts:
    """Return the entry in decoded JSON, every amount a float in base units.

    >>> read_operator_facts({"reserve": {"memory": "8G"}}).reserve
    {'memory': 8000000000.0}

    Raises InvalidOperatorFacts naming the field.
    """
    try:
        facts = msgspec.convert(value, OperatorFacts)
    except msgspec.ValidationError as error:
        what, at, path = str(error).rpartition(" - at `$.")
        raise InvalidOperatorFacts(f"{path.rstrip('`')}: {what}" if at else str(error)) from None
    for name in ("capacity", "share", "reserve", "thresholds", "prod_thresholds", "percentile_thresholds"):
        for resource in getattr(facts, name):
            if resource not in RESOURCES:
                raise InvalidOperatorFacts(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
    amounts = {}
    for name in ("capacity", "reserve"):
        try:
            amounts[name] = {resource: parse_quantity(v) for resource, v in getattr(facts, name).items()}
        except ValueError as error:
            raise InvalidOperatorFacts(f"{name}: {error}") from None
    return msgspec.structs.replace(facts, **amounts)


def effective(operator: Mapping[str, OperatorFacts], machine: str) -> OperatorFacts:
    """Return what holds for one machine: its own entry laid over the default."""
    default, own = operator.get(DEFAULT), operator.get(machine)
    if default is None or own is None:
        return own or default or OperatorFacts()
    return OperatorFacts(
        labels=default.labels | own.labels,
        taints=default.taints + tuple(taint for taint in own.taints if taint not in default.taints),
        cordon=default.cordon or own.cordon,
        capacity=default.capacity | own.capacity,
        share=default.share | own.share,
        reserve=default.reserve | own.reserve,
        thresholds=own.thresholds or default.thresholds,
        prod_thresholds=own.prod_thresholds or default.prod_thresholds,
        percentile_thresholds=own.percentile_thresholds or default.percentile_thresholds,
        power=own.power or default.power,
    )
