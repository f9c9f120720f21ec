"""The answers of the RPC: one Struct a method. A scorer builds them, and sends every field of each.

A value that is unknown, or does not apply, is null or empty. A caller reads the keys it knows: new ones are only added.
``windward`` publishes them as ``schemas/<method>.result.v1.schema.json``; the client returns them.

Rows may be JSON already when the scorer builds its answer (`msgspec.Raw`): a long page is encoded in steps, and a
candidate is encoded once for all answers that show it.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.keywords import Amounts
from schemas.values.mapping import Result


class Refusal(Result, kw_only=True):
    """How many machines a filter refused, and why."""

    filter: str
    reason: str
    machines: int


class Candidate(Result, kw_only=True):
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


class Verdict(Candidate, kw_only=True):
    """A machine with the verdict of every filter and score."""

    feasible: bool
    place: int | None = None
    """Its place among the feasible machines, 1 for the best; null: it is refused."""
    lacks: dict[str, float] = {}
    """By score: the points of the total by which the best machine is ahead; below 0: behind."""
    filters: list[dict[str, Any]]


class RankResult(Result, kw_only=True):
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
    """The source of each expected usage, in words."""
    learned: dict[str, Any] | None = None
    """Version and factors of the learned use, if the profile uses it."""
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    warnings: list[str] = []
    machines: list[Verdict] | None = None
    """With ``explain`` each machine; else null."""


class Line(Result, kw_only=True):
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


class PlaceResult(RankResult, kw_only=True):
    """The result of ``place``: the terms of the ranking, one line for each instance, and the fields of a single one."""

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


class Arrival(Result, kw_only=True):
    """The fields of an instance on its target, in place of the same fields of its record."""

    amounts: list[float]
    expected: list[float] = []
    limits: list[float] = []
    maxmemory: float = 0.0
    rules: dict[str, Any] | None = None


class Moving(Result, kw_only=True):
    """The target of an instance that moves: it holds that machine, too, until the move is confirmed or expires."""

    to: str
    since: float
    until: float
    number: int
    """Which move it is: `confirm` takes it as ``move``."""
    new: Arrival | None = None
    """The fields on the target, where the move changes amounts, limits, expected use or rules."""


class Record(Result, kw_only=True):
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


if TYPE_CHECKING:

    class _WithAmounts(Record, Amounts, kw_only=True):
        pass

else:
    _WithAmounts = msgspec.defstruct(
        "_WithAmounts", [(name, float, 0.0) for name in RESOURCES], bases=(Record,), kw_only=True
    )


class ConfirmResult(_WithAmounts, kw_only=True):
    """The result of ``confirm``; each resource is a field, as in ``instances``."""

    amounts: list[float]
    """The same amounts, in the order of the resources."""
    repeated: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        for name, amount in zip(RESOURCES, self.amounts, strict=False):
            setattr(self, name, amount)  # an older scorer answers the list alone


class ReleaseResult(ConfirmResult, kw_only=True):
    """The result of ``release``."""


class UpdateResult(ConfirmResult, kw_only=True):
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


class InstanceUsage(Result, kw_only=True):
    """The measured usage of an instance; resources that were never measured are left out."""

    at: float
    """End of the last report, epoch s."""
    since: float
    """End of the first report, epoch s."""
    count: int
    """Number of reports."""
    partial: bool
    """Whether it ran before the first report of its machine: its earlier usage is not known."""
    recent: dict[str, float]
    """Exponential mean of about the last 30 minutes, by resource."""
    daily: dict[str, float]
    """Exponential mean of about 24 hours, by resource."""
    variance: dict[str, float]
    """Variance of the reports' means around `daily`: cpu and memory."""
    day_peak: dict[str, float]
    """Highest mean of a report in the local day of ``at``: cpu and memory."""


class InstanceRow(_WithAmounts, kw_only=True):
    """A row of ``instances``; each resource is a field."""

    usage: InstanceUsage | None = None


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that the members of its group break on a machine, or near a label's value."""

    rule: str
    topology: str
    domain: str
    """The machine, or the label's value."""
    count: int
    most: int
    """So many members are there, and so many may be."""
    since: float
    """For most causes it is broken since then at the earliest."""
    why: str
    """``rule``: older than the rule; ``failover``, ``left``, ``relabel``: what was changed since."""
    instances: list[str]
    """The members there, the newest first; 100 at most."""


class InstancesResult(Result, kw_only=True):
    """The result of ``instances``."""

    total: int
    instances: list[InstanceRow]
    more: bool
    violations: list[Violation] = []
    """With ``violations``: all broken rules, the longest broken first."""


class CapacityResult(Result, kw_only=True):
    """The result of ``capacity``."""

    fit: int
    """Instances that would be placed, one after the other."""
    at_least: bool
    """Whether counting ended at a bound: more than these may fit."""
    machines_with_room: int
    limits: list[Refusal]
    """The refusals of one more copy, most machines first."""
    by: dict[str, int] = {}
    """By value of the requested label, most first; "" for machines without it."""
    profile: str


class CordonResult(Result, kw_only=True):
    """The result of ``cordon`` and ``uncordon``."""

    rules: dict[str, dict[str, Any]]
    """Operators' rules in force, by machine; ``*``: the rules of every machine."""
    dry_run: bool = False


class DrainLine(Result, kw_only=True):
    """An instance of a machine that is drained."""

    id: str
    generation: int
    source: str
    amounts: dict[str, float]
    """The requested amounts, by resource."""
    target: str | None = None
    """The machine that it moves to; null: it stays."""
    reason: str = ""
    """Why it stays."""
    until: float | None = None
    """Until when the target is reserved, epoch s; null: it is not."""
    move: int | None = None
    """Number of the move that was begun: ``confirm`` takes it."""


class Emptied(Result, kw_only=True):
    """A machine that would be empty, and the moves that empty it."""

    machine: str
    memory: float
    """Bytes to copy."""
    instances: int


class Emptying(Result, kw_only=True):
    """The machines chosen by ``consolidate``."""

    wanted: int
    tried: int
    """Machines that were tried."""
    left: dict[str, int]
    """How many machines were not tried, by reason."""
    machines: list[Emptied]
    """The cheapest first."""


class DrainResult(Result, kw_only=True):
    """The result of ``drain``."""

    drained: list[str]
    cordoned: bool
    """Whether the machines were cordoned."""
    profile: str
    moves: list[DrainLine]
    """In the order of execution; each is planned as if those before it were done."""
    moving: list[DrainLine]
    """Instances that were leaving already."""
    blocked: list[DrainLine]
    """Instances that stay."""
    machines: int = 0
    """Machines of the fleet that it was planned on."""
    instances: int = 0
    """Instances of that fleet."""
    emptying: Emptying | None = None
    """With ``consolidate`` the chosen machines; else null."""


class PlanStep(Result, kw_only=True):
    """A step for one instance."""

    action: str
    """``release``, ``change``, ``update``, ``move``, ``place``; ``refuse`` where it cannot be as it is wanted."""
    id: str
    source: str | None
    """Its machine; null for a new instance."""
    target: str | None
    """Its machine afterwards."""
    why: str
    generation: int
    changes: dict[str, Any]
    """The parameters of its ``update``, in base units."""
    record: dict[str, Any] | None = None
    """With ``records`` the record of the instance before the step; null for a new one."""


class PlanResult(Result, kw_only=True):
    """The result of ``plan``."""

    profile: str
    counts: dict[str, int]
    """Steps by action, and ``same``: instances that are as wanted."""
    others: int
    """Instances that are not named and are left alone."""
    steps: list[PlanStep]
    """In the order of execution; each is planned as if those before it were done."""
    machines: int = 0
    """Machines of the fleet that it was planned on."""
    instances: int = 0
    """Instances of that fleet."""


class RebalanceMove(Result, kw_only=True):
    """An instance that should move."""

    id: str
    generation: int
    source: str
    target: str | None
    """Null: it should leave, and finds no machine; or it stays."""
    swap_role_with: str = ""
    """It stays and exchanges its role with this instance: hand it over, then tell it by ``update``."""
    role: str = ""
    """The role that it takes."""
    gain: float = 0.0
    """The decrease of the profile's objective by the move."""
    cost: float = 0.0
    """The cost of copying it, in the same unit."""
    copy_bytes: float = 0.0
    copy_s: float = 0.0
    reason: str
    overload: dict[str, list[float]] = {}
    """By ``source`` and ``target``: the expected overload before and after the move."""
    utilization: dict[str, dict[str, list[float | None]]] = {}
    """The utilization of both before and after the move, by resource; null where it is unknown."""


class RebalanceResult(Result, kw_only=True):
    """The result of ``rebalance``."""

    rule: str
    objective: str
    profile: str
    machines: int = 0
    """Machines of the fleet that it was planned on."""
    instances: int = 0
    """Instances of that fleet."""
    at: float
    movable: int
    """Instances that might have been moved."""
    measured: int
    """Instances whose usage is measured."""
    moved_in_hour: int
    hour_max: int | None
    moves: list[RebalanceMove]
    """In the order of execution; each is planned as if those before it were done."""
    totals: dict[str, list[float]]
    """The fleet's figures, before and after the moves."""
    std: dict[str, list[float]]
    """Standard deviation of utilization by resource, before and after."""
    why: str = ""
    """Why there are no moves; "" where there are."""


class MachineRow(Result, kw_only=True):
    """A row of ``machines``."""

    machine: str
    has_data: bool
    age_s: float | None
    window_s: float | None
    coverage: float | None
    warming: bool
    cordon: bool
    labels: dict[str, str]
    taints: list[dict[str, Any]]
    instances: int
    failed_starts: float = 0.0
    """The number of starts that failed there, as ``release`` reported; each counts half after ten minutes."""
    maxmemory: float | None
    resources: dict[str, dict[str, float | None]]
    windows: dict[str, dict[str, dict[str, float | None]]] = {}
    """By resource, then window length in s: `mean`, `std`, `max`, `coverage` and percentiles as measured; of machines
    that are asked for by name."""
    classes: dict[str, dict[str, dict[str, float | None]]] = {}
    """By class and resource, where the profile counts by class: `promised`, `most`, `used`; and `counted`, the sum that
    is compared with `most`: free's has batch's in it."""


class MachinesResult(Result, kw_only=True):
    """The result of ``machines``."""

    total: int
    machines: list[MachineRow]
    more: bool


class Heating(Result, kw_only=True):
    """An instance that heats a machine."""

    id: str
    cpu: float
    """Its measured use in about the last 30 minutes, cores."""


class SoonHot(Result, kw_only=True):
    """A row of ``risk``."""

    machine: str
    chance: float
    """The chance of CPU load above the limit within the time."""
    recent: float
    """Mean of the shortest window, as a share of allocatable."""
    mean: float
    """Mean of the longest covered window, as such a share."""
    std: float
    allocatable: float
    """Cores."""
    instances: list[Heating]
    """Its instances with a current report, the largest use first."""
    other: float
    """Cores that are used beside them."""


class RiskResult(Result, kw_only=True):
    """The result of ``risk``."""

    total: int
    """Machines with fresh data."""
    within_s: float
    limit: float
    machines: list[SoonHot]
    """The hottest first."""


class HealthResult(Result, kw_only=True):
    """The result of ``health``."""

    ready: bool
    degraded: str = ""
    """The fault of the data, in words; "" when there is none."""
    scorer: str
    version: str
    uptime_s: float
    clock_ahead_s: float = 0.0
    """How far the clock of its host is ahead of the Redis server's; below 0: behind."""
    machines: int
    machines_with_data: int
    newest_sample_age_s: float | None
    windows_s: list[int]
    instances: int
    ledger_change: int
    ledger_format: int = 0
    ledger_epoch: str = ""
    """The id of the ledger: all scorers have the same."""
    ledger_refusal: str = ""
    ledger_check: dict[str, int] | None = None
    """The findings of the last check of the ledger, at the epoch second `at`; null where none is known."""
    ledger_unaccepted: str = ""
    """Why nothing is placed on a ledger that was emptied; "" when instances are placed."""
    ledger_unsafe: str = ""
    """Server settings that endanger the ledger (no append-only file, eviction); "" when none is known."""
    ledger_acknowledged_by: int = 0
    """How many replicas of the ledger's server have a change before it is answered."""
    profiles: list[str]
    profile: str
