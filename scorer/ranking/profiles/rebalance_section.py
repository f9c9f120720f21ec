"""The settings by which a profile rebalances: how moves are rated, which instances may move, and how many at once.

[rebalance]
rule = "overload"
high = { cpu = 65 }
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from schemas.resources import PRIORITY_CLASSES, RESOURCES

Rule = Literal["overload", "thresholds", "repair"]
Percents = Mapping[str, float]

INSTANCES = "instances"
"""The name that stands for the number of instances on a machine, in thresholds."""
HOUR_MIN = 10
"""So many moves an hour are allowed in a fleet of any size."""
COUNT_MAX = 10_000
_TIME_MAX_S = 31 * 86_400.0
_COUNTS = ("moves_max", "from_machine_max", "to_machine_max", "cluster_max", "rounds_over", "instances_full")
"""Whole numbers of at least 1."""
_COUNTS_FROM_0 = ("rounds_under", "machines_min")
_THRESHOLDS = ("high", "low", "prod_high", "prod_low")


def told(default: Any, help: str, **more: str) -> Any:  # noqa: A002
    """Declare a setting with its meaning, for the profile and for the flags of commands."""
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata={"help": help, **more})
    return field(default=default, metadata={"help": help, **more})


def percents(help: str) -> Any:  # noqa: A002
    """Declare thresholds, in per cent by resource."""
    return told({}, help, metavar="RESOURCE=PERCENT")


@dataclass(frozen=True)
class Rebalancing:
    """The table ``[rebalance]`` of a profile, with its defaults; a wrong value is a ValueError that names it.

    Rule ``thresholds`` is Koordinator's LowNodeLoad, ``repair`` mends broken rules.
    """

    name: ClassVar[str] = "rebalance"

    rule: Rule = told("overload", "how the machines that give instances are chosen")
    gain_min: float = told(0.002, "least gain of a move above its cost, in machines of mean size")
    high: Percents = percents("a machine above any of these gives, in per cent; none: any machine")
    low: Percents = percents("a machine below all of these takes, in per cent; none: any machine")
    prod_high: Percents = percents("with rule thresholds: the same as high, of the usage by class prod")
    prod_low: Percents = percents("with rule thresholds: the same as low, of the usage by class prod")
    instances_full: int = told(110, 'with rule thresholds: so many are 100 % where one names "instances"')
    weights: Mapping[str, int] = told({"cpu": 1, "memory": 1}, "with rule thresholds: what goes first, by resource")
    machines_min: int = told(0, "with rule thresholds: nothing moves unless more machines than these are below low")
    deviation: bool = told(False, "high and low are distances from the mean of the fleet")
    rounds_over: int = told(1, "a machine gives after more rounds in a row above than these; 1: at once")
    rounds_under: int = told(3, "it stops giving after more rounds in a row below than these")
    over_s: float = told(60.0, "it stops giving so long after it began, too")
    moves_max: int = told(10, "moves of one plan at most")
    from_machine_max: int = told(5, "from one machine in an hour at most")
    to_machine_max: int = told(5, "to one machine in an hour at most")
    cluster_max: int = told(1, "of one cluster in a plan at most")
    hour_max: float = told(
        0.005, "part of the instances that may move in an hour, ten in any fleet; 0: no limit", metavar="SHARE"
    )
    rest_s: float = told(1800.0, "an instance placed or moved less long ago stays")
    classes: tuple[str, ...] = told((), "priority classes that may move; none: all", metavar="CLASS")
    same: tuple[str, ...] = told((), "labels whose value source and target must share", metavar="LABEL")
    roles: bool = told(False, "let two members exchange their roles where that is enough, before one moves: no copy")
    nic_share: float = told(0.5, "part of a NIC that a copy may take")

    def __post_init__(self) -> None:
        for name in (*_COUNTS, *_COUNTS_FROM_0):
            least, value = int(name in _COUNTS), getattr(self, name)
            if not least <= value <= COUNT_MAX:
                raise ValueError(f"{name}: expected a whole number from {least} to {COUNT_MAX}, got {value}")
        for name in ("gain_min", "hour_max"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                hint = f"; for {value:g} % write {value / 100:g}" if 1 < value <= 100 else ""
                raise ValueError(f"{name}: expected a share from 0 to 1, got {value:g}{hint}")
        if not 0 < self.nic_share <= 1:
            raise ValueError(f"nic_share: expected a share above 0, at most 1, got {self.nic_share}")
        for name in ("rest_s", "over_s"):
            if not 0 <= getattr(self, name) <= _TIME_MAX_S:
                raise ValueError(f"{name}: expected from 0 to {_TIME_MAX_S:g} seconds, got {getattr(self, name)}")
        for name in self.classes:
            if name not in PRIORITY_CLASSES:
                raise ValueError(f"classes: no class {name!r}; there are {', '.join(PRIORITY_CLASSES)}")
        if not all(self.same):
            raise ValueError("same: expected names of labels, got an empty one")
        self._check_resources()
        self._check_thresholds()

    def _check_resources(self) -> None:
        known = (*RESOURCES, INSTANCES) if self.rule == "thresholds" else RESOURCES
        for field_name in (*_THRESHOLDS, "weights"):
            for name, value in getattr(self, field_name).items():
                if name not in known:
                    raise ValueError(f"{field_name}: no resource {name!r}; there are {', '.join(known)}")
                if field_name != "weights" and not 0 <= value <= 100:
                    raise ValueError(f"{field_name}.{name}: expected a percentage from 0 to 100, got {value:g}")
                if field_name != "weights" and 0 < value < 1 and not self.deviation:
                    raise ValueError(
                        f"{field_name}.{name}: expected per cent, got {value:g}; for a share of {value:g} write "
                        f"{100 * value:g}"
                    )
                if not 0 <= value <= COUNT_MAX:
                    raise ValueError(f"weights.{name}: expected a whole number from 0 to {COUNT_MAX}, got {value}")

    def _check_thresholds(self) -> None:
        for high, low in (("high", "low"), ("prod_high", "prod_low")):
            highs, lows = getattr(self, high), getattr(self, low)
            if self.rule == "thresholds" and highs.keys() != lows.keys():
                raise ValueError(f"{high}: {high} and {low} name the same resources")
            for name in highs.keys() & lows.keys():
                if not self.deviation and lows[name] > highs[name]:
                    raise ValueError(f"{low}.{name}: expected at most {highs[name]:g}, its {high}, got {lows[name]:g}")
        if self.rule == "thresholds" and not (self.high or self.prod_high):
            raise ValueError('high: rule "thresholds" needs high and low, in per cent by resource')
        if self.rule == "repair" and (self.high or self.low):
            raise ValueError('high: rule "repair" knows no thresholds')
        if self.rule != "thresholds" and (self.prod_high or self.prod_low):
            raise ValueError('prod_high: prod_high and prod_low are of rule "thresholds"')
        if self.rule != "thresholds" and self.machines_min:
            raise ValueError('machines_min: it is of rule "thresholds"')

    def with_given(self, given: Mapping[str, Any]) -> "Rebalancing":
        """Return these settings with some replaced; raises ValueError naming a wrong one.

        A new rule without thresholds of its own drops those of the former rule.
        """
        if given.get("rule", self.rule) != self.rule:
            left = {"deviation": False, "machines_min": 0}
            given = {**{name: {} for name in _THRESHOLDS}, **left, **given}
        return replace(self, **given)

    def in_hour(self, instances: int) -> int | None:
        """Return the maximum number of moves in an hour for a fleet of so many instances; None: no limit."""
        return max(HOUR_MIN, int(self.hour_max * instances)) if self.hour_max else None
