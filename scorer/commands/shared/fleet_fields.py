"""The fields of a fleet file, as types; `scorer.commands.shared.fleet_file` describes each."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from schemas.resources import RESOURCES
from schemas.rpc.request import Quantity
from schemas.values.errors import shortened
from schemas.values.numbers import Epoch
from schemas.values.quantity import parse_amount

NOW_S = 1_700_000_000.0
DAY_S = 86_400.0
AMOUNT_MAX = 1e16

_Value = TypeVar("_Value")
Seconds = Annotated[float, Meta(ge=-1e11, le=1e11)]
Ago = Annotated[float, Meta(ge=0, le=1e9)]
WindowLength = Annotated[int, Meta(ge=1, le=10**9)]


class InvalidFleet(ValueError):
    """A fleet file that cannot be read; the message names machine and field."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class Statistics(msgspec.Struct, forbid_unknown_fields=True):
    """Usage of one resource over one window."""

    mean: Quantity
    std: Quantity = 0.0
    p50: Quantity | None = None
    p90: Quantity | None = None
    p95: Quantity | None = None
    p99: Quantity | None = None
    max: Quantity | None = None
    coverage: float = 1.0
    filled: int | None = None
    warming: bool | None = None


ByResource = dict[str, Quantity | Statistics]


class FileMachine(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One machine of the file."""

    name: str
    capacity: dict[str, Quantity] = {}
    usage: ByResource = {}
    windows: dict[str, ByResource] = {}
    age_s: Seconds = 0.0
    window_age_s: Seconds | None = None
    interval_s: Seconds = 10.0
    skew_s: Seconds = 0.0
    peak_today: dict[str, Quantity] = {}
    peak_yesterday: dict[str, Quantity] = {}
    peak_today_ago_s: dict[str, Seconds] = {}
    peak_yesterday_ago_s: dict[str, Seconds] = {}
    classes: dict[str, dict[str, Quantity]] = {}
    system: dict[str, Quantity] = {}
    labels: dict[str, str] = {}
    operator: dict[str, Any] = {}
    at: Epoch | None = None
    end: Epoch | None = None
    boot: Epoch | None = None
    peak_since: Epoch | None = None


class FilePlaced(msgspec.Struct, kw_only=True):
    """The fields of an instance, or a leaver, in the file, other than its request."""

    machine: str = ""
    placed_ago_s: Seconds = 7 * DAY_S
    started: bool = True
    state: Literal["reserved", "confirmed"] = "confirmed"
    ended_ago_s: Ago = 0.0
    """Set for an instance that has ended or moved away, and for no other; so is ``failed``."""
    failed: bool = False
    usage: dict[str, Any] | None = None
    usage_since_s: Ago = DAY_S
    usage_age_s: Ago = 0.0


class FleetFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    machines: list[FileMachine]
    instances: list[dict[str, Any]] = []
    leavers: list[dict[str, Any]] = []
    learned: dict[str, float] = {}
    operator: dict[str, dict[str, Any]] = {}
    now: Epoch = NOW_S
    windows_s: tuple[WindowLength, ...] | None = None
    counts: dict[str, int] = {}
    refused: list[Any] = []


def by_row(place: str, given: Mapping[str, _Value]) -> Iterator[tuple[int, str, _Value]]:
    """Yield row, name and value of each resource. Raises InvalidFleet for an unknown resource."""
    for name, value in given.items():
        if name not in RESOURCES:
            raise InvalidFleet(f"{place}: no resource {name!r}; there are {', '.join(RESOURCES)}")
        yield RESOURCES.index(name), name, value


def amounts_of(place: str, given: Mapping[str, Quantity]) -> dict[int, float]:
    """Return amounts in base units by row. Raises InvalidFleet."""
    found = {row: amount_of(f"{place}.{name}", value, name) for row, name, value in by_row(place, given)}
    for row, amount in found.items():
        if not 0 <= amount <= AMOUNT_MAX:
            raise InvalidFleet(f"{place}.{RESOURCES[row]}: expected 0 to {AMOUNT_MAX:g}, got {amount!r}")
    return found


def amount_of(place: str, value: Quantity, resource: str = "") -> float:
    """Return an amount in base units, from a number or a text with a suffix. Raises InvalidFleet."""
    try:
        return parse_amount(resource, msgspec.convert(value, Quantity))
    except ValueError as error:  # msgspec's is one
        raise InvalidFleet(f"{place}: {error}") from None
