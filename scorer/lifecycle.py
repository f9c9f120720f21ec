"""Confirm, update, release: parameters in, one transition, an answer or an error in words."""

from __future__ import annotations

import math
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from schemas.request import InvalidRequest, Quantity, Request, read_amount
from schemas.resources import RESOURCES
from scorer.follow import Follower
from scorer.instance import Instance
from scorer.ledger import Candidate, Change, Ledger, Outcome, Transition, too_large
from scorer.placing import Conflict, limits
from scorer.profile import Profiles
from scorer.rank import rank
from scorer.rpc import CallError
from scorer.snapshot import Snapshot

Id = Annotated[str, Meta(min_length=1, max_length=253)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
ATTEMPTS_MAX = 10


class Confirm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``confirm``."""

    id: Id
    machine: str = ""
    """Where the caller believes it is; another place is an error."""
    started_at: Annotated[float, Meta(ge=0)] = 0.0
    """When it started, epoch seconds; 0: now."""
    dry_run: bool = False


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``release``."""

    id: Id
    machine: str = ""
    dry_run: bool = False


class Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of ``update``: what is given changes, the rest stays."""

    id: Id
    machine: str | None = None
    """Where it goes; "" chooses the best machine."""
    cpu: Quantity | None = None
    memory: Quantity | None = None
    nic: Quantity | None = None
    maxmemory: Quantity | None = None
    limits: dict[str, Quantity] | None = None
    expected: dict[str, Quantity] | None = None
    ports: tuple[Port, ...] | None = None
    role: str | None = None
    swap_role_with: str = ""
    """Another instance: the two exchange their roles in one step, as a failover does. The same call again is a repeat;
    the way back is the other's call, or this one with the ``role`` it is to have."""
    cluster_masters: Annotated[int, Meta(ge=0)] | None = None
    labels: dict[str, str] | None = None
    profile: str = ""
    dry_run: bool = False


def read_params(kind: type[Any], params: dict[str, Any]) -> Any:
    """Return the parameters; raise InvalidRequest naming the field."""
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        what, at, path = str(error).rpartition(" - at `$.")
        raise InvalidRequest(f"{path.rstrip('`')}: {what}" if at else str(error)) from None


def confirm(ledger: Ledger, follower: Follower, params: dict[str, Any]) -> dict[str, Any]:
    """Turn a reservation into an instance."""
    asked: Confirm = read_params(Confirm, params)
    transition = ledger.confirm(asked.id, machine=asked.machine, started_at=asked.started_at, dry_run=asked.dry_run)
    follower.absorb(transition)
    return _answer(transition, asked.id, "confirm", asked.dry_run)


def release(ledger: Ledger, follower: Follower, params: dict[str, Any]) -> dict[str, Any]:
    """End an instance or give a reservation back."""
    asked: Release = read_params(Release, params)
    transition = ledger.release(asked.id, machine=asked.machine, dry_run=asked.dry_run)
    follower.absorb(transition)
    return _answer(transition, asked.id, "release", asked.dry_run)


def update(
    ledger: Ledger,
    follower: Follower,
    params: dict[str, Any],
    snapshot: Snapshot,
    profiles: Profiles,
    now_s: float,
) -> dict[str, Any]:
    """Move, resize or change the role of a confirmed instance.

    A move and a growth are checked like a placement; a change of role is a fact and is not refused. The answer to a
    move has the terms of the ranking that chose the machine, as that of `place`.
    """
    asked: Update = read_params(Update, params)
    for _ in range(ATTEMPTS_MAX):
        old = _confirmed(ledger, follower, asked.id)
        change, terms = _change(old, asked, follower, snapshot, profiles, now_s)
        changes = [change]
        if asked.swap_role_with:
            changes = _swap(change, _confirmed(ledger, follower, asked.swap_role_with), asked.role)
        if all(_same(change) for change in changes):
            return _line(Outcome("repeat", old), asked.dry_run)
        transition = ledger.update(changes, dry_run=asked.dry_run)
        follower.absorb(transition)
        kind = transition.outcomes[0].kind
        if kind == "stale" or (kind == "conflict" and "changed" in transition.outcomes[0].reasons):
            continue
        if kind == "conflict":
            reason = _in_words(transition.outcomes[0].reasons)
            raise CallError("RESOURCE_EXHAUSTED", f"{asked.id!r} cannot be updated: {reason}")
        answer = _answer(transition, asked.id, "update", asked.dry_run)
        if answer["machine"] == old.machine:
            return answer | {"moved_from": None}
        return terms | answer | {"moved_from": old.machine}
    raise Conflict(f"{asked.id!r} was changed by others {ATTEMPTS_MAX} times")


def _confirmed(ledger: Ledger, follower: Follower, instance_id: str) -> Instance:
    record = follower.view.instances.get(instance_id) or ledger.find(instance_id)
    if record is None:
        raise CallError("NOT_FOUND", f"no instance {instance_id!r}")
    if record.state != "confirmed":
        raise CallError("FAILED_PRECONDITION", f"{instance_id!r} is {record.state}, not confirmed")
    return record


def _change(
    old: Instance, asked: Update, follower: Follower, snapshot: Snapshot, profiles: Profiles, now_s: float
) -> tuple[Change, dict[str, Any]]:
    """Return the change, and why it goes where it goes when it moves."""
    amounts = tuple(
        old.amounts[position] if getattr(asked, name) is None else read_amount(name, getattr(asked, name))
        for position, name in enumerate(RESOURCES)
    )
    given: dict[str, Any] = {"amounts": amounts}
    if asked.maxmemory is not None:
        given["maxmemory"] = read_amount("maxmemory", asked.maxmemory)
    for name in ("ports", "role", "cluster_masters", "labels"):
        if getattr(asked, name) is not None:
            given[name] = getattr(asked, name)
    for name in ("limits", "expected"):
        if (by_name := getattr(asked, name)) is not None:
            given[name] = _by_resource(name, by_name)
    if given.get("role", old.role) != old.role:
        given["swap"] = ()
    new = msgspec.structs.replace(old, **given)
    if large := too_large(new.amounts, new.maxmemory):
        raise InvalidRequest(f"{large}: more than can be counted")
    moves = asked.machine is not None and asked.machine != old.machine
    grows = [b > a for a, b in zip(old.amounts, new.amounts, strict=True)]
    if not moves:
        if not any(grows) and new.maxmemory <= old.maxmemory:
            return Change(old, new, [Candidate(old.machine, -1, (math.nan,) * len(RESOURCES))]), {}
        allowed = _limits(old, new, old.machine, asked, follower, snapshot, profiles, now_s)
        if allowed is None:
            raise CallError("RESOURCE_EXHAUSTED", f"machine {old.machine!r} is not known: its limits cannot be checked")
        amounts_limit = tuple(limit if grow else math.nan for limit, grow in zip(allowed[0], grows, strict=True))
        share = allowed[1] if new.maxmemory > old.maxmemory else math.nan
        return Change(old, new, [Candidate(old.machine, -1, amounts_limit, share)]), {}
    targets, terms = _targets(old, new, asked, follower, snapshot, profiles, now_s)
    return Change(old, new, targets), terms


def _as_request(new: Instance, machine: str) -> Request:
    def named(amounts: tuple[float, ...]) -> dict[str, float | str]:
        return {name: amount for name, amount in zip(RESOURCES, amounts, strict=False) if amount >= 0}

    cpu, memory, nic = new.amounts
    return Request(
        id=new.id, cpu=cpu, memory=memory, nic=nic, limits=named(new.limits), expected=named(new.expected),
        maxmemory=new.maxmemory, ports=new.ports, cluster=new.cluster, role=new.role,
        cluster_masters=new.cluster_masters, priority_class=cast(Any, new.priority_class),
        labels=new.labels, kind=new.kind,
        machine=machine,
    )  # fmt: skip


def _limits(
    old: Instance, new: Instance, machine: str, asked: Update, follower: Follower, snapshot: Snapshot,
    profiles: Profiles, now_s: float,
) -> tuple[tuple[float, ...], float, float] | None:  # fmt: skip
    row = snapshot.roster.index.get(machine)
    if row is None:
        return None
    request = _as_request(new, machine)
    ranking = rank(request, snapshot, follower.view, profiles.choose(asked.profile), now_s)
    return limits(ranking, [row], request)[0]


def _targets(
    old: Instance,
    new: Instance,
    asked: Update,
    follower: Follower,
    snapshot: Snapshot,
    profiles: Profiles,
    now_s: float,
) -> tuple[list[Candidate], dict[str, Any]]:
    """Rank the machines for the moved instance, with itself away from where it is; put the ranking into words."""
    request = _as_request(new, asked.machine or "")
    profile = profiles.choose(asked.profile)
    follower.view.forget(old.id)
    try:
        ranking = rank(request, snapshot, follower.view, profile, now_s)
        rows = [int(row) for row in ranking.best(8)]
        terms = ranking.answer()
    finally:
        follower.view.apply(old)
    candidates = []
    for row in rows:
        machine = ranking.machines.name(row)
        if asked.machine and machine != asked.machine:
            continue
        candidates.append(Candidate(machine, follower.version(machine), *limits(ranking, [row], request)[0]))
    if not candidates:
        why = "none of that name fits" if rows else terms["summary"]
        raise CallError("RESOURCE_EXHAUSTED", f"no machine for {old.id!r}: {why}")
    return candidates, terms


def _swap(change: Change, other: Instance, role: str | None) -> list[Change]:
    """Let the two exchange roles, unless they have done so by this very call or the first has the role asked for."""
    old, new = change.old, change.new
    if other.cluster != old.cluster or not old.cluster:
        raise CallError("FAILED_PRECONDITION", f"{other.id!r} is not of {old.id!r}'s cluster {old.cluster!r}")
    if other.id == old.id:
        raise InvalidRequest("swap_role_with: is the instance itself")
    pair = (old.id, other.id)
    if old.swap == other.swap == pair if role is None else role == old.role:
        return [change]
    if role not in (None, other.role):
        raise CallError("FAILED_PRECONDITION", f"role: {other.id!r} is {other.role!r}, not {role!r}")
    anywhere = Candidate(other.machine, -1, (math.nan,) * len(RESOURCES))
    return [
        Change(old, msgspec.structs.replace(new, role=other.role, swap=pair), change.candidates),
        Change(other, msgspec.structs.replace(other, role=old.role, swap=pair), [anywhere]),
    ]


def _same(change: Change) -> bool:
    return change.candidates[0].machine == change.old.machine and change.old == change.new


def _by_resource(name: str, given: dict[str, Quantity]) -> tuple[float, ...]:
    for resource in given:
        if resource not in RESOURCES:
            raise InvalidRequest(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
    amounts = tuple(read_amount(f"{name}.{r}", given[r]) if r in given else -1.0 for r in RESOURCES)
    return amounts if given else ()


def _answer(transition: Transition, instance_id: str, step: str, dry_run: bool) -> dict[str, Any]:
    """Return the record after a step, or raise what it was refused for."""
    outcome = transition.outcomes[0]
    record = outcome.instance
    if outcome.kind in ("done", "repeat") and record is not None:
        return _line(outcome, dry_run)
    if record is None:
        raise CallError("NOT_FOUND", f"no instance {instance_id!r}")
    if outcome.kind == "elsewhere":
        raise CallError("FAILED_PRECONDITION", f"{instance_id!r} is on {record.machine}")
    if outcome.kind == "reserved":
        raise CallError("FAILED_PRECONDITION", f"{instance_id!r} is reserved; confirm it before you {step} it")
    when = f" at {record.ended_at:.3f}" if record.ended_at else ""
    raise CallError("FAILED_PRECONDITION", f"{instance_id!r} has {record.state}{when}".replace("has r", "was r"))


def _line(outcome: Outcome, dry_run: bool) -> dict[str, Any]:
    record = outcome.instance
    assert record is not None
    shown: dict[str, Any] = msgspec.to_builtins(record)
    shown.pop("request", None)
    shown.pop("swap", None)
    return shown | {"repeated": outcome.kind == "repeat", "dry_run": dry_run}


def _in_words(reasons: str) -> str:
    words = []
    for reason in dict.fromkeys(reasons.split(",")):
        kind, _, number = reason.partition(" ")
        if kind == "amount":
            words.append(f"{RESOURCES[int(number) - 1]} too full")
        elif kind == "port":
            words.append(f"port {number} taken")
        else:
            words.append({"maxmemory": "maxmemory over its share", "masters": "too many masters"}.get(reason, reason))
    return ", ".join(words)
