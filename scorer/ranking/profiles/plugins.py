"""The interface of filters and scores, and the list of all of them; `scorer.plugins` is what other packages import.

Plugins of other packages get read-only inputs, and their results are checked. The plugins of the scorer are held to the
same rules by the contract tests, so that a decision pays nothing for it. Nothing is known about other packages: a score
that wrote into a column would change what every later decision reads, and one that returns NaN would leave all machines
without a place.

Chosen: a class in front of the plugin's own, made once when its entry point is loaded. It has the same settings, and is
used by every caller. Rejected: checks at the eleven places that call a plugin.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from schemas.process.failures import Failure
from schemas.resources import PRIORITY_CLASSES
from schemas.rpc.request import InvalidRequest, Request
from scorer.ledger.record.instance import SUMS
from scorer.ledger.record.limits import Limit
from scorer.ranking.machines import Machines
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.rules import LabelColumn


class PluginError(Failure):
    """An entry point that is not a plugin, or a plugin that failed; the message names it."""


class ReadOnlyMachines:
    """`Machines` with read-only arrays; otherwise the same."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def __len__(self) -> int:
        return len(self._machines)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._machines, name)
        if callable(found) and not isinstance(found, Machines):
            return lambda *args: self._read_only(found(*args))
        return self._read_only(found)

    def _read_only(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return read_only(value)
        if isinstance(value, LabelColumn):
            return LabelColumn(value.values, read_only(value.codes))
        return ReadOnlyMachines(value) if isinstance(value, Machines) else value


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a read-only view of it."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def guarded(plugin: type[Any], kind: str) -> type[Any]:
    """Return the plugin's class (``kind``: ``filter`` or ``score``) with each method that the scorer calls guarded.

    Any exception except InvalidRequest becomes PluginError; so does an invalid result.
    """
    who = f"{kind} {plugin.name}"
    checks: dict[str, Callable[[Any, Machines, str], Any]] = {
        "__call__": verdicts if kind == "filter" else values,
        "limit": limits,
    }
    methods = {
        name: _guarded_method(getattr(plugin, name), name, who, checks.get(name))
        for name in ("__call__", "wanted", "detail", "reasons", "limit")
        if hasattr(plugin, name)
    }
    about = {"__doc__": plugin.__doc__, "__module__": plugin.__module__, "__qualname__": plugin.__qualname__}
    return type(plugin.__name__, (plugin,), {**about, **methods})


def _guarded_method(
    own: Callable[..., Any], name: str, who: str, check: Callable[[Any, Machines, str], Any] | None
) -> Callable[..., Any]:
    asked = who if name == "__call__" else f"{who}: {name}"

    def method(self: Any, request: Any, machines: Machines, *more: Any) -> Any:
        try:
            given = own(self, request, ReadOnlyMachines(machines), *more)
            given = list(given) if name == "limit" and isinstance(given, Iterable) else given  # runs a generator
        except (InvalidRequest, PluginError):
            raise
        except Exception as error:
            raise PluginError(f"{asked} failed: {type(error).__name__}: {error}") from error
        return given if check is None else check(given, machines, asked)

    return method


def verdicts(given: Any, machines: Machines, who: str) -> NDArray[np.bool_]:
    """Return a filter's result. Raises PluginError unless it is one bool for each machine."""
    if not isinstance(given, np.ndarray) or given.dtype != np.bool_ or given.shape != (len(machines),):
        raise PluginError(f"{who}: expected an array of bool [{len(machines)}], got {_shown(given)}")
    return given


def values(given: Any, machines: Machines, who: str) -> NDArray[np.float64]:
    """Return a score's result. Raises PluginError unless it is a number for each machine, finite where feasible.

    This is checked for whole fleets only, since some rows may no longer be feasible.
    """
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "fiub" or given.shape != (len(machines),):
        raise PluginError(f"{who}: expected an array of numbers [{len(machines)}], got {_shown(given)}")
    if machines.rows is None and not np.isfinite(given).all():
        wrong = np.flatnonzero(~np.isfinite(given) & machines.feasible)
        if wrong.size:
            at = int(wrong[0])
            raise PluginError(f"{who}: expected 0 to 100 for machine {machines.name(at)}, got {given[at]}")
    return given.astype(np.float64, copy=False)


def limits(given: Any, machines: Machines, who: str) -> list[Limit]:
    """Return the result of ``limit``. Raises PluginError for a measure that the ledger does not have."""
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(one, Limit) or not _is_measure(one.measure):
            sums = ", ".join(sorted(SUMS))
            raise PluginError(
                f"{who}: expected a Limit on a count, or on the total of one of {sums}; got {_shown(one)}"
            )
        most = one.most
        if np.shape(most) not in ((), (len(machines),)) or np.asarray(most).dtype.kind not in "fiu":
            raise PluginError(f"{who}: expected a number or an array [{len(machines)}], got {_shown(most)}")
    return list(given)


def _is_measure(measure: Any) -> bool:
    if not isinstance(measure, tuple) or len(measure) < 2 or not all(isinstance(part, str) for part in measure):
        return False
    if measure[0] == "count":
        return len(measure) == 2
    return measure[0] == "total" and measure[1] in SUMS and set(measure[2:]) <= set(PRIORITY_CLASSES)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    return f"{type(value).__name__} {str(value)[:80]}"


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
