"""The request: what an instance needs and where it may go. The ``params`` of ``place`` and ``rank``.

Amounts are numbers in base units (cores, bytes, bytes/s) or text with a suffix (``"500m"``, ``"10G"``, ``"10Gi"``).
Times are seconds, or text (``"5m"``).

Every list and every text has a maximum size, so that no single request blocks a scorer for long.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.resources import ALL, RESOURCES, UNITS
from schemas.values.errors import field_error
from schemas.values.numbers import parse_duration
from schemas.values.quantity import parse_amount

NAME_LENGTH_MAX = 253
"""Characters of a name: an id, a machine, a label's key or value."""
LABELS_LENGTH_MAX = 8_192
"""Characters of all labels of a request together: they are stored with each of its instances."""
RULES_LENGTH_MAX = 16_384
"""Characters of all rules of a request together: they are stored with each of its instances, too."""

ID_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""The digits of generated ids, in base 32 and in the order of their characters."""

Quantity = float | Annotated[str, Meta(max_length=64)]
Ratio = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(max_length=NAME_LENGTH_MAX)]
Labels = Annotated[dict[Name, Name], Meta(max_length=64)]
DataLabel = Annotated[str, Meta(max_length=2 * NAME_LENGTH_MAX + 1)]
Selector = Annotated[str, Meta(max_length=16_384)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Ports = Annotated[tuple[Port, ...], Meta(max_length=64)]
ByResource = Annotated[dict[Name, Quantity], Meta(max_length=16)]


class Affinity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Be near, or far from, instances whose labels match ``instances``, on machines of one ``topology`` label value.

    The topology key ``machine`` is the machine itself. Far from more than ``others`` of them: with 0 from any, with 1 a
    group whose members all match has at most two members for each value. Or from more than a ``share`` of them all. Or
    from more than the value with the fewest of them has, and ``skew``: values of machines without any are counted, too.
    """

    instances: Labels
    # a factory's value is always written: digests of requests and records stay as they were before there was ``others``
    topology: Annotated[Name, Meta(extra_json_schema={"default": "machine"})] = msgspec.field(
        default_factory=lambda: "machine"
    )
    others: Annotated[int, Meta(ge=0, description="anti_affinity: how many of them may be near")] = 0
    share: Annotated[float, Meta(ge=0, le=1, description="anti_affinity: the part of them all with one value")] = 0.0
    skew: Annotated[int, Meta(ge=0, description="anti_affinity: how many more than the value with the fewest has")] = 0


class Preference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prefer machines that ``selector`` matches, by ``weight``."""

    selector: Selector
    weight: Annotated[float, Meta(ge=0, le=100)] = 1.0


class Toleration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tolerate a taint: the key (empty: any), the value (None: any), the effect (None: any)."""

    key: Name = ""
    value: Name | None = None
    effect: Literal["refuse", "avoid"] | None = None


Preferences = Annotated[tuple[Preference, ...], Meta(max_length=32)]
Affinities = Annotated[tuple[Affinity, ...], Meta(max_length=32)]
Tolerations = Annotated[tuple[Toleration, ...], Meta(max_length=128)]


class Draining(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings of a drain, which is planned again until the machine is empty or uncordoned."""

    ttl_s: Annotated[float, Meta(gt=0, le=86_400, description="how long each move may take")]
    profile: Name = ""
    same: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()
    force: bool = False
    lost: bool = False


class Changeable(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Fields that the ledger stores as the request gives them, and that an update can change.

    A field that is declared here belongs to requests, updates and records: it is stored, compared with inventories and
    wanted instances, and sent with changes. An answer (`schemas.rpc.results`) and a flag
    (`scorer.commands.shared.request`, `.update`) name it once more, since they have words of their own for it.
    """

    ports: Ports = ()
    role: Name = ""
    cluster_masters: Annotated[int, Meta(ge=0, description="masters the whole cluster has or will have")] = 0
    labels: Labels = {}


class KeptFields(Changeable, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """All fields that the ledger stores as the request gives them; an update cannot change the ones declared here."""

    cluster: Name = ""
    kind: Annotated[Name, Meta(description="what is learned from instances of the same kind")] = ""


CHANGEABLE_FIELDS, KEPT_FIELDS = Changeable.__struct_fields__, KeptFields.__struct_fields__


if TYPE_CHECKING:

    class _Amounts(KeptFields, Any, frozen=True):  # type: ignore[misc]
        """Any resource is a field."""

else:
    _Amounts = msgspec.defstruct(
        "_Amounts",
        [
            (name, Annotated[Quantity, Meta(description=f"{name} requested, {unit}; null: not said")] | None, None)
            for name, unit in UNITS.items()
        ],
        bases=(KeptFields,),
        frozen=True,
        kw_only=True,
    )
"""One field a resource, in the order of `schemas.resources`. A given 0 differs from no amount: where a profile has a
default for instances without an amount, an instance with a given 0 counts 0."""


class Request(
    _Amounts,
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    gc=False,
):
    """One instance, or ``count`` identical ones. Everything is optional: an empty request is best effort."""

    # what it needs: the amount of each resource (`amounts` returns all of them), and these
    limits: Annotated[ByResource, Meta(description="limits by resource name")] = {}
    expected: Annotated[ByResource, Meta(description="expected usage by resource name, where known")] = {}
    maxmemory: Quantity = 0.0
    # what it is, beside the fields that are kept
    id: Annotated[Name, Meta(description="the deployer's id; repeating it repeats the answer")] = ""
    first_id: Annotated[
        str,
        Meta(
            max_length=14,
            pattern="^([0-9a-hjkmnp-tv-z]{14})?$",
            description="in place of id: the first of count ids, which count up in base 32; the client gives one",
        ),
    ] = ""
    priority_class: Annotated[Literal["prod", "mid", "batch", "free"], Meta(description="class")] = "prod"
    data_labels: Annotated[tuple[DataLabel, ...], Meta(max_length=256, description="images or data sets it uses")] = ()
    # where it may go
    machine: Name = ""
    not_on: Annotated[tuple[Name, ...], Meta(max_length=256, description="machines that it may not go to")] = ()
    selector: Selector = ""
    prefer: Preferences = ()
    affinity: Affinities = ()
    anti_affinity: Affinities = ()
    tolerations: Tolerations = ()
    # how it is placed
    profile: Name = ""
    window_s: Annotated[int, Meta(ge=0, description="window to score by; 0: as the profile says")] = 0
    count: Annotated[int, Meta(ge=1, le=10_000)] = 1
    top: Annotated[int, Meta(ge=1, le=1_000, description="how many machines the answer lists")] = 3
    explain: bool = False
    dry_run: bool = False
    ttl_s: Annotated[float, Meta(gt=0, le=86_400, description="lifetime of the reservation")] = 300.0
    all_or_nothing: bool = False
    machines_max: Annotated[int, Meta(ge=0, description="at most so many different machines; 0: any")] = 0
    machines_min: Annotated[int, Meta(ge=0, description="at least so many different machines")] = 0

    def amounts(self) -> tuple[float, ...]:
        """Return the requested amounts in base units, in the order of `schemas.resources`; 0 where none is given."""
        return tuple([float(amount or 0.0) for amount in _given(self)])

    def given_amounts(self) -> tuple[float | None, ...]:
        """Return the requested amounts in base units; None for an amount not given."""
        return tuple([None if amount is None else float(amount) for amount in _given(self)])


_given = attrgetter(*RESOURCES)


class InvalidRequest(ValueError):
    """A request that cannot be read; the message names the field."""


DECIMALS = {**{resource.name: resource.decimals for resource in ALL}, "maxmemory": 0}
"""Millionths of a core and whole bytes: filters must add up the same units as the ledger."""
AMOUNT_MAX = 2.0**50
"""The largest amount in the ledger's units: sums of some thousands stay whole."""
ASKED_MAX = 1e300
"""The largest amount of a request: a number in the ledger's units, too. It may exceed every machine."""


msgspec.convert({}, Request)  # msgspec 0.22 ends a process in which two threads meet a type first: it is met here


def read_request(params: Any) -> Request:
    """Return the request in decoded JSON, every amount a float in base units, rounded to the ledger's units.

    >>> read_request({"cpu": "500m", "memory": "10G"}).amounts()[:2]
    (0.5, 10000000000.0)

    Raises InvalidRequest naming the field.
    """
    params = with_seconds(params)
    try:
        request = msgspec.convert(params, Request)
    except msgspec.ValidationError as error:
        raise InvalidRequest(field_error(error, given=params, kind=Request)) from None
    if request.labels:
        check_labels(request.labels)
    check_rules(request)
    read: dict[str, Any] = {}
    for name in DECIMALS:
        if (amount := getattr(request, name)) is not None:
            read[name] = read_amount(name, amount) if amount != 0 else 0.0
    for name in ("limits", "expected"):
        if given := getattr(request, name):
            read[name] = _read_by_resource(name, given)
    return msgspec.structs.replace(request, **read)


def _read_by_resource(field: str, given: Mapping[str, float | str]) -> dict[str, float]:
    for resource in given:
        if resource not in RESOURCES:
            raise InvalidRequest(f"{field}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
    return {resource: read_amount(f"{field}.{resource}", amount) for resource, amount in given.items()}


def with_seconds(params: Any) -> Any:
    """Return parameters with texts such as ``5m`` converted to seconds, in fields whose names end in ``_s``.

    >>> with_seconds({"ttl_s": "5m", "cpu": 2})
    {'ttl_s': 300.0, 'cpu': 2}

    Raises InvalidRequest naming the field.
    """
    if not isinstance(params, dict):
        return params
    read = {}
    for name, value in params.items():
        if isinstance(name, str) and name.endswith("_s") and isinstance(value, str):
            try:
                seconds = parse_duration(value)
            except ValueError as error:
                raise InvalidRequest(f"{name}: {error}") from None
            read[name] = int(seconds) if name == "window_s" and seconds.is_integer() else seconds
    return params | read if read else params


def check_labels(labels: Mapping[str, str]) -> None:
    """Refuse labels whose total length is too large; raises InvalidRequest."""
    stored = sum(len(key) + len(value) for key, value in labels.items())
    if stored > LABELS_LENGTH_MAX:
        raise InvalidRequest(f"labels: {stored} characters in all, at most {LABELS_LENGTH_MAX}")


def check_rules(request: Request) -> None:
    """Refuse a selector, affinities, tolerations and preferences of too large a total length; raises InvalidRequest."""
    terms, preferences = (*request.affinity, *request.anti_affinity), request.prefer
    if not (request.selector or terms or preferences or request.tolerations):
        return
    if any(one.others or one.share or one.skew for one in request.affinity):
        raise InvalidRequest("affinity: others, share and skew are limits of anti_affinity; an affinity has none")
    if any((one.others > 0) + (one.share > 0) + (one.skew > 0) > 1 for one in request.anti_affinity):
        raise InvalidRequest("anti_affinity: a rule has one limit, others, share or skew; give a rule for each")
    if not all(one.topology for one in terms):
        raise InvalidRequest("topology: expected machine, or a label of machines, in affinity and anti_affinity")
    stored = len(request.selector) + sum(len(one.selector) for one in preferences)
    stored += sum(len(one.topology) + sum(len(k) + len(v) for k, v in one.instances.items()) for one in terms)
    stored += sum(len(one.key) + len(one.value or "") for one in request.tolerations)
    if stored > RULES_LENGTH_MAX:
        names = "selector, prefer, affinity, anti_affinity and tolerations"
        raise InvalidRequest(f"{names}: {stored} characters in all, at most {RULES_LENGTH_MAX}")


def read_amount(name: str, value: float | str) -> float:
    """Return an amount in base units, rounded to the ledger's units.

    >>> read_amount("cpu", "500m"), read_amount("limits.cpu", 8 / 3), read_amount("memory", "0.1Ki")
    (0.5, 2.666667, 102.0)

    Raises InvalidRequest naming the field.
    """
    resource = name.rpartition(".")[2]
    try:
        amount = parse_amount(resource, value)
    except ValueError as error:
        raise InvalidRequest(f"{name}: {error}") from None
    if name != resource and (large := too_much(resource, amount)):
        raise InvalidRequest(f"{name}: {large}")
    if amount > ASKED_MAX:
        raise InvalidRequest(f"{name}: expected at most {ASKED_MAX:g}, got {amount:g}")
    return round(amount, DECIMALS[resource])


def too_much(resource: str, amount: float) -> str:
    """Return why an amount in base units cannot be counted exactly; "" when it can.

    >>> too_much("cpu", 2e9), too_much("cpu", 2.0)
    ('at most 1,125,899,906 cores can be counted', '')
    """
    units = 10.0 ** DECIMALS[resource]
    if amount * units <= AMOUNT_MAX:
        return ""
    return f"at most {AMOUNT_MAX / units // 1:,.0f} {UNITS.get(resource, 'bytes')} can be counted"
