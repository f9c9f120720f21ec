"""The interface of filters and scores, and every one there is; `scorer.plugins` is what other packages import."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, runtime_checkable

from schemas.rpc.request import Request
from scorer.ledger.record.limits import Limit
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.third_party import PluginError, guarded
from scorer.ranking.scope import SCOPES, Parts, Scope
from scorer.snapshot.arrays import Bools, Floats


@runtime_checkable
class Filter(Protocol):
    """Says of every machine whether the requested instance may go there.

    Optional members:

    ``scope: ClassVar[Scope]``: what a machine's value depends on (`scorer.ranking.scope`); without it ``instances``.
    Instances are placed in a row without a new ranking for each only by plugins of scope ``machine`` or ``means``. With
    scope ``instances`` that holds in one batch. ``scope_for(request, machines) -> Scope``: a narrower scope for this
    request, as long as nothing but instances like the requested instance are placed. ``wanted(request, machines) ->
    bool``: False skips the filter for this request. ``reasons(request, machines) -> Mapping[str, bool[n]]``: refused
    machines by reason, the first that holds counts. ``detail(request, machines, position) -> Mapping[str, Any]``: the
    numbers that were compared for one machine. ``limit(request, machines) -> Iterable[Limit]``: what must hold against
    other scorers, too. Between the ranking and the reservation another scorer may reserve; the reserve script compares
    these sums and counts once more (`scorer.ledger.record.limits`). Asked only where ``wanted`` is True.
    ``momentary: ClassVar[bool]``: whether it refuses for a state that passes, as a cordon or a high load: new instances
    are kept away, those that are there stay. Without it False: ``windward plan`` moves an instance that the filter
    refuses where it is.
    """

    name: ClassVar[str]
    reason: ClassVar[str]
    """Why it refuses, as the end of "3 ...": ``stale``, ``cordoned``."""

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]: True where the requested instance may go."""


@runtime_checkable
class Score(Protocol):
    """Says of every machine how good a place it is, 0 to 100, higher is better.

    Optional members: ``scope``, ``scope_for``, ``wanted`` and ``detail`` as for a filter, and
    ``parts(machines) -> Parts``, which a score of scope ``means`` has.
    """

    name: ClassVar[str]

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n] in 0 to 100, finite."""


Wanted = Callable[[Request, Machines], bool]
"""Whether a plugin is to be called for a request."""


def always(request: Request, machines: Machines) -> bool:
    """Return True: a plugin without a method ``wanted`` is always called."""
    return True


def wanted_of(plugin: Filter | Score) -> Wanted:
    """Return the plugin's method ``wanted``, `always` where it has none."""
    ask: Wanted = getattr(plugin, "wanted", always)
    return ask


def wanted(plugin: Filter | Score, request: Request, machines: Machines) -> bool:
    """Return whether the plugin is to be called for this request."""
    return wanted_of(plugin)(request, machines)


def detail(plugin: Filter | Score, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
    """Return the numbers behind one machine's verdict."""
    ask: Callable[[Request, Machines, int], Mapping[str, Any]] | None = getattr(plugin, "detail", None)
    return {} if ask is None else ask(request, machines, position)


def has_reasons(plugin: Filter) -> bool:
    """Return whether a filter tells refused machines apart by reason."""
    return hasattr(plugin, "reasons")


def reasons(plugin: Filter, request: Request, machines: Machines, allowed: Bools) -> Mapping[str, Bools]:
    """Return the refused machines by reason."""
    ask: Callable[[Request, Machines], Mapping[str, Bools]] | None = getattr(plugin, "reasons", None)
    return {plugin.reason: ~allowed} if ask is None else ask(request, machines)


def limits(plugin: Filter, request: Request, machines: Machines) -> Iterable[Limit]:
    """Return the limits of a filter that the ledger must uphold for this request."""
    ask: Callable[[Request, Machines], Iterable[Limit]] | None = getattr(plugin, "limit", None)
    return () if ask is None or not wanted(plugin, request, machines) else ask(request, machines)


def momentary(plugin: Filter) -> bool:
    """Return whether a filter refuses for a state that passes: instances that are there stay."""
    return bool(getattr(plugin, "momentary", False))


def declared_scope(plugin: Filter | Score | type[Filter] | type[Score]) -> Scope:
    """Return the scope of the plugin for any request: what a machine's value depends on."""
    scope: Scope = getattr(plugin, "scope", "instances")
    return scope


def scope_for(plugin: Filter | Score, request: Request, machines: Machines) -> Scope:
    """Return the scope of the plugin while only instances like the requested one are placed."""
    ask: Callable[[Request, Machines], Scope] | None = getattr(plugin, "scope_for", None)
    return declared_scope(plugin) if ask is None else ask(request, machines)


def looks_at_fleet(plugin: Filter | Score | type[Filter] | type[Score]) -> bool:
    """Return whether a machine's value depends on the others."""
    return declared_scope(plugin) in ("means", "fleet")


def parts(plugin: Score, machines: Machines) -> Parts:
    """Return the parts of a score of scope ``means``."""
    taken: Parts = plugin.parts(machines)  # type: ignore[attr-defined]
    return taken


@cache
def filters() -> Mapping[str, type[Filter]]:
    """Return every filter by name: built in and third party."""
    from scorer.ranking.filters import FILTERS

    return _with_entry_points("windward.filters", FILTERS)


@cache
def scores() -> Mapping[str, type[Score]]:
    """Return every score by name: built in and third party."""
    from scorer.ranking.scores import SCORES

    return _with_entry_points("windward.scores", SCORES)


def _with_entry_points(group: str, built_in: tuple[type[Any], ...]) -> Mapping[str, type[Any]]:
    """Return the built-in plugins and those of the group; a name cannot be taken twice."""
    found: dict[str, type[Any]] = {plugin.name: plugin for plugin in built_in}
    for point in entry_points(group=group):
        try:
            plugin = point.load()
        except Exception as error:
            raise PluginError(f"entry point {point.name} of {group} cannot be loaded: {error}") from error
        if wrong := _wrong(plugin, group, found):
            raise PluginError(f"entry point {point.name} of {group}{wrong} ({point.value})")
        found[plugin.name] = guarded(plugin, group.rpartition(".")[2].removesuffix("s"))
    return found


def _wrong(plugin: Any, group: str, found: Mapping[str, Any]) -> str:
    """Return why an entry point's value cannot be a plugin; "" where it can."""
    name = getattr(plugin, "name", None)
    if not inspect.isclass(plugin) or not isinstance(name, str):
        return " is no plugin"
    scope, reason = getattr(plugin, "scope", SCOPES[0]), getattr(plugin, "reason", None)
    checks = {
        f": scope {scope!r} is none of {', '.join(SCOPES)}": scope in SCOPES,
        f": the name {name!r} is taken": name not in found,
        ": expected @dataclass(frozen=True)": getattr(getattr(plugin, "__dataclass_params__", None), "frozen", False),
        ": expected a method __call__": any("__call__" in vars(kind) for kind in plugin.__mro__),
        ": expected momentary to be True or False": isinstance(getattr(plugin, "momentary", False), bool),
        ": expected a text `reason`": group.endswith("scores") or isinstance(reason, str),
    }
    return next((why for why, holds in checks.items() if not holds), "")
