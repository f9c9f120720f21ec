"""The metrics of a process as a table: one line each in a class, in a registry of every object's own.

    class Metrics(Table):
        rounds = counter("windward_planner_rounds", "Rounds, by result", result=("planned", "failed"))

A label is a keyword, its values those that are known: they begin at 0. The increase of a counter that first appears
with its first event would not show that event. Without known values a label is ``()``. A name may have ``{}`` in place
of the process, where several processes share the row.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info


class _Row:
    """A metric that each `Table` makes for itself."""

    def __init__(self, kind: Callable[..., Any], name: str, about: str, /, **labels: Iterable[str]) -> None:
        self._make, self._name, self._rest = kind, name, (about, [*labels])
        self._values = [tuple(values) for values in labels.values()]

    def made(self, registry: CollectorRegistry, process: str) -> Any:
        """Return the metric of a process in a registry, with its known labels."""
        found = self._make(self._name.format(process), *self._rest, registry=registry)
        for values in product(*self._values) if self._values else ():
            found.labels(*values)
        return found


def counter(name: str, about: str, /, **labels: Iterable[str]) -> Counter:
    row: Any = _Row(Counter, name, about, **labels)
    return row  # type: ignore[no-any-return]


def gauge(name: str, about: str, /, **labels: Iterable[str]) -> Gauge:
    row: Any = _Row(Gauge, name, about, **labels)
    return row  # type: ignore[no-any-return]


def histogram(name: str, about: str, buckets: Iterable[float], /, **labels: Iterable[str]) -> Histogram:
    row: Any = _Row(partial(Histogram, buckets=tuple(buckets)), name, about, **labels)
    return row  # type: ignore[no-any-return]


class Table:
    """Metrics by attribute, and the version of the process as ``windward_<process>_build``."""

    PROCESS = ""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        for kind in reversed(type(self).__mro__):
            for name, row in vars(kind).items():
                if isinstance(row, _Row):
                    setattr(self, name, row.made(self.registry, self.PROCESS))
        Info(f"windward_{self.PROCESS}_build", "Version of this process", registry=self.registry).info(
            {"version": version}
        )
