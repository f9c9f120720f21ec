"""The results of the RPC: one Struct a method, so that every result of a method has the same keys.

A value that is unknown, or does not apply, is null or empty. A caller reads the keys it knows: new ones are only added.
``windward`` publishes them as ``schemas/<method>.result.v1.schema.json``; `empty` has the fields with a default.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.fleet_results import HealthResult, MachinesResult


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """How many machines a filter refused, and why."""

    filter: str
    reason: str
    machines: int


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A machine with the terms of its score."""

    machine: str
    score: float | None
    risk: float | None = None
    scores: dict[str, dict[str, Any]]
    """By score: value, raw, weight, and the score's own details."""
    resources: dict[str, dict[str, float | None]]
    window_s: float | None
    coverage: float | None
    warming: bool
    age_s: float | None
    instances: int


class Verdict(Candidate, frozen=True, kw_only=True):
    """A machine with the verdict of every filter and score."""

    feasible: bool
    filters: list[dict[str, Any]]


class RankResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``rank``."""

    machine: str | None = None
    score: float | None = None
    profile: str = ""
    summary: str = ""
    feasible: int | None = None
    fleet: int | None = None
    request: dict[str, float] = {}
    expected: dict[str, float] = {}
    expected_from: dict[str, str] = {}
    """Where each expected usage comes from, in words."""
    learned: dict[str, Any] | None = None
    """Version and factors of the learned use, if the profile uses it."""
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    warnings: list[str] = []
    machines: list[Verdict] | None = None
    """With ``explain`` each machine; else null."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that was placed."""

    id: str
    machine: str
    state: str
    reserved_at: float
    expires_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    version: int
    generation: int = 0
    """Which reservation of its id."""


class PlaceResult(RankResult, frozen=True, kw_only=True):
    """The result of ``place``: the terms of the ranking, a line for each instance, and that of a single one."""

    id: str | None = None
    state: str | None = None
    reserved_at: float | None = None
    expires_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    version: int | None = None
    generation: int | None = None
    placed: list[Line] = []
    asked: int = 0
    missing: int = 0
    reason: str = ""
    missing_reasons: dict[str, int] = {}
    missing_ids: list[str] = []
    repeated: int = 0
    conflicts: int = 0
    dry_run: bool = False


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance is where it moves to, in place of the same fields of its record."""

    amounts: list[float]
    expected: list[float] = []
    limits: list[float] = []
    maxmemory: float = 0.0
    rules: dict[str, Any] | None = None


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    """Where an instance moves to: it holds that machine, too, until the move is confirmed or ends by itself."""

    to: str
    since: float
    until: float
    number: int
    """Which move it is: `confirm` takes it as ``move``."""
    new: Arrival | None = None
    """What it is there, where the move changes amounts, limits, expected use or rules."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """The stored record of an instance."""

    id: str
    machine: str
    state: str
    expected: list[float] = []
    limits: list[float] = []
    maxmemory: float = 0.0
    ports: list[int] = []
    cluster: str = ""
    role: str = ""
    cluster_masters: int = 0
    priority_class: str = "prod"
    labels: dict[str, str] = {}
    kind: str = ""
    reserved_at: float = 0.0
    started_at: float = 0.0
    expires_at: float = 0.0
    ended_at: float = 0.0
    version: int = 0
    generation: int = 0
    rules: dict[str, Any] | None = None
    """The rules of its request: selector, prefer, affinity, anti_affinity, tolerations, as given."""
    moving: Moving | None = None


class ConfirmResult(_Record, frozen=True, kw_only=True):
    """The result of ``confirm``."""

    amounts: list[float]
    repeated: bool = False
    dry_run: bool = False


class ReleaseResult(ConfirmResult, frozen=True, kw_only=True):
    """The result of ``release``."""


class UpdateResult(ConfirmResult, frozen=True, kw_only=True):
    """The result of ``update``: the record, and the terms of the ranking that chose the machine of a move."""

    expected: list[float] | dict[str, float] = []  # type: ignore[assignment]
    """By resource after a move, else as in the record."""
    moved_from: str | None = None
    score: float | None = None
    profile: str = ""
    summary: str = ""
    feasible: int | None = None
    fleet: int | None = None
    request: dict[str, float] = {}
    expected_from: dict[str, str] = {}
    learned: dict[str, Any] | None = None
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    warnings: list[str] = []
    machines: list[Verdict] | None = None


class InstanceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance uses, as its machine's agent measures it; resources that were never measured are left out."""

    at: float
    since: float
    count: int
    partial: bool
    recent: dict[str, float]
    daily: dict[str, float]
    variance: dict[str, float]
    day_peak: dict[str, float]


InstanceRow: Any = msgspec.defstruct(
    "InstanceRow",
    [*((name, float, 0.0) for name in RESOURCES), ("usage", InstanceUsage | None, None)],
    bases=(_Record,),
    frozen=True,
    kw_only=True,
    namespace={"__doc__": "A row of ``instances``; each resource is a field."},
)


class InstancesResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``instances``."""

    total: int
    instances: list[InstanceRow]
    more: bool


RESULTS: dict[str, type[msgspec.Struct]] = {
    "place": PlaceResult,
    "rank": RankResult,
    "confirm": ConfirmResult,
    "update": UpdateResult,
    "release": ReleaseResult,
    "machines": MachinesResult,
    "instances": InstancesResult,
    "health": HealthResult,
}
"""By method."""


@cache
def empty(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields that have a default, with it. Copy the result before changing it.

    >>> empty(Line)
    {'expires_at': None, 'started_at': None, 'ended_at': None, 'generation': 0}
    """
    fields = msgspec.structs.fields(kind)
    return {
        field.name: field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        for field in fields
        if not field.required
    }
