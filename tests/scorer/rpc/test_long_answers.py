"""Long answers: the planners' queries, and the rows that a scorer gives itself; what ``place`` describes, in steps."""

import math

import msgspec
import pytest

from schemas.rpc.envelope import Query
from scorer.placement.choosing.plan import run_to_end
from scorer.planning.which_machines import selected
from scorer.rpc.methods.listings import READ_FOR_A_ROW, instances
from scorer.rpc.methods.records import ForPlanners
from scorer.rpc.service import ScorerService
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer


@pytest.fixture(scope="module")
def scorer():
    scorer = Scorer(fleet(*(machine(f"m{n:04d}", usage={"cpu": n % 7, "memory": 1}) for n in range(1_200))))
    scorer.ask("place", id="many", cpu=0.01, count=1_100, labels={"app": "web"})
    return scorer


def asked(method, **params):
    return Query(v=1, id="s", method=method, params=msgspec.Raw(msgspec.json.encode(params)))


@pytest.mark.parametrize(
    ("method", "params", "rows", "here"),
    [
        ("machines", {}, "machines", True), ("machines", {"limit": 1_001}, "machines", False),
        ("machines", {"limit": 5_000, "after": "m0999"}, "machines", True), ("instances", {}, "instances", True),
        ("instances", {"limit": 1_001}, "instances", False),
        ("instances", {"limit": 5_000, "id": "many-7"}, "instances", True),
        ("rank", {"cpu": 1, "explain": True}, "machines", False), ("rank", {"cpu": 1, "top": 100}, "candidates", True),
        ("rank", {"cpu": 1, "top": 101}, "candidates", False), ("rank", {"cpu": 1}, "candidates", True),
    ],
)  # fmt: skip
def test_a_scorer_leaves_long_lists_to_planners(scorer, method, params, rows, *, here):
    """It answers as many rows as take a moment; the planner answers the same query whole. Each row once, in order."""
    query = asked(method, **params)
    if here:
        answer = run_to_end(scorer.service.steps(query))
    else:
        with pytest.raises(ForPlanners):
            run_to_end(scorer.service.steps(query))
        answer = run_to_end(scorer.planner.steps(query))
    found = msgspec.json.decode(answer)
    named = [one["id" if method == "instances" else "machine"] for one in found[rows]]
    assert len(set(named)) == len(named)
    if method != "rank":
        assert named == sorted(named)
        assert len(named) == min(found["total"], params.get("limit", 1000))
        assert found["more"] == (len(named) < found["total"])


@pytest.mark.parametrize(
    ("selector", "total"),
    [("app in (web, api)", None), ("!app", None), ("app=web", None), ("app=api", 0), ("app=api,!old", 0)],
)
def test_a_selector_that_reads_many_instances_is_for_planners(scorer, selector, total):
    """A label with one value is found by the ledger's index; the labels of all others are read."""
    view = scorer.service.current.ledger

    def found(most):
        return instances({"selector": selector, "limit": 1}, view, lambda _: None, most=most).total

    if total is None:
        with pytest.raises(ForPlanners):
            found(1_100 / READ_FOR_A_ROW - 1)
    else:
        assert found(1) == total
    matching = [one for one in view.instances.values() if selected(selector, {one.id: one.labels})]
    assert found(math.inf) == len(matching)


@pytest.mark.parametrize("method", ["drain", "plan", "rebalance", "capacity"])
def test_a_scorer_plans_nothing(scorer, method):
    """A planner has these methods, and none that changes what a scorer changes."""
    with pytest.raises(ForPlanners):
        run_to_end(scorer.service.steps(asked(method)))
    assert method in scorer.planner.METHODS
    assert set(scorer.planner.METHODS) <= set(ScorerService.METHODS)
    assert not {"place", "confirm", "update", "release", "cordon", "uncordon"} & set(scorer.planner.METHODS)


@pytest.mark.parametrize(
    ("params", "rows", "count"),
    [({"top": 600}, "candidates", 600), ({"explain": True}, "machines", 500), ({}, "candidates", 3)],
)
def test_place_describes_many_machines_in_steps(scorer, params, rows, count):
    """Others are answered after some of them; each is there once."""
    steps, left = scorer.service.steps(asked("place", cpu=1, dry_run=True, **params)), 0
    with pytest.raises(StopIteration) as done:
        while True:
            next(steps)
            left += 1
    found = msgspec.json.decode(done.value.value)
    assert len({one["machine"] for one in found[rows]}) == count
    assert left >= count // 16 if params else left == 0


def test_pages_follow_each_other(scorer):
    first = scorer.ask("machines", limit=700)
    second = scorer.ask("machines", limit=700, after=first["machines"][-1]["machine"])
    assert [one["machine"] for one in first["machines"] + second["machines"]] == [f"m{n:04d}" for n in range(1_200)]
    assert (first["more"], second["more"]) == (True, False)


def test_place_explains_so_many_machines(scorer):
    found = scorer.ask("place", cpu=1, explain=True, dry_run=True)
    assert len(found["machines"]) == 500
    assert found["machines"][0]["machine"] == found["machine"]
    assert any("explained for the first 500 of 1200 machines" in one for one in found["warnings"])
