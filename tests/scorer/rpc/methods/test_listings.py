"""Which instances are listed: by each filter, by several, page by page."""

from functools import partial

import pytest

from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer

PLACED = {
    "a": {"machine": "m0", "cluster": "x", "role": "master", "labels": {"app": "cart", "tier": "db"}},
    "b": {"machine": "m0", "cluster": "x", "role": "replica", "labels": {"app": "cart"}},
    "c": {"machine": "m1", "cluster": "y", "role": "master", "kind": "redis", "labels": {"app": "shop"}},
    "d": {"machine": "m1"},
}


@pytest.fixture(scope="module")
def listed():
    """Asks a scorer for instances: b moves from m0 to m1, d is not confirmed."""
    scorer = Scorer(fleet(*(machine(name, 8, usage={"cpu": 1, "memory": 1}) for name in ("m0", "m1"))))
    for name, more in PLACED.items():
        scorer.ask("place", id=name, cpu=1, memory=1, **more)
        if name != "d":
            scorer.ask("confirm", id=name)
    scorer.ask("update", id="b", machine="m1", move=True)
    return partial(scorer.ask, "instances")


@pytest.mark.parametrize(
    ("params", "ids"),
    [
        ({}, "abcd"),
        ({"machine": "m0"}, "ab"),
        ({"machine": "m1"}, "bcd"),
        ({"machine": "m2"}, ""),
        ({"machine": "m1", "role": "replica"}, "b"),
        ({"state": "reserved"}, "d"),
        ({"cluster": "x"}, "ab"),
        ({"role": "master"}, "ac"),
        ({"kind": "redis"}, "c"),
        ({"labels": {"app": "cart"}}, "ab"),
        ({"labels": {"app": "cart", "tier": "db"}}, "a"),
        ({"selector": "app=cart,!tier"}, "b"),
        ({"machine": "m1", "selector": "app"}, "bc"),
        ({"id": "c"}, "c"),
        ({"id": "c", "cluster": "x"}, ""),
        ({"id": "z"}, ""),
        ({"after": "b"}, "cd"),
    ],
)
def test_an_instance_matches_all_that_is_given(listed, params, ids):
    found = listed(**params)
    assert "".join(one["id"] for one in found["instances"]) == ids
    assert (found["total"], found["more"]) == (len(ids), False)


@pytest.mark.parametrize(("after", "ids", "total", "more"), [("", "ab", 4, True), ("b", "cd", 2, False)])
def test_a_page_has_the_first_ids(listed, after, ids, total, more):
    found = listed(limit=2, after=after)
    assert "".join(one["id"] for one in found["instances"]) == ids
    assert (found["total"], found["more"]) == (total, more)
