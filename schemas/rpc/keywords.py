"""The keywords of the client's methods, by method; made by ``python -m schemas.client_keywords``."""

from collections.abc import Mapping, Sequence
from typing import Literal, Required, TypedDict


class Amounts:
    """An amount of each resource: what a type checker knows of `schemas.rpc.results.InstanceRow`."""

    cpu: float
    memory: float
    nic: float
    disk: float


class PreferenceFields(TypedDict, total=False):
    """Prefer machines that ``selector`` matches, by ``weight``."""

    selector: Required[str]
    weight: float


class AffinityFields(TypedDict, total=False):
    """Be near, or far from, instances whose labels match ``instances``, on machines of one ``topology`` label value."""

    instances: Required[Mapping[str, str]]
    topology: str
    others: int
    """Anti_affinity: how many of them may be near."""
    share: float
    """Anti_affinity: the part of them all with one value."""
    skew: int
    """Anti_affinity: how many more than the value with the fewest has."""


class TolerationFields(TypedDict, total=False):
    """Tolerate a taint: the key (empty: any), the value (None: any), the effect (None: any)."""

    key: str
    value: str | None
    effect: Literal["avoid", "refuse"] | None


class DrainingFields(TypedDict, total=False):
    """The settings of a drain, which is planned again until the machine is empty or uncordoned."""

    ttl_s: Required[float]
    """How long each move may take."""
    profile: str
    same: Sequence[str]
    force: bool
    lost: bool


class RequestFields(TypedDict, total=False):
    """One instance, or ``count`` identical ones. Everything is optional: an empty request is best effort."""

    ports: Sequence[int]
    role: str
    cluster_masters: int
    """Masters the whole cluster has or will have."""
    labels: Mapping[str, str]
    cluster: str
    kind: str
    """What is learned from instances of the same kind."""
    cpu: float | str | None
    memory: float | str | None
    nic: float | str | None
    disk: float | str | None
    limits: Mapping[str, float | str]
    """Limits by resource name."""
    expected: Mapping[str, float | str]
    """Expected usage by resource name, where known."""
    maxmemory: float | str
    id: str
    """The deployer's id; repeating it repeats the answer."""
    first_id: str
    """In place of id: the first of count ids, which count up in base 32; the client gives one."""
    priority_class: Literal["batch", "free", "mid", "prod"]
    """Class."""
    data_labels: Sequence[str]
    """Images or data sets it uses."""
    machine: str
    not_on: Sequence[str]
    """Machines that it may not go to."""
    selector: str
    prefer: Sequence[PreferenceFields]
    affinity: Sequence[AffinityFields]
    anti_affinity: Sequence[AffinityFields]
    tolerations: Sequence[TolerationFields]
    profile: str
    window_s: int
    """Window to score by; 0: as the profile says."""
    count: int
    top: int
    """How many machines the answer lists."""
    explain: bool
    dry_run: bool
    ttl_s: float
    """Lifetime of the reservation."""
    all_or_nothing: bool
    machines_max: int
    """At most so many different machines; 0: any."""
    machines_min: int
    """At least so many different machines."""


class ConfirmFields(TypedDict, total=False):
    machine: str
    started_at: float
    generation: int | None
    move: int | None
    dry_run: bool


class UpdateFields(TypedDict, total=False):
    """The parameters of ``update``: the given fields change, the others stay. Each resource is a field."""

    cpu: float | str | None
    memory: float | str | None
    nic: float | str | None
    disk: float | str | None
    ports: Sequence[int] | None
    role: str | None
    cluster_masters: int | None
    labels: Mapping[str, str] | None
    machine: str | None
    move: bool
    ttl_s: float
    cancel_move: bool
    maxmemory: float | str | None
    limits: Mapping[str, float | str] | None
    expected: Mapping[str, float | str] | None
    swap_role_with: str
    selector: str | None
    prefer: Sequence[PreferenceFields] | None
    affinity: Sequence[AffinityFields] | None
    anti_affinity: Sequence[AffinityFields] | None
    tolerations: Sequence[TolerationFields] | None
    profile: str
    generation: int | None
    dry_run: bool


class ReleaseFields(TypedDict, total=False):
    machine: str
    generation: int | None
    failed: bool
    dry_run: bool


class CapacityFields(RequestFields, total=False):
    """The parameters of ``capacity``: those of a request; ``count``, ``top`` and ``explain`` have no effect."""

    by: str


class CordonFields(TypedDict, total=False):
    """The parameters of ``cordon`` and ``uncordon``."""

    machines: Sequence[str]
    selector: str
    ahead: bool
    dry_run: bool
    drain: DrainingFields | None


class DrainFields(TypedDict, total=False):
    machines: Sequence[str]
    selector: str
    consolidate: int
    profile: str
    profile_text: str
    same: Sequence[str]
    force: bool
    lost: bool
    apply: bool
    ttl_s: float
    again: bool


class PlanFields(TypedDict, total=False):
    instances: Required[Sequence[RequestFields]]
    profile: str
    profile_text: str
    prune: bool
    prune_labels: Mapping[str, str]
    release_last: bool
    records: bool


class RebalanceFields(TypedDict, total=False):
    """The parameters of ``rebalance``; all other settings are in the profile's ``[rebalance]``."""

    profile: str
    profile_text: str
    moves_max: int | None
    same: Sequence[str] | None
    settings: Mapping[str, int | float | bool | str | Sequence[str] | Mapping[str, int | float]]


class MachinesFields(TypedDict, total=False):
    """The parameters of ``machines``."""

    names: Sequence[str]
    labels: Mapping[str, str]
    profile: str
    window_s: int
    after: str
    limit: int


class RiskFields(TypedDict, total=False):
    within_s: float
    limit: float
    top: int


class InstancesFields(TypedDict, total=False):
    """The parameters of ``instances``; an instance must match all that are given."""

    id: str
    machine: str
    state: Literal["", "confirmed", "reserved"]
    cluster: str
    role: str
    kind: str
    labels: Mapping[str, str]
    selector: str
    after: str
    limit: int
    violations: bool


class PlaceFields(RequestFields, total=False):
    instances: Sequence[RequestFields]
    """Unlike requests, one an instance."""
