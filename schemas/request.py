"""The request: what an instance needs and where it may go. The ``params`` of ``place`` and ``rank``.

Amounts are numbers in base units (cores, bytes, bytes/s) or text with a suffix (``"500m"``, ``"10G"``, ``"10Gi"``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.quantity import parse_quantity
from schemas.resources import RESOURCES

Quantity = float | str
Ratio = Annotated[float, Meta(ge=0, le=1)]


class Affinity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Be near, or far from, instances whose labels match ``instances``, on machines of one ``topology`` label value.

    The topology key ``machine`` is the machine itself.
    """

    instances: dict[str, str]
    topology: str = "machine"


class Preference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prefer machines that ``selector`` matches, by ``weight``."""

    selector: str
    weight: Annotated[float, Meta(ge=0, le=100)] = 1.0


class Toleration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bear a taint: the key (empty: any), the value (None: any), the effect (None: any)."""

    key: str = ""
    value: str | None = None
    effect: Literal["refuse", "avoid"] | None = None


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One instance, or ``count`` identical ones. Everything is optional: an empty request is best effort."""

    # what it needs
    cpu: Quantity = 0.0
    memory: Quantity = 0.0
    nic: Quantity = 0.0
    limits: Annotated[dict[str, Quantity], Meta(description="limits by resource name")] = {}
    expected: Annotated[dict[str, Quantity], Meta(description="expected usage by resource name, where known")] = {}
    maxmemory: Quantity = 0.0
    ports: tuple[Annotated[int, Meta(ge=1, le=65_535)], ...] = ()
    # what it is
    id: Annotated[str, Meta(max_length=253, description="the deployer's id; repeating it repeats the answer")] = ""
    priority_class: Annotated[Literal["prod", "mid", "batch", "free"], Meta(description="class")] = "prod"
    labels: dict[str, str] = {}
    cluster: str = ""
    role: str = ""
    cluster_masters: Annotated[int, Meta(ge=0, description="masters the whole cluster has or will have")] = 0
    kind: Annotated[str, Meta(description="what is learned from instances of the same kind")] = ""
    data_labels: Annotated[tuple[str, ...], Meta(description="images or data sets it uses")] = ()
    # where it may go
    machine: str = ""
    selector: str = ""
    prefer: tuple[Preference, ...] = ()
    affinity: tuple[Affinity, ...] = ()
    anti_affinity: tuple[Affinity, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    # how it is placed
    profile: str = ""
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
        """Return the requested amounts in base units, in the order of `schemas.resources`."""
        return tuple(float(getattr(self, name)) for name in RESOURCES)


class InvalidRequest(ValueError):
    """A request that cannot be read; the message names the field."""


DECIMALS = {"cpu": 6, "memory": 0, "nic": 0, "maxmemory": 0}
"""Millionths of a core and whole bytes: what a filter adds up must be what the ledger does, or they disagree."""


def read_request(params: Any) -> Request:
    """Return the request in decoded JSON, every amount a float in base units, as fine as the ledger counts.

    >>> read_request({"cpu": "500m", "memory": "10G"}).amounts()
    (0.5, 10000000000.0, 0.0)

    Raises InvalidRequest naming the field.
    """
    try:
        request = msgspec.convert(params, Request)
    except msgspec.ValidationError as error:
        raise InvalidRequest(_name_field(str(error))) from None
    plain = {name: read_amount(name, getattr(request, name)) for name in DECIMALS}
    for name in ("limits", "expected"):
        for resource in getattr(request, name):
            if resource not in RESOURCES:
                raise InvalidRequest(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
    limits = {name: read_amount(f"limits.{name}", value) for name, value in request.limits.items()}
    expected = {name: read_amount(f"expected.{name}", value) for name, value in request.expected.items()}
    return msgspec.structs.replace(request, **plain, limits=limits, expected=expected)


def read_amount(name: str, value: float | str) -> float:
    """Return an amount in base units, as fine as the ledger counts.

    >>> read_amount("cpu", "500m"), read_amount("limits.cpu", 8 / 3), read_amount("memory", "0.1Ki")
    (0.5, 2.666667, 102.0)

    Raises InvalidRequest naming the field.
    """
    try:
        return round(parse_quantity(value), DECIMALS[name.rpartition(".")[2]])
    except ValueError as error:
        raise InvalidRequest(f"{name}: {error}") from None


def _name_field(message: str) -> str:
    """Put the field first: msgspec ends its messages with the path ``at `$.cpu```."""
    what, at, path = message.rpartition(" - at `$.")
    return f"{path.rstrip('`')}: {what}" if at else message
