"""The steps to the wanted instances; an instance and its wanted request compared, as parameters of an update. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from schemas.resources import RESOURCES, UNITS
from schemas.rpc.request import CHANGEABLE_FIELDS, KEPT_FIELDS, Request
from schemas.values.numbers import size
from scorer.ledger.record.instance import RULES, Instance, Rules, declared
from scorer.ledger.view.view import instance_of

NOT_MOVED = CHANGEABLE_FIELDS
"""Fields that a move leaves as they are: they change where the instance is, before it moves or while it does."""
CHANGEABLE = ("amounts", "maxmemory", *NOT_MOVED, "limits", "expected", "rules")
"""Fields that an update changes."""
FIXED = ("priority_class", *(name for name in KEPT_FIELDS if name not in CHANGEABLE_FIELDS))
"""Fields that only a new instance can have otherwise."""

_ONLY_NAMED = ("limits", "expected", "prefer", "affinity", "anti_affinity", "tolerations")
"""Parameters whose values are too long for one line."""


def as_wanted(old: Instance, request: Request) -> Instance:
    """Return the record that an instance would have if it met a request, on its present machine."""
    new = instance_of(request, old.machine, 0.0)
    return msgspec.structs.replace(old, **{name: getattr(new, name) for name in CHANGEABLE})


def changes(old: Instance, new: Instance) -> dict[str, Any]:
    """Return the parameters of the update that changes ``old`` to ``new``; amounts in base units, 0 for none."""
    found: dict[str, Any] = {}
    for name in CHANGEABLE:
        if getattr(old, name) == getattr(new, name):
            continue
        before, after = _plain(name, old), _plain(name, new)
        if before == after:
            continue
        if name == "amounts":
            found |= {r: b for r, a, b in zip(RESOURCES, before, after, strict=True) if a != b}
        elif name in ("limits", "expected"):
            found[name] = declared(after)
        elif name == "rules":
            found |= {rule: b for rule, a, b in zip(RULES, before, after, strict=True) if a != b}
        else:
            found[name] = after
    return found


def restoring(old: Instance, parameters: Iterable[str]) -> dict[str, Any]:
    """Return the parameters of the update that restores these fields of an instance.

    >>> one = Instance(id="a", machine="m", state="confirmed", amounts=(1.0, None, None, None), limits=(2.0, -1.0))
    >>> restoring(one, ["cpu", "memory", "limits", "selector", "role"])
    {'cpu': 1.0, 'memory': 0.0, 'limits': {'cpu': 2.0}, 'selector': '', 'role': ''}
    """
    found: dict[str, Any] = {}
    for name in parameters:
        if name in RESOURCES:
            found[name] = old.amounts[RESOURCES.index(name)] or 0.0
        elif name in ("limits", "expected"):
            found[name] = declared(getattr(old, name))
        else:
            found[name] = getattr(old.rules or Rules(), name) if name in RULES else getattr(old, name)
    return found


def fixed(old: Instance, request: Request) -> list[str]:
    """Return in words the changes that no update can make."""
    pairs = ((name, getattr(old, name), getattr(request, name)) for name in FIXED)
    return [f"{name} {before!r} is to be {after!r}" for name, before, after in pairs if before != after]


def in_words(old: Instance, new: Instance) -> str:
    """Return the changes as text; amounts by resource.

    >>> one = Instance(id="a", machine="m", state="confirmed", amounts=Request(cpu=1.0).amounts(), role="replica")
    >>> in_words(one, msgspec.structs.replace(one, amounts=Request(cpu=2.0, memory=1e9).amounts(), role="master"))
    'cpu 1 -> 2, memory 0 -> 1.0G, role replica -> master'
    """
    found = []
    for name, after in changes(old, new).items():
        if name in RESOURCES:
            before = old.amounts[RESOURCES.index(name)] or 0.0
            found.append(f"{name} {_amounts(before, after, in_bytes=UNITS[name].startswith('bytes'))}")
        elif name == "maxmemory":
            found.append(f"maxmemory {_amounts(old.maxmemory, after, in_bytes=True)}")
        elif name in _ONLY_NAMED:
            found.append(f"{name} changed")
        elif name == "selector":
            found.append(f"selector {(old.rules or Rules()).selector or '-'} -> {after or '-'}")
        else:
            found.append(f"{name} {_text(getattr(old, name))} -> {_text(after)}")
    return ", ".join(found)


def only_rules(parameters: Collection[str]) -> bool:
    """Return whether the parameters of an update change rules and nothing else.

    >>> only_rules(["selector"]), only_rules(["cpu", "selector"]), only_rules([])
    (True, False, False)
    """
    return bool(parameters) and set(parameters) <= set(RULES)


def grows(old: Instance, new: Instance) -> bool:
    """Return whether any amount or maxmemory rises, or a port is new."""
    more = any((b or 0.0) > (a or 0.0) for a, b in zip(old.amounts, new.amounts, strict=True))
    return more or new.maxmemory > old.maxmemory or bool({*new.ports} - {*old.ports})


def _plain(name: str, instance: Instance) -> Any:
    """Return a field's value for comparison: an amount of 0 is equal to none."""
    value = getattr(instance, name)
    if name == "amounts":
        return tuple(one or 0.0 for one in value)
    if name == "rules":
        return [msgspec.to_builtins(getattr(value or Rules(), rule)) for rule in RULES]
    return value if name not in ("limits", "expected") or any(one >= 0 for one in value) else ()


def _amounts(before: float, after: float, *, in_bytes: bool) -> str:
    """Return two amounts for people; with all digits where they would otherwise look equal."""
    words = size if in_bytes else "{:g}".format
    first, second = words(before), words(after)
    return f"{first} -> {second}" if first != second else f"{before} -> {after}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={each}" for key, each in value.items()) or "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value)) or "-"
    return f"{value:g}" if isinstance(value, float) else str(value) or "-"


Action = Literal["release", "change", "update", "move", "place", "refuse", "same", "cancel", "restore"]
"""The last two undo a move and a release: no plan has them, `scorer.commands.planning.carry_out.undo` has."""


@dataclass(frozen=True)
class Step:
    action: Action
    id: str
    source: str | None = None
    """Its machine; None for a new instance."""
    target: str | None = None
    """Its machine after the step; None when it is released or refused."""
    why: str = ""
    """The changes, or the reason of a refusal."""
    generation: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of an update, in base units."""
    request: Request | None = None
    """The request of the instance to place."""
    old: Instance | None = None
    """The record that it was decided on; None for a new instance."""


@dataclass(frozen=True)
class Wanted:
    """The steps in the order of execution, without those that change nothing."""

    steps: tuple[Step, ...]
    same: int
    """Instances that are as wanted."""
    others: int
    """Instances of the ledger that the file does not name and that are left alone."""

    def count(self, action: Action) -> int:
        return self.same if action == "same" else sum(step.action == action for step in self.steps)
