"""Plugins of other packages: their inputs are read-only, and their results are checked.

The plugins of the scorer are held to the same rules by the contract tests, so that a decision pays nothing for it.
Nothing is known about other packages: a score that wrote into a column would change what every later decision reads,
and one that returns NaN would leave all machines without a place.

Chosen: a class in front of the plugin's own, made once when its entry point is loaded. It has the same settings, and is
used by every caller. Rejected: checks at the eleven places that call a plugin.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.process.failures import Failure
from schemas.resources import PRIORITY_CLASSES
from schemas.rpc.request import InvalidRequest
from scorer.ledger.record.instance import SUMS
from scorer.ledger.record.limits import Limit
from scorer.ranking.machines.machines import Machines
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
        seen = ReadOnlyMachines(machines)
        given = _called(asked, lambda: _listed(own(self, request, seen, *more), name))
        return given if check is None else check(given, machines, asked)

    return method


def _listed(given: Any, name: str) -> Any:
    """Return a result; a generator of limits is run to its end while the plugin is guarded."""
    return list(given) if name == "limit" and isinstance(given, Iterable) else given


def _called(who: str, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (InvalidRequest, PluginError):
        raise
    except Exception as error:
        raise PluginError(f"{who} failed: {type(error).__name__}: {error}") from error


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
