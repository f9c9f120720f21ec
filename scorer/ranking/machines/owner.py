"""The owner of what is kept (`scorer.ranking.machines.kept`): a plugin with its settings, or a part of the scorer."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar


class Owner:
    """The owner of a kept value: a plugin's type with its settings, or a part of the scorer.

    Equal owners are one object, so that a look-up compares no settings: there are 40 look-ups in a decision.
    """

    __slots__ = ("__weakref__", "kind", "settings")
    kind: type[Any] | str
    settings: Hashable
    _all: ClassVar[weakref.WeakValueDictionary[Hashable, Owner]] = weakref.WeakValueDictionary()

    def __new__(cls, kind: type[Any] | str, settings: Hashable = ()) -> Owner:
        """Return the owner of this kind and these settings."""
        owner = cls._all.get((kind, settings))
        if owner is None:
            owner = super().__new__(cls)
            owner.kind, owner.settings = kind, settings
            owner = cls._all.setdefault((kind, settings), owner)
        return owner


class _Same:
    """Compares one object by identity, when its value cannot be compared."""

    def __init__(self, of: object) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def owner_of(plugin: object) -> Owner:
    """Return the owner of the values that a plugin keeps: its type and its settings, by value."""
    if not dataclasses.is_dataclass(plugin):
        return Owner(type(plugin), _Same(plugin))
    each = ((setting.name, _frozen(getattr(plugin, setting.name))) for setting in dataclasses.fields(plugin))
    return Owner(type(plugin), tuple(each))


def _frozen(value: Any) -> Hashable:
    """Return a hashable value that is equal for equal settings."""
    if isinstance(value, Mapping):
        return (Mapping, frozenset((_frozen(key), _frozen(of)) for key, of in value.items()))
    if isinstance(value, list | tuple):
        return (type(value), tuple(map(_frozen, value)))
    if isinstance(value, set | frozenset):
        return (frozenset, frozenset(map(_frozen, value)))
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return (type(value), value)
