"""Profiles: named sets of filters and weighted scores that run together. `profile_file` reads one.

``total = Σ weight * score / Σ weight``, so it stays between 0 and 100.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import msgspec

from schemas.rpc.request import Affinity, InvalidRequest, Request
from schemas.tables.learned import Learned
from scorer.ranking.estimates.estimate import Estimate, LearnedEstimate
from scorer.ranking.kernel.binding import Pinned, plugin_number, use_of_profile
from scorer.ranking.kernel.layout import AS_IT_IS, CODE, FOREIGN, GIVEN, MIN_MAX, PLAIN
from scorer.ranking.plugin import Plugin as BuiltIn
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.snapshot.rules import MachineRules
from scorer.snapshot.snapshot import LONGEST_COVERED

CreditModel = Literal["window", "trimaran-60s", "koordinator-pending", "none"]
StalePolicy = Literal["last-known", "refuse", "requests"]
Ties = Literal["name", "draw"]
Normalisation = Literal["none", "min-max", "rank"]
Plugin = TypeVar("Plugin")
RULES_MAX = 32
_HOW = {"none": AS_IT_IS, "min-max": MIN_MAX, "rank": GIVEN}


@dataclass(frozen=True)
class ProfileRule:
    """One entry of ``[[rules]]``: a term of ``anti_affinity`` for each request that has all fields of its group.

    [[rules]]
    group = ["cluster", "role"]           # the fields or labels that its members have in common
    topology = "rack"                     # or "machine"
    at_most = 3                           # or share = 0.5, or skew = 1
    """

    name: ClassVar[str] = "a rule"

    group: tuple[str, ...] = ("cluster",)
    topology: str = "machine"
    at_most: int = 0
    share: float = 0.0
    skew: int = 0

    def __post_init__(self) -> None:
        if not all(self.group):
            raise ValueError("group: expected names of fields or labels, such as cluster")
        if not self.topology:
            raise ValueError("topology: expected machine, or a label of machines")
        for name in ("at_most", "share", "skew"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected a number of zero or more, got {getattr(self, name)}")
        if self.share > 1:
            raise ValueError(f"share: expected at most 1, got {self.share}")
        if (self.at_most > 0) + (self.share > 0) + (self.skew > 0) != 1:
            raise ValueError("a rule has one limit: at_most, share or skew")

    def terms(self, request: Request) -> list[Affinity]:
        """Return the rule as a term for the group of a request; none where the request names no such group."""
        fields = {"cluster": request.cluster, "role": request.role, "kind": request.kind}
        group = {name: fields.get(name) or request.labels.get(name, "") for name in self.group}
        if not (group and all(group.values())):
            return []
        return [Affinity(group, self.topology, max(self.at_most - 1, 0), self.share, self.skew)]


def with_rules(rules: tuple[ProfileRule, ...], request: Request) -> Request:
    """Return a request with the rules of its profile that are about it, besides its own."""
    terms = [term for rule in rules for term in rule.terms(request) if term not in request.anti_affinity]
    return msgspec.structs.replace(request, anti_affinity=(*request.anti_affinity, *terms)) if terms else request


class ProfileError(ValueError):
    """A profile that cannot be used; the message is one line and names file, line and field."""


@dataclass(frozen=True)
class LoadModel:
    """The window, credits and estimate by which the load is computed."""

    window: int | Literal["longest-covered", "shortest"] = "longest-covered"
    credits: CreditModel = "window"
    debits: bool = False
    """Whether the load of leavers is subtracted from the windows (``kernel/making.h``)."""
    estimate: Estimate = field(default_factory=Estimate)
    learned: bool = False
    """Whether the learned share of the request is the estimate, for resources without a factor in the profile."""

    def estimate_with(self, learned: Learned | None) -> Estimate:
        """Return the estimate in force, given the learned use (None: there is none)."""
        return LearnedEstimate.of_learned(self.estimate, learned) if self.learned and learned else self.estimate

    def window_s(self, kept: Sequence[int]) -> int:
        """Return which length of ``kept`` (ascending) to use: the given one, else the next shorter, or the shortest."""
        if self.window == "longest-covered" or not kept:
            return LONGEST_COVERED
        if self.window == "shortest":
            return kept[0]
        return max((window_s for window_s in kept if window_s <= self.window), default=kept[0])


@dataclass(frozen=True)
class PlacedFilter:
    filter: Any
    load_model: LoadModel | None = None
    """None: as the profile's."""

    @cached_property
    def compiled(self) -> "Compiled":
        """The filter's C function."""
        return compiled(self.filter, is_score=False)


@dataclass(frozen=True)
class WeightedScore:
    score: Any
    weight: float = 1.0
    normalise: Normalisation = "none"
    load_model: LoadModel | None = None
    """None: as the profile's."""

    @cached_property
    def compiled(self) -> "Compiled":
        """The score's C function."""
        return compiled(self.score, is_score=True)


class Compiled(NamedTuple):
    """The C function of a plugin, and its inputs that are the same for every request."""

    number: int
    """`FOREIGN` for a plugin of another package, which has none."""
    settings: Pinned | None
    reasons: Sequence[str]
    """The reasons of a filter, by number from 1."""
    inner: int
    """Of a score: what its values are made of."""
    wanted: Callable[[Request, Any], bool] | None
    """Whether it applies to a request on these machines; None: to all."""
    reads: bool
    """Whether it reads columns, or more of them after one more instance."""


def compiled(plugin: Any, *, is_score: bool) -> Compiled:
    if not isinstance(plugin, BuiltIn):
        wanted, reason = getattr(plugin, "wanted", None), getattr(plugin, "reason", "")
        return Compiled(FOREIGN, None, (reason,), PLAIN, wanted, reads=False)
    number, size = plugin_number(plugin.name, is_score=is_score)
    assert number >= 0, f"{plugin.name} has no C function"
    assert size == plugin.struct.itemsize, f"{plugin.name}: its settings are another struct in C"
    own = {name for name in ("wanted", "columns", "far") if getattr(type(plugin), name) is not getattr(BuiltIn, name)}
    wanted, reads = plugin.wanted if "wanted" in own else None, not own.isdisjoint(("columns", "far"))
    reasons = () if is_score else plugin.reasons
    return Compiled(number, Pinned(plugin.settings()), reasons, plugin.inner, wanted, reads)


@dataclass(frozen=True)
class Profile:
    """The filters in their order, the scores with their weights, and the settings that they share."""

    name: str
    description: str = ""
    load_model: LoadModel = field(default_factory=LoadModel)
    stale: StalePolicy = "last-known"
    """How machines are ranked while the pipeline is silent (`scorer.ranking.staleness`)."""
    stale_s: float = 60.0
    ties: Ties = "name"
    """Which of equally good machines is chosen: the first by ``name``, or one by a ``draw`` for each instance."""
    filters: tuple[PlacedFilter, ...] = ()
    scores: tuple[WeightedScore, ...] = ()
    rules: tuple[ProfileRule, ...] = ()
    survive: str = ""
    """``machine``, or a label of machines: room is kept for the loss of any one (`scorer.ranking.survive`)."""
    rebalance: Rebalancing = field(default_factory=Rebalancing)

    @cached_property
    def filter_uses(self) -> list[tuple[PlacedFilter, int, bytes]]:
        """Each filter with its code in `Ranking.refused`, and the part of its use that every request shares."""
        codes = range(CODE, CODE * len(self.filters) + 1, CODE)
        uses = (use_of_profile(*one.compiled[:2], code=code) for one, code in zip(self.filters, codes, strict=True))
        return list(zip(self.filters, codes, uses, strict=True))

    @cached_property
    def score_uses(self) -> list[tuple[WeightedScore, bytes]]:
        """Each score that has a weight, and the part of its use that every request shares."""
        found = []
        for each in self.scores:
            number, settings, _, inner, *_ = each.compiled
            fixed = use_of_profile(number, settings, inner=inner, how=_HOW[each.normalise], weight=each.weight)
            found += [(each, fixed)] if each.weight > 0 else []
        return found

    @cached_property
    def load_models(self) -> tuple[LoadModel, ...]:
        """Its load model and those of its plugins, each once."""
        own = (*(each.load_model for each in self.filters), *(each.load_model for each in self.scores))
        return tuple({id(one): one for one in (self.load_model, *filter(None, own))}.values())

    @cached_property
    def limiting(self) -> list[PlacedFilter]:
        """The filters whose limits the ledger must uphold for requests to which they apply."""
        return [each for each in self.filters if hasattr(each.filter, "limit")]

    @cached_property
    def built_in(self) -> bool:
        """Whether no filter or score is of another package."""
        return all(isinstance(plugin, BuiltIn) for plugin in self.all_of(object))

    def needs(self, rules: MachineRules) -> frozenset[str]:
        """Return the optional parts of a row that its filters and scores read."""
        return frozenset().union(*(plugin.needs(rules) for plugin in self._needy))

    @cached_property
    def _needy(self) -> list[BuiltIn]:
        """Its plugins that read optional parts of a row, under some rules at least."""
        return [plugin for plugin in self.all_of(BuiltIn) if type(plugin).needs is not BuiltIn.needs]

    @cached_property
    def ignores(self) -> Mapping[str, str]:
        """The fields of a request that none of its filters and scores checks, each with a plugin that would."""
        from scorer.ranking.filters import FILTERS
        from scorer.ranking.scores import SCORES

        here = {field for plugin in self.all_of(object) for field in getattr(plugin, "looks_at", ())}
        return {field: one.name for one in (*FILTERS, *SCORES) for field in one.looks_at if field not in here}

    @cached_property
    def time_zone(self) -> str:
        """The time zone of days, as set in its filter of daily peaks."""
        return next((zone for each in self.filters if (zone := getattr(each.filter, "time_zone", ""))), "UTC")

    def all_of(self, kind: type[Plugin]) -> list[Plugin]:
        """Return the filters and scores of one class, with their settings."""
        own = (*(each.filter for each in self.filters), *(each.score for each in self.scores))
        return [plugin for plugin in own if isinstance(plugin, kind)]

    def find(self, kind: type[Plugin]) -> Plugin | None:
        """Return the first filter or score of one class; None where the profile does not use it."""
        return next(iter(self.all_of(kind)), None)

    def effective(self) -> dict[str, Any]:
        """Return every setting in force, as data for JSON."""
        return {
            "name": self.name,
            "description": self.description,
            **_load_model_settings(self.load_model),
            "stale": self.stale,
            "stale_s": self.stale_s,
            "ties": self.ties,
            "rules": [_settings(each) for each in self.rules],
            "survive": self.survive,
            "rebalance": _settings(self.rebalance),
            "filters": [_entry(each.filter, each.load_model) for each in self.filters],
            "scores": [
                _entry(each.score, each.load_model, weight=each.weight, normalise=each.normalise)
                for each in self.scores
            ],
        }


def _entry(plugin: Any, load_model: LoadModel | None, **more: Any) -> dict[str, Any]:
    return {"use": plugin.name, **more, **(_load_model_settings(load_model) if load_model else {}), **_settings(plugin)}


def _settings(plugin: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(dataclasses.asdict(plugin)))


def _load_model_settings(load_model: LoadModel) -> dict[str, Any]:
    settings = dataclasses.asdict(load_model)
    return settings | {"estimate": {k: v for k, v in settings["estimate"].items() if v is not None}}


DEMANDS = ("machine", "not_on", "selector", "ports", "affinity", "anti_affinity")
"""Fields of a request that restrict where an instance may go: those that no filter of the profile looks at are refused.

Fields that describe an instance, such as ``maxmemory`` and ``cluster_masters``, may be given to any profile; so may
preferences. A query is refused before it is ranked. A plan for instances of the ledger refuses nothing: one whose rules
the profile does not look at gets no other machine, and is told with this reason (`scorer.placement.choosing.trial`).
Pods that kube-scheduler places are ranked by any profile: it upholds their rules itself (`scorer.kubernetes.extender`).
"""


def why_ignored(request: Request, profile: Profile) -> str:
    """Return the demand of a request that the profile does not check; "" without one."""
    ignores = profile.ignores
    for name in DEMANDS if ignores else ():
        if name in ignores and getattr(request, name):
            missing = f"profile {profile.name!r} has no filter {ignores[name]!r}, and would ignore it"
            return f"{name}: {missing}; add the filter to the profile, or leave {name} out"
    return ""


def check_looked_at(requests: Sequence[Request], profile: Profile) -> None:
    """Raise InvalidRequest for the first request with a demand that the profile does not check."""
    for request in requests if profile.ignores else ():
        if why := why_ignored(request, profile):
            raise InvalidRequest(why)
