"""Long lists are answered in steps, between which other queries are answered, and are the same as in one piece."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.rpc.envelope import Query
from scorer.rpc.methods import capacity as of_capacity
from scorer.rpc.methods import listings, placements
from scorer.rpc.operators import drain as of_drain
from scorer.rpc.operators import plan as of_plan
from scorer.rpc.operators import rebalance as of_rebalance
from tests.rows import each_row
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer

LISTS = ("rank", "place", "machines", "instances", "capacity")


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    """A scorer of 700 machines with 600 instances."""
    scorer = Scorer(fleet(*(machine(f"m{n:03d}", usage={"cpu": n % 7, "memory": 1}) for n in range(700))))
    scorer.ask("place", id="many", cpu=0.01, count=600)
    return scorer


def stepwise(scorer: Scorer, method: str, **params: Any) -> tuple[int, dict[str, Any]]:
    """How many steps were taken, and the result."""
    query = Query(v=1, id="s", method=method, params=msgspec.Raw(msgspec.json.encode(params)))
    steps, count = scorer.service.steps(query), 1
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return count, msgspec.json.decode(done.value)
        count += 1


@each_row(
    ("method", "params", "rows", "steps"),
    [
        ("machines", {}, "machines", 4),
        ("machines", {"limit": 16}, "machines", 2),
        ("instances", {}, "instances", 4),
        ("rank", {"cpu": 1, "explain": True}, "machines", 4),
        ("rank", {"cpu": 1, "top": 600}, "candidates", 4),
        ("rank", {"cpu": 1}, "candidates", 1),
        ("place", {"cpu": 1, "dry_run": True, "top": 600}, "candidates", 4),
        ("place", {"cpu": 1, "dry_run": True, "explain": True}, "machines", 4),
        ("place", {"cpu": 1, "dry_run": True}, "candidates", 1),
    ],
)
def test_a_long_list_is_made_in_steps(
    scorer: Scorer, method: str, params: dict[str, Any], rows: str, steps: int
) -> None:
    """Each row once, in order; a short one has a single step."""
    count, found = stepwise(scorer, method, **params)
    assert count >= steps if steps > 2 else count == steps
    named = [one["id" if method == "instances" else "machine"] for one in found[rows]]
    assert len(set(named)) == len(named)
    if method not in ("rank", "place"):
        assert named == sorted(named)
        assert len(named) == min(found["total"], params.get("limit", 1000))
        assert found["more"] == (len(named) < found["total"])


def test_pages_follow_each_other(scorer: Scorer) -> None:
    """`after` the last of one page begins the next."""
    first = scorer.ask("machines", limit=400)
    second = scorer.ask("machines", limit=400, after=first["machines"][-1]["machine"])
    assert [one["machine"] for one in first["machines"] + second["machines"]] == [f"m{n:03d}" for n in range(700)]
    assert (first["more"], second["more"]) == (True, False)


@pytest.mark.parametrize("method", [*LISTS, "drain", "plan", "rebalance"])
def test_room_is_asked_for_before_work(scorer: Scorer, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step of a long query makes nothing: where there is no room it has cost nothing."""
    made: list[object] = []
    for module, name in (
        (listings, "in_slices"),
        (listings, "_page"),
        (placements, "read_batch"),
        (placements, "rank"),
        (of_capacity, "room_of_each"),
        (of_drain, "machines_meant"),
        (of_plan, "WantedRequests"),
        (of_rebalance, "moment"),
    ):
        monkeypatch.setattr(module, name, lambda *a, **k: made.append(a))
    params: dict[str, dict[str, Any]] = {
        "place": {"count": 100, "cpu": 1}, "rank": {"cpu": 1, "explain": True}, "drain": {"machines": ["m001"]},
        "plan": {"instances": []},
    }  # fmt: skip
    asked = params.get(method, {})
    steps = scorer.service.steps(Query(v=1, id="s", method=method, params=msgspec.Raw(msgspec.json.encode(asked))))
    assert next(steps) is None
    assert made == []


def test_place_explains_so_many_machines(scorer: Scorer) -> None:
    """And says so; the best are among them."""
    found = scorer.ask("place", cpu=1, explain=True, dry_run=True)
    assert len(found["machines"]) == 500
    assert found["machines"][0]["machine"] == found["machine"]
    assert any("explained for the first 500 of 700 machines" in one for one in found["warnings"])
