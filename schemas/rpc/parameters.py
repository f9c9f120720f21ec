"""The methods of the RPC, and their parameters: one Struct a method, every text and every list with a largest size.

``place`` and ``rank`` take a `schemas.rpc.request.Request`; ``place`` takes a list of them, too, as ``instances``.
"""

from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import msgspec
from msgspec import Meta

from schemas.resources import RESOURCES
from schemas.rpc import results
from schemas.rpc.request import (
    NAME_LENGTH_MAX,
    Affinities,
    ByResource,
    Changeable,
    Draining,
    Labels,
    Name,
    Preferences,
    Quantity,
    Request,
    Selector,
    Tolerations,
)

ID_LENGTH_MAX = NAME_LENGTH_MAX + 8
"""Characters of an instance's id: that of a batch with its number."""
BATCH_MAX = 10_000
"""Instances in one query."""
ROWS_MAX = 10_000
"""Rows of one page."""

Id = Annotated[str, Meta(min_length=1, max_length=ID_LENGTH_MAX)]
AnyId = Annotated[str, Meta(max_length=ID_LENGTH_MAX)]
Generation = Annotated[int, Meta(ge=0)] | None
"""The generation that the caller refers to, from an earlier answer; None: the live one."""
Limit = Annotated[int, Meta(ge=1, le=ROWS_MAX)]
PROFILE_LENGTH_MAX = 65_536
"""Maximum length of a profile's file that is sent with a query, in characters."""
ProfileText = Annotated[str, Meta(max_length=PROFILE_LENGTH_MAX)]
"""The text of a profile's file, used in place of a profile of the planner's own; `profile` is its name then."""


class Confirm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``confirm``."""

    id: Id
    machine: Name = ""
    """The machine that the instance is expected on; on another one the call fails. For a moving instance: its
    target, where it then is, and the source is free."""
    started_at: Annotated[float, Meta(ge=0)] = 0.0
    """When it started, epoch seconds; 0: now."""
    generation: Generation = None
    move: Generation = None
    """Number of the move that the caller means, from the answer of ``update``; None: any move to ``machine``."""
    dry_run: bool = False


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``release``."""

    id: Id
    machine: Name = ""
    generation: Generation = None
    failed: bool = False
    """Its start failed on its machine, which is chosen less for a while. Ignored where it has ended already."""
    dry_run: bool = False


_kinds = dict.fromkeys(RESOURCES, Quantity) | get_type_hints(Changeable, include_extras=True)
_Changes: Any = msgspec.defstruct(
    "_Changes", [(name, kind | None, None) for name, kind in _kinds.items()], frozen=True, kw_only=True
)


class Update(_Changes, frozen=True, forbid_unknown_fields=True, kw_only=True):  # type: ignore[misc, call-arg]
    """The parameters of ``update``: the given fields change, the others stay. Each resource is a field."""

    # the amount of each resource, the fields of `schemas.rpc.request.Changeable`, and these
    id: Id
    machine: Name | None = None
    """Where it goes; "" chooses the best machine."""
    move: bool = False
    """Reserve the machine only: the instance holds both until ``confirm`` names it. Amounts, limits, expected use and
    rules that are given with it and with ``machine`` are reserved there, and hold from the confirmation on."""
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] = 3_600.0
    """How long a move may take; after that it ends, and the instance stays where it is."""
    cancel_move: bool = False
    """End the move that is under way, if ``machine`` is given only one to it. Nothing else changes."""
    maxmemory: Quantity | None = None
    limits: ByResource | None = None
    expected: ByResource | None = None
    swap_role_with: AnyId = ""
    """Another instance: the two exchange their roles in one step, as a failover does. The same call again is a repeat;
    the way back is the other's call, or this one with the ``role`` it is to have."""
    selector: Selector | None = None
    """This and the four below are rules: which machines a later move may choose, instead of what ``place`` said."""
    prefer: Preferences | None = None
    affinity: Affinities | None = None
    anti_affinity: Affinities | None = None
    tolerations: Tolerations | None = None
    profile: Name = ""
    generation: Generation = None
    dry_run: bool = False


class Instances(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``instances``; an instance must match all that are given."""

    id: AnyId = ""
    machine: Name = ""
    state: Literal["", "reserved", "confirmed"] = ""
    cluster: Name = ""
    role: Name = ""
    kind: Name = ""
    labels: Labels = {}
    selector: Selector = ""
    """Over the instances' labels, in the words of a request's selector; the key `machine` is the id here."""
    after: AnyId = ""
    """The last id of the page before."""
    limit: Limit = 1000
    violations: bool = False
    """Only those that break a rule together; the result says which."""


class MachineList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``machines``."""

    names: Annotated[tuple[Name, ...], Meta(max_length=ROWS_MAX)] = ()
    labels: Labels = {}
    profile: Name = ""
    window_s: Annotated[int, Meta(ge=0)] = 0
    after: Name = ""
    """The last machine of the page before."""
    limit: Limit = 1000


class Risk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``risk``."""

    within_s: Annotated[float, Meta(gt=0, le=86_400)] = 3_600.0
    """The chance is that of load above the limit at some time within so many seconds."""
    limit: Annotated[float, Meta(gt=0, le=10)] = 0.7
    """CPU load, as a share of allocatable."""
    top: Annotated[int, Meta(ge=1, le=100)] = 10
    """At most so many machines."""


class Capacity(Request, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``capacity``: those of a request; ``count``, ``top`` and ``explain`` have no effect."""

    by: Name = ""
    """Count by the values of this label, or by ``machine``."""


class Cordon(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``cordon`` and ``uncordon``."""

    machines: Annotated[tuple[Name, ...], Meta(max_length=ROWS_MAX)] = ()
    """Names or globs; ``*`` alone is every machine, including future ones."""
    selector: Selector = ""
    """In addition, the machines whose labels this selects."""
    ahead: bool = False
    """Accept an unknown name, of a future machine."""
    dry_run: bool = False
    drain: Draining | None = None
    """For ``cordon`` alone: moves of the instances there are planned every 30 s, until the machines are uncordoned."""


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``drain``."""

    machines: Annotated[tuple[Name, ...], Meta(max_length=ROWS_MAX)] = ()
    """Names or globs."""
    selector: Selector = ""
    """In addition, the machines whose labels this selects."""
    consolidate: Annotated[int, Meta(ge=0, le=ROWS_MAX)] = 0
    """Instead of these so many machines: the cheapest to empty."""
    profile: Name = ""
    """The profile that places the instances elsewhere; "": the planner's own."""
    profile_text: ProfileText = ""
    same: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()
    """Labels whose value source and target must share."""
    force: bool = False
    """Also move instances with the label movable=false."""
    lost: bool = False
    """The machines are dead: their instances start anew elsewhere, the highest class first."""
    apply: bool = False
    """Cordon the machines, and reserve the target of each move until it is confirmed there."""
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] = 3_600.0
    """How long each move may take before it expires."""
    again: bool = False
    """With ``apply``: of these machines only those that are being drained already."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``plan``."""

    instances: Annotated[tuple[Request, ...], Meta(max_length=BATCH_MAX)]
    """All that are wanted, each with its ``id``; with ``count`` so many, ``id-1``, ``id-2``, ..."""
    profile: Name = ""
    profile_text: ProfileText = ""
    prune: bool = False
    """Release confirmed instances that are not named."""
    prune_labels: Labels = {}
    """With ``prune``: only those with these labels."""
    release_last: bool = False
    """Release after all other steps, where that refuses no more of them: what is released need not be undone."""
    records: bool = False
    """Give each step the record of its instance, by which the step can be undone."""


Number = int | float
Setting = (
    Number
    | bool
    | Name
    | Annotated[tuple[Name, ...], Meta(max_length=64)]
    | Annotated[dict[Name, Number], Meta(max_length=64)]
)
"""A setting of a profile's table: a number, yes or no, a word, words, or numbers by name."""


class Rebalance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``rebalance``; all other settings are in the profile's ``[rebalance]``."""

    profile: Name = ""
    profile_text: ProfileText = ""
    moves_max: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    """At most so many moves; null: as the profile says."""
    same: Annotated[tuple[Name, ...], Meta(max_length=64)] | None = None
    """Labels whose value source and target must share; null: as the profile says."""
    settings: Annotated[dict[Name, Setting], Meta(max_length=64)] = {}
    """Other settings of ``[rebalance]``, by name, in place of the profile's."""


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``health``: none."""


class Method(NamedTuple):
    """One method of the RPC. It has a line in `scorer.rpc.service.METHODS` and a function in each client, too."""

    parameters: type[msgspec.Struct]
    result: type[msgspec.Struct]
    summary: str
    """The effect, in a sentence."""
    operators: bool = False
    """Whether it is taken from the operators' list only."""


RPC: dict[str, Method] = {
    "place": Method(Request, results.PlaceResult, "choose machines and reserve them, for one instance or many"),
    "rank": Method(Request, results.RankResult, "rank the machines for a request; changes nothing"),
    "confirm": Method(Confirm, results.ConfirmResult, "confirm that a reserved instance runs"),
    "update": Method(Update, results.UpdateResult, "resize a confirmed instance, move it, change its role"),
    "release": Method(Release, results.ReleaseResult, "end an instance or a reservation"),
    "capacity": Method(
        Capacity, results.CapacityResult, "count how many more instances of a kind fit; changes nothing"
    ),
    "cordon": Method(Cordon, results.CordonResult, "keep further instances away from machines", operators=True),
    "uncordon": Method(Cordon, results.CordonResult, "let machines take instances again", operators=True),
    "drain": Method(
        Drain,
        results.DrainResult,
        "say where all instances of machines would go; with apply, reserve it",
        operators=True,
    ),
    "plan": Method(
        Plan,
        results.PlanResult,
        "say what would make the ledger have the wanted instances; changes nothing",
        operators=True,
    ),
    "rebalance": Method(
        Rebalance,
        results.RebalanceResult,
        "say which instances should move, and why; changes nothing",
        operators=True,
    ),
    "machines": Method(MachineList, results.MachinesResult, "list the machines as the scorer sees them"),
    "risk": Method(Risk, results.RiskResult, "name the machines whose CPU will soon be hot, and what heats them"),
    "instances": Method(Instances, results.InstancesResult, "list instances of the ledger"),
    "health": Method(Health, results.HealthResult, "return whether the scorer is ready, and the age of its data"),
}
"""By name."""
OPERATORS = frozenset(name for name, method in RPC.items() if method.operators)
"""The methods that are taken from the operators' list only."""
