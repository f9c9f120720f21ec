"""The base of the built-in filters and scores: a dataclass of settings, and one C function of one machine's row.

``NAME.c`` beside a plugin's file has the function. A filter returns 0, or the number of its reason; a score its value.
The loops over all machines, a batch and the explanation of one machine call the same function. It reads the row, the
request, the plugin's settings as a struct, and *columns*: numbers of each machine that depend on the request and stand
in no row, as labels and tallies do.

A plugin of another package needs no base and no C: `scorer.ranking.profiles.plugins` says what it has instead.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from schemas.values.numbers import finite
from scorer.ranking.kernel.layout import NONE, PLAIN, STATISTICS
from scorer.ranking.machines import Machines
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.rules import MachineRules

__all__ = ["Bools", "Detail", "Floats", "Machines", "Plugin", "Request", "by_resource"]

Shown: TypeAlias = "str | float | Sequence[Shown] | Mapping[str, Shown] | None"
Detail = Mapping[str, Shown]
"""The numbers behind one machine's verdict, by name, as an explanation shows them."""
_R = len(RESOURCES)


class Plugin:
    """The interface of built-in filters and scores, in addition to their settings."""

    name: ClassVar[str]
    reason: ClassVar[str]
    """For a filter with a single reason: that reason."""
    momentary: ClassVar[bool] = False
    looks_at: ClassVar[Sequence[str]] = ()
    """The fields of a request that nothing else in a profile upholds (`scorer.ranking.profiles.profile`)."""
    struct: ClassVar[np.dtype[Any]] = NONE
    """The settings as the C function reads them."""

    @property
    def reasons(self) -> Sequence[str]:
        """The reasons by number, from 1."""
        return (self.reason,)

    @property
    def inner(self) -> int:
        """For a score: how its values become 0 to 100 (`scorer.ranking.kernel.layout`).

        ``OF_MEANS`` where its function reads ``q->fleet_mean``, in which the values must be linear.
        """
        return PLAIN

    def needs(self, rules: MachineRules) -> frozenset[str]:
        """Return the optional parts of a row that the plugin reads: ``statistics``, ``prod``, ``classes``."""
        return frozenset()

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Return whether the plugin applies to this request."""
        return True

    def settings(self) -> NDArray[Any]:
        """Return the settings as a value of ``struct``: each field has the setting of its name, unless it is `derived`.

        What a setting gives by resource is an array [R], and so are some resources by name.
        """
        found, derived = np.zeros((), self.struct), self.derived()
        for name in () if self.struct is NONE else self.struct.fields or ():
            value = derived[name] if name in derived else getattr(self, name)
            if isinstance(value, Mapping):
                value = [value.get(each, 0.0) for each in RESOURCES]
            elif isinstance(value, tuple):
                value = [each in value for each in RESOURCES]
            found[name] = value
        return found

    def derived(self) -> dict[str, Any]:
        """Return the fields of ``struct`` that are no settings of the same name."""
        return {}

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        """Return columns [n] that the C function reads as ``x``."""
        return ()

    def own(self, request: Request, machines: Machines) -> Sequence[float]:
        """Return the contribution of an instance like the requested one to its machine's columns; none: 0."""
        return ()

    def far(self, request: Request, machines: Machines) -> bool:
        """Return whether one more instance changes the columns of other machines, too."""
        return False

    def compares(self) -> Sequence[tuple[str, str]]:
        """Return the comparisons of a filter in words: for each a resource, and the sentence."""
        return ()

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        """Return the numbers behind one machine's verdict; ``said``: the output of the C function.

        An unknown number is None in an answer, not NaN: `schemas.values.numbers.finite`.
        """
        return {}


def by_resource(said: Floats, place: int, names: Sequence[str] = RESOURCES) -> Mapping[str, float | None]:
    """Return numbers by resource, from a place counted in groups of R; only for some resources."""
    every = dict(zip(RESOURCES, map(finite, said[place * _R : (place + 1) * _R].tolist()), strict=True))
    return every if names is RESOURCES else {name: every[name] for name in names}


if TYPE_CHECKING:
    ResourceName = str
else:
    ResourceName = Literal[RESOURCES]
    """One of the resources: a profile that names another is refused."""


Statistic = Literal["mean", "p50", "p90", "p95", "p99", "max"]
MISSING = {"refuse": 0, "zero": 0, "pass": 1, "estimates": 2, "mean": 3}
"""What counts where a statistic is missing, by its number in the C functions.

``estimates`` does as Koordinator: a percentile over a window less than half covered counts as missing, and the
estimates of all instances placed count instead. With ``mean`` the mean counts. Without any measurement nothing does.
"""


def number_of(statistic: Statistic) -> int:
    """Return the number by which C functions know a statistic; -1 for the mean."""
    return -1 if statistic == "mean" else STATISTICS.index(statistic)


Thresholds = Mapping[str, float]


def check_thresholds(name: str, thresholds: Thresholds) -> None:
    """Raise ValueError for an unknown resource or a share outside 0-1."""
    for resource, value in thresholds.items():
        if resource not in RESOURCES:
            raise ValueError(f"{name}: no resource {resource!r}; there are {', '.join(RESOURCES)}")
        if not 0 <= value <= 1:
            raise ValueError(f"{name}.{resource}: expected a share from 0 to 1, got {value}")


def as_column(given: Thresholds, absent: float = 0.0) -> Floats:
    """Return [R, 1] in the order of the resources; without a threshold 0."""
    return np.array([[given.get(resource, absent)] for resource in RESOURCES])
