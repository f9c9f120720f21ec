"""Filters and scores: what they look like, and every one there is.

A plugin is a frozen dataclass: its fields are its settings, with defaults, checked in ``__post_init__``. It is called
with the request and all machines at once and never changes either. The built-in ones stand in the tuples `FILTERS` of
`scorer.filters` and `SCORES` of `scorer.scores`; a package of your own adds more through the entry point groups
``windward.filters`` and ``windward.scores``. A complete one:

    # pyproject.toml of your package
    # [project.entry-points."windward.scores"]
    # least_crowded = "your_package:LeastCrowded"

    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    @dataclass(frozen=True)
    class LeastCrowded:
        '''Prefer machines with few instances: 100 for none, 0 for ``full`` and more.'''

        name: ClassVar[str] = "least_crowded"
        full: int = 50

        def __post_init__(self):
            if self.full < 1:
                raise ValueError(f"full: expected 1 or more, got {self.full}")

        def __call__(self, request, machines):
            return np.clip(100.0 * (1.0 - machines.count / self.full), 0.0, 100.0)

Optional members, each with a default (see `Filter` and `Score`): ``wanted`` (False: skipped, costs nothing), ``detail``
(the numbers behind one machine's verdict), ``reasons`` (refusals by reason), ``whole_fleet`` (True: a machine's value
depends on the others).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, runtime_checkable

from schemas.request import Request
from scorer.machines import Machines
from scorer.snapshot import Bools, Floats


@runtime_checkable
class Filter(Protocol):
    """Says of every machine whether the newcomer may go there.

    Optional members, beside ``whole_fleet: ClassVar[bool]``:

    ``wanted(request, machines) -> bool``: False skips the filter for this request.
    ``reasons(request, machines) -> Mapping[str, bool[n]]``: refused machines by reason, the first that holds counts.
    ``detail(request, machines, position) -> Mapping[str, Any]``: the numbers that were compared for one machine.
    """

    name: ClassVar[str]
    reason: ClassVar[str]
    """Why it refuses, as the end of "3 ...": ``stale``, ``cordoned``."""

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]: True where the newcomer may go."""


@runtime_checkable
class Score(Protocol):
    """Says of every machine how good a place it is, 0 to 100, higher is better.

    Optional members: ``wanted`` and ``detail`` as for a filter, and ``whole_fleet: ClassVar[bool]``.
    """

    name: ClassVar[str]

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n] in 0 to 100, finite."""


def wanted(plugin: Filter | Score, request: Request, machines: Machines) -> bool:
    """Return whether the plugin has anything to say to this request."""
    ask: Callable[[Request, Machines], bool] | None = getattr(plugin, "wanted", None)
    return True if ask is None else ask(request, machines)


def detail(plugin: Filter | Score, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
    """Return the numbers behind one machine's verdict."""
    ask: Callable[[Request, Machines, int], Mapping[str, Any]] | None = getattr(plugin, "detail", None)
    return {} if ask is None else ask(request, machines, position)


def reasons(plugin: Filter, request: Request, machines: Machines, allowed: Bools) -> Mapping[str, Bools]:
    """Return the refused machines by reason."""
    ask: Callable[[Request, Machines], Mapping[str, Bools]] | None = getattr(plugin, "reasons", None)
    return {plugin.reason: ~allowed} if ask is None else ask(request, machines)


def looks_at_fleet(plugin: Filter | Score | type[Filter] | type[Score]) -> bool:
    """Return whether a machine's value depends on the others."""
    return bool(getattr(plugin, "whole_fleet", False))


class PluginError(ValueError):
    """An entry point that is not a plugin; the message names it."""


@cache
def filters() -> Mapping[str, type[Filter]]:
    """Return every filter by name: built in and third party."""
    from scorer.filters import FILTERS

    return _with_entry_points("windward.filters", FILTERS)


@cache
def scores() -> Mapping[str, type[Score]]:
    """Return every score by name: built in and third party."""
    from scorer.scores import SCORES

    return _with_entry_points("windward.scores", SCORES)


def _with_entry_points(group: str, built_in: tuple[type[Any], ...]) -> Mapping[str, type[Any]]:
    """Return the built-in plugins and those of the group; a name cannot be taken twice."""
    found: dict[str, type[Any]] = {plugin.name: plugin for plugin in built_in}
    for point in entry_points(group=group):
        try:
            plugin = point.load()
        except Exception as error:
            raise PluginError(f"entry point {point.name} of {group} cannot be loaded: {error}") from error
        name = getattr(plugin, "name", None)
        if not inspect.isclass(plugin) or not isinstance(name, str) or not callable(plugin):
            raise PluginError(f"entry point {point.name} of {group} is no plugin: {point.value}")
        if name in found:
            raise PluginError(f"entry point {point.name} of {group}: the name {name!r} is taken")
        found[name] = plugin
    return found
