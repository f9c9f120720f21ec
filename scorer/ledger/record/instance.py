"""An instance as the ledger keeps it, and its JSON, the record.

In a record amounts are by resource name in whole units (`scorer.ledger.record.instance`); a name that is absent or null
was not given, which counts as 0 and is not the same as a 0 that was given:

    {"version":7,"generation":7,"state":"reserved","machine":"m1","reserved_at":1.0,...,"expires_at":301.0,"ended_at":0.0,
    "id":"a","amounts":{"cpu":500000,"memory":1000000000},"priority_class":"prod","counts":["port 6379"],"ports":[6379]}

The scripts write the first line, the scorer the rest (the tail). Unknown fields are ignored: a field that a later
release adds goes into the tail and needs no new format.

A moving instance has ``moving`` in the first line. It holds ``machine``, where it is confirmed, and the machine that it
moves to (`machines_of`, `arriving`). A move to another size has ``new``, the whole tail from the confirmation on. The
machine that the instance leaves holds the old amounts meanwhile, the one it moves to the new ones:

    "moving":{"to":"m2","since":1.0,"until":3601.0,"number":9,"new":{"id":"a","amounts":{"cpu":4000000},...}}
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.request import DECIMALS, KEPT_FIELDS, Affinity, KeptFields, Preference, Request, Toleration, too_much
from schemas.values.read_json import read_or

UNITS = {name: 10.0**decimals for name, decimals in DECIMALS.items()}
"""How many units make one base unit, by resource name and ``maxmemory``."""
SUMS = frozenset({*RESOURCES, "maxmemory", "instances"})
"""The sums that this release keeps for each machine; a newer one may keep more, under other names."""
RESOURCE_UNITS = tuple(UNITS[name] for name in RESOURCES)
COUNT_MAX = 2.0**53
"""The largest limit: larger whole numbers are not exact."""
NO_LIMIT = -1


def in_units(name: str, amount: float | None) -> int:
    """Return an amount, or a limit, in the ledger's units; NaN is no limit, None (not given) is 0.

    >>> in_units("cpu", 3.9), in_units("memory", 1.5e9), in_units("nic", float("nan")), in_units("cpu", None)
    (3900000, 1500000000, -1, 0)
    """
    return as_units(amount, UNITS[name])


def as_units(amount: float | None, units: float) -> int:
    """Return `in_units` of an amount whose base unit is this number of ``units``."""
    if amount is None:
        return 0
    if amount != amount:  # noqa: PLR0124 - NaN, at a third of the price of a call
        return NO_LIMIT
    counted = amount * units + 0.5
    return int(counted) if counted < COUNT_MAX else int(COUNT_MAX)


def too_large(amounts: Sequence[float | None], maxmemory: float) -> str:
    """Return the error for the first amount that the ledger cannot count exactly; "" without one.

    >>> too_large((2e9, *[0.0] * (len(RESOURCES) - 1)), 0.0)
    'cpu: at most 1,125,899,906 cores can be counted'
    """
    for name, amount in zip((*RESOURCES, "maxmemory"), (*amounts, maxmemory), strict=True):
        if large := too_much(name, amount or 0.0):
            return f"{name}: {large}"
    return ""


class KeptAffinity(Affinity, frozen=True, forbid_unknown_fields=False):
    """An affinity as a record has it."""


class KeptPreference(Preference, frozen=True, forbid_unknown_fields=False):
    """A preference as a record has it."""


class KeptToleration(Toleration, frozen=True, forbid_unknown_fields=False):
    """A toleration as a record has it."""


class Rules(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The machines that a request accepts or prefers; a later move must uphold them.

    A record has ``rules`` only where the request had any, so that the others cost nothing. Unlike in a request, unknown
    fields are ignored in a record: a newer release may have written it.
    """

    selector: str = ""
    prefer: tuple[KeptPreference, ...] = ()
    affinity: tuple[KeptAffinity, ...] = ()
    anti_affinity: tuple[KeptAffinity, ...] = ()
    tolerations: tuple[KeptToleration, ...] = ()


RULES = Rules.__struct_fields__
"""The fields of a request that are rules."""


def rules_of(request: Request) -> Rules | None:
    """Return the rules of a request; None where it has none.

    >>> rules_of(Request(cpu=1.0)), rules_of(Request(selector="disk=ssd"))
    (None, Rules(selector='disk=ssd', prefer=(), affinity=(), anti_affinity=(), tolerations=()))
    """
    if not (request.selector or request.tolerations or request.anti_affinity or request.affinity or request.prefer):
        return None
    return msgspec.convert({name: getattr(request, name) for name in RULES}, Rules, from_attributes=True)


def as_fields(rules: Rules | None) -> Mapping[str, Any]:
    return {} if rules is None else {name: getattr(rules, name) for name in RULES}


MOVABLE = "movable"
"""An instance whose label of this name is ``false`` is never moved."""
SHARD = "shard"
"""Members of a cluster exchange roles where their labels of this name are equal: a replica leads its own shard."""
DAEMON = "daemon"
"""An instance whose label of this name is ``true`` belongs to its machine and ends with it.

A machine with no other instances counts as empty.
"""
CLUSTER = "kubernetes"
"""The label with the Kubernetes cluster of an instance or machine. No query may set it."""
PODS = "kubernetes-pods"
"""The label with the number of pods that a machine takes."""
_OWN = "pod:"
"""Begins the ids that no query may give."""


def own_id(uid: str) -> str:
    """Return the id for a pod whose uid a deployer uses as the id of an instance.

    >>> own_id("3f1c")
    'pod:3f1c'
    """
    return _OWN + uid


def why_not_a_deployers(instance_id: str, labels: Mapping[str, str]) -> str:
    """Return why a query may not set this id, or these labels; "" where it may."""
    if instance_id.startswith(_OWN):
        return f"id: {instance_id!r} begins with {_OWN!r}, as only the ids of pods do: give another one"
    if CLUSTER in labels:
        return f"labels: {CLUSTER!r} is the mark of pods, which `windward pods` sets: give another name"
    return ""


State = Literal["reserved", "confirmed", "released", "expired"]
LIVE: tuple[State, ...] = ("reserved", "confirmed")
"""States that hold their amounts, ports and role; the scripts' `is_live`."""

_NOT_DECLARED = -1.0

if TYPE_CHECKING:
    Amounts = tuple[float | None, ...]
    Declared = tuple[float, ...]
else:

    class Amounts(tuple):
        """Base units in the order of `schemas.resources`; None where not given. A record has them by name."""

        __slots__ = ()

    class Declared(tuple):
        """Base units in the order of `schemas.resources`; -1 where not declared. A record has them by name."""

        __slots__ = ()


class Arrival(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The fields of an instance's record that a move can change, with their values on the target."""

    amounts: Amounts
    expected: Declared = ()
    limits: Declared = ()
    maxmemory: float = 0.0
    rules: Rules | None = None


class Moving(msgspec.Struct, frozen=True, gc=False):
    """A move of a confirmed instance, which also holds the machine ``to`` until the move is confirmed or ends."""

    to: str
    since: float
    until: float
    """When the move expires, epoch seconds: the instance then stays where it is."""
    number: int = 0
    """The ledger's change that began it: which move it is."""
    new: Arrival | None = None
    """The fields on the target; None: unchanged."""


CHANGED_BY_A_MOVE = Arrival.__struct_fields__
"""The fields of a record that a move can change."""


# without a request's largest sizes: a record is read whatever they were for its writer
_KINDS = [(name, kind, getattr(KeptFields(), name)) for name, kind in get_type_hints(KeptFields).items()]
if TYPE_CHECKING:
    _Kept = KeptFields
else:
    _Kept = msgspec.defstruct("_Kept", _KINDS, frozen=True, omit_defaults=True, kw_only=True, gc=False)


class Instance(_Kept, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """One instance. Amounts are in base units, one for each resource in the order of `schemas.resources`.

    Beside the fields here it has those of `schemas.rpc.request.KeptFields`, as in its request.
    Reserved and confirmed instances hold their amounts; the others are remembered for a day so that a repeated call
    gets the same answer.
    """

    id: str
    machine: str
    state: State
    amounts: Amounts
    """None where not given: counts as 0."""
    expected: Declared = ()
    """Expected usage by resource, -1 where not given; empty: by the profile's factors from ``amounts``."""
    limits: Declared = ()
    """Declared limits by resource, -1 where not declared; empty: none."""
    maxmemory: float = 0.0
    priority_class: Literal["prod", "mid", "batch", "free"] = "prod"
    reserved_at: float = 0.0
    started_at: float = 0.0
    """When it was confirmed to run; 0 before that, while its credit is full."""
    expires_at: float = 0.0
    ended_at: float = 0.0
    request: str = ""
    """Digest of the request it was placed for: a request with the same id and another digest is an error."""
    swap: tuple[str, ...] = ()
    """The two ids of its last exchange of roles, until its role changes otherwise: the same call again is a repeat."""
    swapped_at: float = 0.0
    """When that was."""
    version: int = 0
    """The ledger's change number of its last transition."""
    generation: int = 0
    """Which reservation of its id: the number of the change that made it; 0 before it is written."""
    rules: Rules | None = None
    """Where it may run, by its request; None: anywhere."""
    moving: Moving | None = None
    failed: bool = False
    """Whether it ended because its start failed on its machine."""


_Tail: Any = msgspec.defstruct(
    "_Tail",
    [
        ("id", str | None, None),
        ("amounts", dict[str, int] | None, None),
        ("priority_class", str | None, None),
        ("counts", list[str], []),
        ("expected", dict[str, int], {}),
        ("limits", dict[str, int], {}),
        ("maxmemory", int, 0),
        ("request", str, ""),
        ("swap", tuple[str, ...], ()),
        ("swapped_at", float, 0.0),
        ("rules", Rules | None, None),
        *_KINDS,
    ],
    omit_defaults=True,
)
"""The part of a record that the scripts pass on; what they read of it is in the header of ledger.lua.

Only the id is left out at times: amounts and class are never None.
"""

_kept = attrgetter(*KEPT_FIELDS)


def kept_of(request: KeptFields) -> dict[str, Any]:
    """Return the fields that a record takes unchanged from a request."""
    return dict(zip(KEPT_FIELDS, _kept(request), strict=True))


_NAMED = tuple(zip(RESOURCES, RESOURCE_UNITS, strict=True))
_MAXMEMORY_UNITS = UNITS["maxmemory"]


def _read_amounts(kind: Any, given: Any) -> Any:
    if not isinstance(given, dict):
        raise TypeError("amounts are no object")
    return _amounts_of(kind, tuple(given.items()))


@lru_cache(maxsize=4096)
def _amounts_of(kind: Any, items: tuple[tuple[str, Any], ...]) -> Any:
    """Return the amounts as an object that equal instances share, since most instances have few sizes."""
    given, missing = dict(items), None if kind is Amounts else _NOT_DECLARED
    if not all(amount is None or (type(amount) is int and 0 <= amount <= COUNT_MAX) for amount in given.values()):
        raise ValueError("an amount is no whole number that can be counted")
    return kind([missing if (amount := given.get(name)) is None else amount / units for name, units in _NAMED])


_encode = msgspec.json.Encoder().encode
read_record = msgspec.json.Decoder(Instance, dec_hook=_read_amounts).decode
"""Return the instance in a record. Raises one of `UNREADABLE`."""
UNREADABLE = (msgspec.DecodeError, ValueError, TypeError, RecursionError)
"""The errors of `read_record` for bytes that are no record."""

_Whole = Annotated[int, msgspec.Meta(ge=0, le=int(COUNT_MAX))]
_Time = Annotated[float, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Machine = Annotated[str, msgspec.Meta(pattern=r"^[!-~]+\Z")]


class _Held(msgspec.Struct, gc=False):
    counts: list[str] = []
    maxmemory: _Whole | None = None


class _Move(msgspec.Struct, kw_only=True, gc=False):
    to: _Machine
    new: _Held | msgspec.UnsetType = msgspec.UNSET
    number: _Whole = 0
    since: _Time
    until: _Time


class _Scripts(_Held, kw_only=True, gc=False):
    """What the scripts require of a record, beyond what a scorer does."""

    id: str
    machine: _Machine
    version: _Whole
    generation: _Whole
    reserved_at: _Time
    started_at: _Time
    expires_at: _Time
    ended_at: _Time
    moving: _Move | msgspec.UnsetType = msgspec.UNSET


def record_or_none(raw: bytes) -> Instance | None:
    """Return the record, None where it cannot be read."""
    try:
        return read_record(raw)
    except UNREADABLE:
        return None


def sound(name: bytes, raw: bytes) -> Instance | None:
    """Return the record that is stored under an id, None where scorers or scripts cannot read it."""
    record, found, lines = record_or_none(raw), read_or(raw, _Scripts, None), raw.split(b"\n")
    if record is None or found is None or record.id.encode() != name:
        return None
    if not found.moving or not found.moving.new:
        return record if len(lines) > 1 else None  # the scripts find each tail by its line
    there = record_or_none(b'{"machine":"m","state":"reserved",%b}' % lines[1]) if len(lines) > 3 else None
    alike = there is not None and (there.id, there.priority_class) == (record.id, record.priority_class)
    return record if alike else None


def of_builtins(fields: Mapping[str, Any]) -> Instance:
    """Return the instance of plain values, in base units, as `msgspec.to_builtins` gives them.

    >>> one = Instance(id="a", machine="m", state="reserved", amounts=(0.5, None), maxmemory=8.0)
    >>> of_builtins(msgspec.to_builtins(one)) == one
    True
    """
    return msgspec.convert(fields, Instance, dec_hook=lambda kind, given: kind(given))


def record_tail(instance: Instance, *, own: bool = True) -> bytes:
    """Return a record's tail: JSON without braces, on one line; not ``own``: without id and request."""
    return _encode(
        _Tail(
            instance.id if own else None,
            _by_name(instance.amounts),
            instance.priority_class,
            counts_of(instance),
            _by_name(instance.expected) if instance.expected else {},
            _by_name(instance.limits) if instance.limits else {},
            as_units(instance.maxmemory, _MAXMEMORY_UNITS),
            instance.request if own else "",
            instance.swap,
            instance.swapped_at,
            instance.rules,
            *_kept(instance),
        )
    )[1:-1]


def _by_name(amounts: Sequence[float | None]) -> dict[str, int]:
    return {
        name: int(amount * units + 0.5)
        for (name, units), amount in zip(_NAMED, amounts, strict=False)
        if amount is not None and amount >= 0
    }


def sums_of(instance: Instance) -> dict[str, int]:
    """Return the contribution of an instance to its machine's sums, in units, as the scripts read it.

    >>> sums_of(Instance(id="a", machine="m", state="reserved", amounts=(0.5, None), maxmemory=8.0))
    {'cpu': 500000, 'maxmemory': 8, 'instances': 1}
    """
    sums = _by_name(instance.amounts)
    sums["maxmemory"] = as_units(instance.maxmemory, _MAXMEMORY_UNITS)
    sums["instances"] = 1
    return sums


def counts_of(instance: Instance) -> list[str]:
    """Return the keys of the counts that include an instance on its machine: its ports, its role in its cluster.

    >>> shop = {"cluster": "shop", "role": "master"}
    >>> counts_of(Instance(id="a", machine="m", state="reserved", amounts=(), ports=(1,), **shop))
    ['port 1', 'role 4 shop master']
    """
    counts = [port_count(port) for port in instance.ports]
    if instance.cluster and instance.role:
        counts.append(role_count(instance.cluster, instance.role))
    return counts


def port_count(port: int) -> str:
    """Return the key of the count of instances with this port."""
    return f"port {port}"


def role_count(cluster: str, role: str) -> str:
    """Return the key of the count of a cluster's instances with a role; the length separates the two names."""
    return f"role {len(cluster)} {cluster} {role}"


def machines_of(instance: Instance) -> tuple[str, ...]:
    """Return the machines that a live instance holds: its own and, while it moves, its target."""
    moving = instance.moving
    return (instance.machine,) if moving is None else (instance.machine, moving.to)


def arriving(instance: Instance, moving: Moving) -> Instance:
    """Return a moving instance in the form of its reservation on the target."""
    return copy_with(
        with_arrival(instance), machine=moving.to, state="reserved", reserved_at=moving.since, started_at=0.0,
        expires_at=moving.until, moving=None,
    )  # fmt: skip


def with_arrival(instance: Instance) -> Instance:
    """Return the record as it will be after its move is confirmed, except for machine and times."""
    new = None if instance.moving is None else instance.moving.new
    return instance if new is None else copy_with(instance, **{name: getattr(new, name) for name in CHANGED_BY_A_MOVE})


def arrival(instance: Instance) -> Arrival:
    """Return the fields of a record that a move can change."""
    return Arrival(**{name: getattr(instance, name) for name in CHANGED_BY_A_MOVE})


def as_held(instance: Instance, machine: str) -> Instance:
    """Return a live instance in its form on one of the machines that it holds."""
    moving = instance.moving
    return instance if moving is None or machine == instance.machine else arriving(instance, moving)


def copy_with(instance: Instance, **changes: Any) -> Instance:
    return msgspec.structs.replace(instance, **changes)


def moved_to(instance: Instance, machine: str, now_s: float) -> Instance:
    """Return the instance as reserved on another machine."""
    return copy_with(instance, machine=machine, state="reserved", reserved_at=now_s, started_at=0.0)


def declared(amounts: Sequence[float]) -> dict[str, float]:
    """Return limits or an expected use of a record by resource, without the -1 of those that have none."""
    return {name: amount for name, amount in zip(RESOURCES, amounts, strict=False) if amount >= 0}


def as_request(instance: Instance, machine: str = "") -> Request:
    """Return the request of an instance, for one machine ("": any).

    Selector, affinity, anti-affinity, tolerations and preferences are those of its first request, or of a later update.
    """
    fields = {name: getattr(instance, name) for name in IN_BOTH}
    fields |= {name: amount for name, amount in zip(RESOURCES, instance.amounts, strict=True) if amount is not None}
    fields |= {name: declared(getattr(instance, name)) for name in ("limits", "expected")}
    fields["maxmemory"] = instance.maxmemory or _ANY.maxmemory  # encoding leaves out this very object alone
    return Request(**fields, **as_fields(instance.rules), machine=machine)


IN_BOTH = sorted(
    {*Request.__struct_fields__} & {*Instance.__struct_fields__} - {*RESOURCES, "limits", "expected", "machine"}
)
"""The fields that a request and its instance share."""


_ANY = Request()
_sorted = msgspec.json.Encoder(order="deterministic").encode


def request_digest(request: Request) -> str:
    """Return a digest that is equal for equal requests under one id; lifetime and output options are ignored.

    >>> request_digest(Request(cpu=1.0, top=3, ttl_s=9)) == request_digest(Request(cpu=1.0))
    True
    """
    plain = msgspec.structs.replace(request, top=_ANY.top, explain=False, dry_run=False, ttl_s=_ANY.ttl_s)
    return hashlib.blake2b(_sorted(plain), digest_size=9).hexdigest()
