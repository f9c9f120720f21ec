"""Usage threshold: usage with the requested instance stays below a share of allocatable, by resource."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.resources import OPTIONAL, PRIORITY_CLASSES, RESOURCES
from scorer.ranking.formulas.allocation import INTEGER_UNITS
from scorer.ranking.kernel.layout import R, struct
from scorer.ranking.plugin import (
    MISSING,
    Detail,
    Floats,
    Machines,
    Plugin,
    Request,
    ResourceName,
    Statistic,
    Thresholds,
    as_column,
    by_resource,
    check_thresholds,
    number_of,
)
from scorer.snapshot.rules import MachineRules


@dataclass(frozen=True)
class UsageThreshold(Plugin):
    """Refuse machines where ``usage + expected > threshold * allocatable`` in any resource.

    ``usage`` includes the credits of placed instances, ``expected`` is the requested instance's. A resource without a
    threshold, with one of 0, or without allocatable is not compared.

    Every threshold that is given is compared, each with its own usage; to add one takes no other away.

    thresholds, by_class:
        by resource, of the mean; in the second for requests of a priority class, in place of the first for its
        resources: batch may stop at .8 where services go to .9.
    percentile_thresholds, statistic:
        of a percentile (``p50 p90 p95 p99``) or the maximum.
    prod_thresholds, prod_with_system:
        for a request of class prod, of the measured usage by class prod: as samples split it, else the sum over the
        instances that are prod in the ledger; with the second, plus the system's.
    instead:
        as the peer does: only the first group that is given is compared, of prod, percentiles and means in this order.
        A group of zeros is given, and switches the others off.
    An operator's threshold of a machine replaces that of its group for its resource, there; with ``instead`` the whole
    group.

    The peer's (Koordinator LoadAwareScheduling) checks, in its order, are switched on by:

    expiration_s:
        0: age is not compared (use the filter `fresh`). Else data of this age is refused, or passes with
        ``pass_expired``; a machine without any threshold passes before that.
    missing:
        without data for the statistic: ``refuse``; ``pass``; ``estimates`` or ``mean``: pass without any data. Where
        only this statistic is missing, ``estimates`` counts those of all instances placed, as the peer does for a
        window of a given length. ``mean`` counts the mean, as the peer does without one.
    rounding:
        compare whole percents, rounded half away from zero, of whole millicores and bytes.
    optional:
        resources that a machine need not report: compared where it does, or where the instance is expected to use them.
    """

    name = "usage_threshold"
    reason = "over threshold"
    momentary = True
    struct = struct(
        thresholds=("f8", (len(PRIORITY_CLASSES), R)), percentiles=("f8", R), prod=("f8", R), units=("f8", R),
        expiration_s="f8", has_percentiles="i4", has_prod="i4", statistic="i4", with_system="i4", pass_expired="i4",  # noqa: S106
        missing="i4", rounding="i4", plain="i4", instead="i4", optional=("?", R),
    )  # fmt: skip

    thresholds: Thresholds = field(default_factory=dict)
    by_class: Mapping[str, Thresholds] = field(default_factory=dict)
    percentile_thresholds: Thresholds = field(default_factory=dict)
    statistic: Statistic = "p95"
    prod_thresholds: Thresholds = field(default_factory=dict)
    prod_with_system: bool = False
    instead: bool = False
    expiration_s: float = 0.0
    pass_expired: bool = False
    missing: Literal["refuse", "pass", "estimates", "mean"] = "refuse"
    rounding: bool = False
    optional: tuple[ResourceName, ...] = OPTIONAL

    def __post_init__(self) -> None:
        for name in ("thresholds", "percentile_thresholds", "prod_thresholds"):
            check_thresholds(name, getattr(self, name))
        for name, given in self.by_class.items():
            if name not in PRIORITY_CLASSES:
                raise ValueError(f"by_class: no class {name!r}; there are {', '.join(PRIORITY_CLASSES)}")
            check_thresholds(f"by_class.{name}", given)
        if not self.expiration_s >= 0:
            raise ValueError(f"expiration_s: expected zero or more, got {self.expiration_s}")

    def wanted(self, request: Request, machines: Machines) -> bool:
        rules = machines.rules
        own = (self.thresholds, *self.by_class.values(), self.percentile_thresholds, self.prod_thresholds)
        of_operators = rules.has_thresholds or rules.has_prod_thresholds or rules.has_percentile_thresholds
        return of_operators or any(any(given.values()) for given in own)

    def compares(self) -> Sequence[tuple[str, str]]:
        alone = ", and nothing else of this filter" if self.instead else ""
        groups = (
            (self.prod_thresholds, f"of a request of class prod{alone}: used by prod"),
            (self.percentile_thresholds, f"used ({self.statistic})"),
            *((given, f"of a request of class {name}: used (mean)") for name, given in self.by_class.items()),
            (self.thresholds, "used (mean)"),
        )
        found: list[tuple[str, str]] = []
        for given, what in groups:
            found += [(name, f"{what} at most {limit:g} of allocatable") for name, limit in given.items() if limit > 0]
            if self.instead and given and given is self.percentile_thresholds:
                break
        return found

    @property
    def reasons(self) -> Sequence[str]:
        """Name the first resource that is over its threshold; the last reason is for old data."""
        whys = ("usage by prod unknown", "usage unknown", "used by prod over threshold", "used over threshold")
        return [*(f"{name} {why}" for name in RESOURCES for why in whys), "stale"]

    def needs(self, rules: MachineRules) -> frozenset[str]:
        """Return ``statistics`` where a percentile is compared, and ``prod`` where the usage of class prod is."""
        percentiles = (self.percentile_thresholds or rules.has_percentile_thresholds) and self.statistic != "mean"
        prod = self.prod_thresholds or rules.has_prod_thresholds
        return frozenset([*(["statistics"] if percentiles else []), *(["prod"] if prod else [])])

    def derived(self) -> dict[str, Any]:
        of_classes = [{**self.thresholds, **self.by_class.get(name, {})} for name in PRIORITY_CLASSES]
        return {
            "thresholds": [as_column(given)[:, 0] for given in of_classes],
            "percentiles": self.percentile_thresholds,
            "prod": self.prod_thresholds,
            "units": INTEGER_UNITS[:, 0],
            "has_percentiles": bool(self.percentile_thresholds),
            "has_prod": bool(self.prod_thresholds),
            "statistic": number_of(self.statistic),
            "with_system": self.prod_with_system,
            "missing": MISSING[self.missing],
            "plain": not (self.rounding or self.expiration_s or self.missing != "refuse"),
        }

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        """Show both sides of each comparison, as shares of allocatable, and which usage it is if not the mean."""
        threshold = {name: value for name, value in by_resource(said, 1).items() if value}
        groups = {name: (None, self.statistic, "prod")[int(group or 0)] for name, group in by_resource(said, 2).items()}
        others = {name: group for name, group in groups.items() if group and name in threshold}
        return {**({"usage_of": others} if others else {}), "usage": by_resource(said, 0), "threshold": threshold}
