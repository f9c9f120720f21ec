"""A plugin of another package: it cannot change what it is given, and what it returns is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from schemas.rpc.request import InvalidRequest
from scorer.ledger.record.limits import Limit, in_role, on_port, total
from scorer.ledger.view.view import instance_of
from scorer.placement.offers.offer import limits
from scorer.ranking.profiles.profile import PlacedFilter, Profile, WeightedScore
from scorer.ranking.profiles.third_party import PluginError, guarded
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from scorer.ranking.scores.least_allocated import LeastAllocated
from scorer.ranking.tables import Tables
from tests.scorer.fleets import fleet, machine, request

FLEET = fleet(machine("a"), machine("b"), machine("c"), instances=[{"id": "1", "machine": "a", "cpu": 1}])
"""Three machines; no decision may change it."""


def score(of: Callable[[Any, Any], Any], **members: Any) -> Any:
    """Return a score of another package that returns what the function does."""

    @dataclass(frozen=True)
    class Other:
        name: ClassVar[str] = "other"

        def __call__(self, request: Any, machines: Any) -> Any:
            return of(request, machines)

    for name, member in members.items():
        setattr(Other, name, member)
    return guarded(Other, "score")()


def filtered(of: Callable[[Any, Any], Any], **members: Any) -> Any:
    """Return a filter of another package likewise."""

    @dataclass(frozen=True)
    class Other:
        name: ClassVar[str] = "other"
        reason: ClassVar[str] = "of another mind"

        def __call__(self, request: Any, machines: Any) -> Any:
            return of(request, machines)

    for name, member in members.items():
        setattr(Other, name, member)
    return guarded(Other, "filter")()


def ranked(plugin: Any, kept: Tables | None = None) -> Ranking:
    """Return the ranking of the three machines by this plugin."""
    if hasattr(plugin, "reason"):
        profile = Profile("p", filters=(PlacedFilter(plugin),))
    else:
        profile = Profile("p", scores=(WeightedScore(plugin),))
    return rank(request(cpu=1), FLEET.inputs(profile, kept))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "score other: expected an array of numbers [3], got NoneType None"),
        (50.0, "score other: expected an array of numbers [3], got float 50.0"),
        ([50.0] * 3, "score other: expected an array of numbers [3], got list [50.0, 50.0, 50.0]"),
        (np.zeros(2), "score other: expected an array of numbers [3], got an array of float64 [2]"),
        (np.zeros((3, 3)), "score other: expected an array of numbers [3], got an array of float64 [3, 3]"),
        (np.full(3, 1j), "score other: expected an array of numbers [3], got an array of complex128 [3]"),
        (np.array([1.0, np.nan, 1.0]), "score other: expected 0 to 100 for machine b, got nan"),
        (np.array([1.0, 1.0, np.inf]), "score other: expected 0 to 100 for machine c, got inf"),
    ],
)
def test_a_score_that_cannot_be_used_is_refused_by_name(given: Any, message: str) -> None:
    """The error names the plugin, what was expected and what came; nothing is placed by it."""
    with pytest.raises(PluginError) as caught:
        ranked(score(lambda r, m: given))
    assert str(caught.value) == message


@pytest.mark.parametrize("given", [np.array([3, 2, 1]), np.array([True, False, False]), np.array([3.0, 2.0, 1.0])])
def test_any_numbers_are_a_score(given: Any) -> None:
    """Whole numbers and yes or no are numbers, too."""
    assert ranked(score(lambda r, m: given)).best_first.tolist() == [0, 1, 2]


@pytest.mark.parametrize("given", [None, True, [True] * 3, np.ones(3), np.full(3, np.nan), np.ones(2, np.bool_)])
def test_a_filter_gives_one_yes_or_no_for_each_machine(given: Any) -> None:
    """Numbers, of which NaN would pass, are refused by name."""
    with pytest.raises(PluginError, match=r"filter other: expected an array of bool \[3\], got "):
        ranked(filtered(lambda r, m: given))


def test_a_score_need_not_know_of_machines_that_are_refused() -> None:
    """NaN of a machine that a filter refused lowers nothing."""
    only_a = filtered(lambda r, m: np.array([True, False, False]))
    profile = Profile(
        "p", filters=(PlacedFilter(only_a),), scores=(WeightedScore(score(lambda r, m: np.array([5.0, np.nan, 1.0]))),)
    )
    found = rank(request(cpu=1), FLEET.inputs(profile))
    assert found.best_first.tolist() == [0]


COLUMNS = (
    "count", "allocated", "mean", "capacity", "std", "utilization", "credit", "seen_at", "amounts", "expected",
    "coverage", "cordon", "feasible",
)  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_no_column_can_be_written(name: str) -> None:
    """A plugin that writes into a column is told so, and the next decision is as it was."""
    kept, least = Tables(), LeastAllocated()
    before = ranked(least, kept).total.tolist()

    def writes(asked: Any, machines: Any) -> Any:
        getattr(machines, name)[...] = 0
        return np.zeros(3)

    with pytest.raises(PluginError, match=r"score other failed: ValueError: .*read-only"):
        ranked(score(writes), kept)
    assert ranked(least, kept).total.tolist() == before
    assert getattr(FLEET.ledger, "position", None) == FLEET.ledger.position


@pytest.mark.parametrize(
    "take",
    [
        lambda m: m.percentile(95),
        lambda m: m.peak("today"),
        lambda m: m.tally(frozenset()),
        lambda m: m.take(np.array([0, 1])).allocated,
        lambda m: m.whole.count,
        lambda m: m.rule("thresholds"),
        lambda m: m.label("machine").codes,
    ],
)
def test_nothing_that_a_method_gives_can_be_written(take: Callable[[Any], Any]) -> None:
    """Neither can what is read by a method, of some machines or of all."""

    def writes(asked: Any, machines: Any) -> Any:
        take(machines)[...] = 0
        return np.zeros(3)

    with pytest.raises(PluginError, match="read-only"):
        ranked(score(writes))


@pytest.mark.parametrize("name", ["derived", "constant", "recent", "of_snapshot", "of_fleet", "once", "plain"])
def test_what_kept_values_says_what_to_write_instead(name: str) -> None:
    """A plugin written for an older version is told by its name, and which member is gone."""
    own = score(lambda r, m: getattr(m, name)("mine", lambda x: x.count * 1.0))
    with pytest.raises(PluginError, match=rf"score other failed: .*in place of `{name}` (compute|read) the "):
        ranked(own)


def test_what_it_computes_follows_placements() -> None:
    """Of a machine that changed, the next decision with the same tables reads what is there now."""
    offline, kept = fleet(machine("a"), machine("b"), machine("c")), Tables()
    own = score(lambda r, m: 100.0 - 10.0 * m.count)
    inputs = offline.inputs(Profile("p", scores=(WeightedScore(own),)), kept)
    assert rank(request(cpu=1), inputs).total.tolist() == [100.0, 100.0, 100.0]
    offline.ledger.apply(instance_of(request(cpu=1), "a", offline.now_s, "1"))
    assert rank(request(cpu=1), inputs).total.tolist() == [90.0, 100.0, 100.0]
    offline.ledger.forget("1")
    assert rank(request(cpu=1), inputs).total.tolist() == [100.0, 100.0, 100.0]


@pytest.mark.parametrize("name", ["wanted", "detail"])
def test_what_a_plugin_raises_is_told_with_its_name(name: str) -> None:
    """Whatever it is asked: the error says which plugin and which of its methods failed."""

    def fails(*args: Any) -> Any:
        return 1 / 0

    plugin = score(lambda r, m: np.zeros(3), **{name: fails})
    found = ranked(score(lambda r, m: np.zeros(3)))
    with pytest.raises(PluginError, match=rf"score other: {name} failed: ZeroDivisionError: division by zero"):
        getattr(plugin, name)(found.request, found.machines, *([0] if name == "detail" else []))
    with pytest.raises(PluginError, match="score other failed: ZeroDivisionError"):
        ranked(score(fails))


def test_a_plugin_may_refuse_a_request() -> None:
    """InvalidRequest is for the caller and goes through as it is."""

    def refuses(asked: Any, machines: Any) -> Any:
        raise InvalidRequest("labels: expected a team")

    with pytest.raises(InvalidRequest, match="labels: expected a team"):
        ranked(score(refuses))


@pytest.mark.parametrize(
    "one",
    [
        Limit(("total", "nonsense"), 2, "mine"),
        Limit(("total", "cpu", "nobility"), 2, "mine"),
        Limit(("sum", "cpu"), 2, "mine"),
        Limit(total("cpu"), np.zeros(2), "mine"),
        Limit(total("cpu"), "8", "mine"),  # type: ignore[arg-type]
        ("x",),
        None,
    ],
)
def test_a_limit_that_the_ledger_cannot_uphold_is_refused(one: Any) -> None:
    """A sum that there is not would be upheld by nobody."""
    found = ranked(filtered(lambda r, m: m.count >= 0, limit=lambda self, r, m: [one]))
    with pytest.raises(PluginError, match="filter other: limit: expected "):
        limits(found, [0], found.request)


@pytest.mark.parametrize(
    "one",
    [
        Limit(total("cpu"), 8.0, "mine"),
        Limit(total("cpu", "batch", "free"), np.full(3, 8.0), "mine"),
        Limit(total("instances"), 50, "mine"),
        Limit(on_port(80), 1, "mine"),
        Limit(in_role("shop", "master"), 1, "mine"),
    ],
)
def test_a_limit_of_the_ledger_s_is_taken(one: Limit) -> None:
    """From a generator, too."""

    def limit(self: Any, asked: Any, machines: Any) -> Any:
        yield one

    found = ranked(filtered(lambda r, m: m.count >= 0, limit=limit))
    taken = limits(found, [2, 0, 1], found.request)
    assert [[(each.measure, each.most) for each in of] for of in taken] == [[(one.measure, np.max(one.most))]] * 3
