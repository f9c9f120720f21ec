"""The interface of filters and scores, and the list of all of them; `scorer.plugins` is what other packages import."""

import inspect
import logging
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, runtime_checkable

from schemas.rpc.request import Request
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.third_party import PluginError, guarded
from scorer.snapshot.arrays import Bools, Floats

log = logging.getLogger("windward.scorer")
log.addHandler(logging.NullHandler())  # else a command, which has no log, would print its lines raw


@runtime_checkable
class Filter(Protocol):
    """Decides for every machine whether it may take the requested instance.

    A filter of another package has ``__call__``; a built-in one is a C function (`scorer.ranking.plugin`). Optional
    members: ``wanted(request, machines) -> bool``: False skips the filter for this request. ``reasons(request,
    machines) -> Mapping[str, bool[n]]``: refused machines by reason, the first that holds counts. ``detail(request,
    machines, position) -> Mapping[str, Any]``: the numbers that were compared for one machine. ``limit(request,
    machines) -> Iterable[Limit]``: limits that must hold against other scorers, too. Between the ranking and the
    reservation another scorer may reserve; the reserve script compares these sums and counts once more
    (`scorer.ledger.record.limits`). Called only where ``wanted`` is True. ``momentary: ClassVar[bool]``: whether it
    refuses for a state that passes, as a cordon or a high load: new instances are kept away, those that are there stay.
    Without it False: ``windward plan`` moves an instance that the filter refuses where it is.
    """

    name: ClassVar[str]
    reason: ClassVar[str]
    """Why it refuses, as the end of "3 ...": ``stale``, ``cordoned``."""


@runtime_checkable
class Score(Protocol):
    """Rates every machine as a place for the instance, 0 to 100, higher is better.

    Optional members: ``wanted`` and ``detail`` as for a filter.
    """

    name: ClassVar[str]


def wanted(plugin: Any, request: Request, machines: Machines) -> bool:
    """Return whether the plugin must be called for this request."""
    ask: Callable[[Request, Machines], bool] | None = getattr(plugin, "wanted", None)
    return True if ask is None else ask(request, machines)


def detail(plugin: Any, said: Floats | None, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
    """Return the numbers behind one machine's verdict; ``said``: the output of a built-in plugin's C function."""
    if said is not None:
        found: Mapping[str, Any] = plugin.detail(said, request, machines, position)
        return found
    ask: Callable[[Request, Machines, int], Mapping[str, Any]] | None = getattr(plugin, "detail", None)
    return {} if ask is None else ask(request, machines, position)


def reasons(plugin: Any, request: Request, machines: Machines, allowed: Bools) -> Mapping[str, Bools]:
    """Return the machines that a filter of another package refuses, by reason."""
    ask: Callable[[Request, Machines], Mapping[str, Bools]] | None = getattr(plugin, "reasons", None)
    return {plugin.reason: ~allowed} if ask is None else {**ask(request, machines), plugin.reason: ~allowed}


def momentary(plugin: Any) -> bool:
    """Return whether a filter refuses because of a temporary state, so that instances may stay."""
    return bool(getattr(plugin, "momentary", False))


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
    """Return the built-in plugins and those of the group; raises where two have one name."""
    found: dict[str, type[Any]] = {plugin.name: plugin for plugin in built_in}
    for point in entry_points(group=group):
        try:
            plugin = point.load()
        except Exception as error:
            raise PluginError(f"entry point {point.name} of {group} cannot be loaded: {error}") from error
        if wrong := _wrong(plugin, group, found):
            raise PluginError(f"entry point {point.name} of {group}{wrong} ({point.value})")
        if ignored := [each for each in ("scope", "scope_for", "parts") if hasattr(plugin, each)]:
            log.warning("plugins.ignored", extra={"values": {"plugin": plugin.name, "members": ", ".join(ignored)}})
        found[plugin.name] = guarded(plugin, group.rpartition(".")[2].removesuffix("s"))
    return found


def _wrong(plugin: Any, group: str, found: Mapping[str, Any]) -> str:
    """Return why an entry point's value cannot be a plugin; "" where it can."""
    name = getattr(plugin, "name", None)
    if not inspect.isclass(plugin) or not isinstance(name, str):
        return " is no plugin"
    reason = getattr(plugin, "reason", None)
    checks = {
        f": the name {name!r} is taken": name not in found,
        ": expected @dataclass(frozen=True)": getattr(getattr(plugin, "__dataclass_params__", None), "frozen", False),
        ": expected a method __call__": any("__call__" in vars(kind) for kind in plugin.__mro__),
        ": expected momentary to be True or False": isinstance(getattr(plugin, "momentary", False), bool),
        ": expected a text `reason`": group.endswith("scores") or isinstance(reason, str),
    }
    return next((why for why, holds in checks.items() if not holds), "")
