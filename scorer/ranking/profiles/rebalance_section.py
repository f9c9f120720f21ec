"""The settings by which a profile rebalances: how a move is judged, what may move, and how much at once.

[rebalance]
rule = "overload"             # or "thresholds": the rules of Koordinator's LowNodeLoad
objective = "overload"        # expected load above the limit; or "variance" of the fleet's utilization
gain_min = 0.002              # least cut of a move above its cost: in machines of mean size, or in shares squared
high = { cpu = 65 }           # only a machine above any of these gives, in per cent; {}: any machine
low = { cpu = 45 }            # only a machine below all of these takes; {}: any machine
prod_high = {}                # the same for the usage by instances of class prod (rule "thresholds")
prod_low = {}
instances_full = 110          # so many are 100 % where a threshold names "instances" (rule "thresholds")
weights = { cpu = 1, memory = 1 }   # whole numbers: which machines and instances go first (rule "thresholds")
machines_min = 0              # nothing moves unless more machines than these are below low (rule "thresholds")
deviation = false             # true: distances from the mean of the fleet
rounds_over = 1               # a machine gives after more rounds in a row above than these; 1: at once
rounds_under = 3              # it stops after more rounds in a row below than these,
over_s = 60.0                 # or so long after it began
moves_max = 10                # moves of one plan
from_machine_max = 5          # moves from one machine, those of the last hour among them
to_machine_max = 5            # moves to one machine, likewise
cluster_max = 1               # instances of one cluster in a plan
hour_max = 0.005              # part of the instances that may move in an hour, but at least ten; 0: no limit
rest_s = 1800.0               # an instance placed or moved less long ago stays
classes = []                  # priority classes that may move; []: all
same = []                     # labels whose value source and target must share
nic_share = 0.5               # part of a NIC that the copy of a moving instance's memory may take
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from schemas.resources import PRIORITY_CLASSES, RESOURCES

Rule = Literal["overload", "thresholds"]
Objective = Literal["overload", "variance"]
Percents = Mapping[str, float]

INSTANCES = "instances"
"""What a threshold names for the number of instances on a machine."""
HOUR_MIN = 10
"""So many moves an hour are allowed in a fleet of any size."""
COUNT_MAX = 10_000
_TIME_MAX_S = 31 * 86_400.0
_COUNTS = ("moves_max", "from_machine_max", "to_machine_max", "cluster_max", "rounds_over", "instances_full")
"""Whole numbers of at least 1."""
_COUNTS_FROM_0 = ("rounds_under", "machines_min")
_THRESHOLDS = ("high", "low", "prod_high", "prod_low")


@dataclass(frozen=True)
class Rebalancing:
    """The table ``[rebalance]`` of a profile, with its defaults; a wrong value is a ValueError that names it."""

    name: ClassVar[str] = "rebalance"

    rule: Rule = "overload"
    objective: Objective = "overload"
    gain_min: float = 0.002
    high: Percents = field(default_factory=dict)
    low: Percents = field(default_factory=dict)
    prod_high: Percents = field(default_factory=dict)
    prod_low: Percents = field(default_factory=dict)
    instances_full: int = 110
    weights: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    machines_min: int = 0
    deviation: bool = False
    rounds_over: int = 1
    rounds_under: int = 3
    over_s: float = 60.0
    moves_max: int = 10
    from_machine_max: int = 5
    to_machine_max: int = 5
    cluster_max: int = 1
    hour_max: float = 0.005
    rest_s: float = 1800.0
    classes: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    nic_share: float = 0.5

    def __post_init__(self) -> None:
        for name in (*_COUNTS, *_COUNTS_FROM_0):
            least, value = int(name in _COUNTS), getattr(self, name)
            if not least <= value <= COUNT_MAX:
                raise ValueError(f"{name}: expected a whole number from {least} to {COUNT_MAX}, got {value}")
        for name in ("gain_min", "hour_max"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: expected a number from 0 to 1, got {getattr(self, name)}")
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
        if self.rule == "overload" and (self.prod_high or self.prod_low):
            raise ValueError('prod_high: prod_high and prod_low are of rule "thresholds"')
        if self.rule == "overload" and self.machines_min:
            raise ValueError('machines_min: it is of rule "thresholds"')
        if self.rule == "thresholds" and self.objective != "overload":
            raise ValueError('objective: "variance" is of rule "overload"')

    def with_given(self, given: Mapping[str, Any]) -> Rebalancing:
        """Return these settings with others in place of some; raises ValueError naming the one that is wrong.

        Another rule without thresholds of its own drops those of the rule before.
        """
        if given.get("rule", self.rule) != self.rule:
            left = {"deviation": False, "objective": "overload", "machines_min": 0}
            given = {**{name: {} for name in _THRESHOLDS}, **left, **given}
        return replace(self, **given)

    def in_hour(self, instances: int) -> int | None:
        """Return the most moves in an hour for a fleet of so many instances; None: no limit."""
        return max(HOUR_MIN, int(self.hour_max * instances)) if self.hour_max else None
