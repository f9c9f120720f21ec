"""Operators' rules for machines: written by ``windward machines``, read by the scorer; they win over the agent's facts.

The entry ``*`` is the default of every machine. It is joined with the machine's own entry: ``labels``, ``capacity``,
``share``, ``ratio`` and ``reserve`` key by key, each group of thresholds as a whole. ``taints`` are added, ``cordon``
holds if either entry has it. ``power`` is the machine's own if it has one; ``drain`` is always its own.

A Kubernetes cluster's facts of its nodes have the same form; both entries override them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.resources import RESOURCES
from schemas.rpc.request import Draining, Quantity, Ratio
from schemas.values.errors import field_error
from schemas.values.quantity import parse_amount
from schemas.values.read_json import read_json

DEFAULT = "*"
"""The key of the default entry."""


class Taint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Keep instances without a toleration away: ``refuse`` is a filter, ``avoid`` costs score."""

    key: Annotated[str, Meta(min_length=1)]
    value: str = ""
    effect: Literal["refuse", "avoid"] = "refuse"


class PowerModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Power drawn at CPU utilization x in percent: ``k0 + k1 * exp(k2 * x)`` watts."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class OperatorFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The operators' rules of one machine, or the default of all machines.

    allocatable = capacity * share - reserve, never below 0. Requests may be allocated up to allocatable * ratio
    (without one here the profile's, else 1); utilization, thresholds and scores of load use allocatable.
    """

    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    cordon: bool = False
    capacity: Annotated[dict[str, Quantity], Meta(description="by resource name; replaces what the agent says")] = {}
    share: Annotated[dict[str, Ratio], Meta(description="share of the capacity that may be used, by resource")] = {}
    ratio: Annotated[
        dict[str, Annotated[float, Meta(gt=0, le=100)]],
        Meta(description="how much of allocatable may be promised, by resource: 2 promises twice what is there"),
    ] = {}
    reserve: Annotated[dict[str, Quantity], Meta(description="kept free, by resource, in its unit")] = {}
    thresholds: Annotated[dict[str, Ratio], Meta(description="usage thresholds of allocatable, by resource")] = {}
    prod_thresholds: Annotated[dict[str, Ratio], Meta(description="the same for usage by class prod")] = {}
    percentile_thresholds: Annotated[dict[str, Ratio], Meta(description="the same for a percentile of usage")] = {}
    power: PowerModel | None = None
    drain: Draining | None = None


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
        said = _per_cent(value) or field_error(error, given=value, kind=OperatorFacts)
        raise InvalidOperatorFacts(said) from None
    for name in ("capacity", "share", "ratio", "reserve", "thresholds", "prod_thresholds", "percentile_thresholds"):
        for resource in getattr(facts, name):
            if resource not in RESOURCES:
                raise InvalidOperatorFacts(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
    amounts = {}
    for name in ("capacity", "reserve"):
        try:
            amounts[name] = {resource: parse_amount(resource, v) for resource, v in getattr(facts, name).items()}
        except ValueError as error:
            raise InvalidOperatorFacts(f"{name}: {error}") from None
    return msgspec.structs.replace(facts, **amounts)


def _per_cent(value: Any) -> str:
    """Return the error for a share that seems to be in per cent; "" for any other value.

    >>> _per_cent({"thresholds": {"cpu": 80}})
    'thresholds.cpu: expected a share from 0 to 1, got 80; for 80 % write 0.8'
    """
    for name in ("share", "thresholds", "prod_thresholds", "percentile_thresholds"):
        given = value.get(name) if isinstance(value, dict) else None
        for resource, share in given.items() if isinstance(given, dict) else ():
            if isinstance(share, int | float) and 1 < share <= 100:
                meant = f"for {share:g} % write {share / 100:g}"
                return f"{name}.{resource}: expected a share from 0 to 1, got {share:g}; {meant}"
    return ""


def drained(own: bytes | None, of_all: bytes | None) -> Draining | None:
    """Return the settings of a machine's drain, from its stored entry and the default one; None without a drain.

    >>> drained(b'{"cordon":true,"drain":{"ttl_s":60}}', None)
    Draining(ttl_s=60.0, profile='', same=(), force=False, lost=False)
    >>> drained(b'{"drain":{"ttl_s":60}}', None), drained(b'{"cordon":true}', None), drained(b"?", None)
    (None, None, None)
    """
    entries = [stored_operator_facts(raw) or OperatorFacts() for raw in (own, of_all)]
    return entries[0].drain if any(entry.cordon for entry in entries) else None


def known_operator_facts(value: Any) -> tuple[OperatorFacts, list[str]]:
    """Return the readable parts of an entry, and the errors of the others, which a newer release may have written.

    >>> facts, rest = known_operator_facts({"cordon": True, "share": {"cpu": 0.5, "tape": 0.5}})
    >>> facts.cordon, facts.share, rest  # doctest: +ELLIPSIS
    (True, {'cpu': 0.5}, ["share: no resource 'tape'; there are cpu, memory, ..."])
    """
    try:
        return read_operator_facts(value), []
    except InvalidOperatorFacts as error:
        if not isinstance(value, dict):
            return OperatorFacts(), [str(error)]
    known: dict[str, Any] = {}
    problems = []
    for name, given in value.items():
        for part in _parts(given):
            try:
                read_operator_facts({name: part})
            except InvalidOperatorFacts as error:
                problems.append(str(error))
                continue
            if isinstance(part, dict):
                known[name] = known.get(name, {}) | part
            elif isinstance(part, list):
                known[name] = [*known.get(name, []), *part]
            else:
                known[name] = part
    return read_operator_facts(known), problems


def stored_operator_facts(raw: bytes | None) -> OperatorFacts | None:
    """Return the readable parts of a stored entry; None where there is none, or it is no JSON."""
    try:
        return known_operator_facts(read_json(raw or b""))[0]
    except msgspec.DecodeError:
        return None


def stored(facts: Mapping[str, Any]) -> bytes | None:
    """Return an entry as it is stored, with fields of newer releases unchanged; None for an empty one.

    >>> stored({"cordon": True}), stored({})
    (b'{"cordon":true}', None)
    """
    if not facts:
        return None
    checked, unread = known_operator_facts(facts)
    return msgspec.json.encode(facts if unread else checked)


def without_empty(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry that differ from their defaults."""
    return {name: value for name, value in facts.items() if value not in (None, {}, [], False)}


def _parts(given: Any) -> list[Any]:
    """Return the parts of a field that are read independently: each key of an object, each item of a list."""
    if isinstance(given, dict):
        return [{key: value} for key, value in given.items()]
    return [[one] for one in given] if isinstance(given, list) else [given]


def effective(operator: Mapping[str, OperatorFacts], machine: str) -> OperatorFacts:
    """Return the rules of one machine: its own entry joined with the default."""
    return joined(operator.get(DEFAULT), operator.get(machine)) or OperatorFacts()


def joined(lower: OperatorFacts | None, upper: OperatorFacts | None) -> OperatorFacts | None:
    """Return two entries joined by the rules of this module; the upper one wins. None without any entry."""
    if lower is None or upper is None:
        return upper or lower
    both = ("labels", "capacity", "share", "ratio", "reserve")
    first = ("thresholds", "prod_thresholds", "percentile_thresholds", "power")
    return OperatorFacts(
        taints=lower.taints + tuple(taint for taint in upper.taints if taint not in lower.taints),
        cordon=lower.cordon or upper.cordon,
        drain=upper.drain,
        **{name: getattr(lower, name) | getattr(upper, name) for name in both},
        **{name: getattr(upper, name) or getattr(lower, name) for name in first},
    )


def above_nodes(
    nodes: Mapping[str, OperatorFacts], operator: Mapping[str, OperatorFacts]
) -> Mapping[str, OperatorFacts]:
    """Return the entries of machines joined with a cluster's facts of its nodes; own and default entries win over them.

    >>> node, default = OperatorFacts(labels={"zone": "a", "disk": "hdd"}), OperatorFacts(labels={"disk": "ssd"})
    >>> effective(above_nodes({"m": node}, {"*": default}), "m").labels == {"zone": "a", "disk": "ssd"}
    True
    """
    if not nodes:
        return operator
    default = operator.get(DEFAULT)
    said = {name: joined(joined(node, default), operator.get(name)) for name, node in nodes.items()}
    return {**operator, **{name: one for name, one in said.items() if one is not None}}
