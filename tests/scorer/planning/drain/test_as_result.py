"""A drain's plan as the result of the method: what is known of an instance, and on how large a fleet it is."""

from __future__ import annotations

from scorer.planning.drain.as_result import drain_result
from scorer.planning.drain.drain import drain
from scorer.ranking.profiles.catalogue import load_profiles
from tests.scorer.fleets import fleet, machine


def test_each_line_says_what_it_asked_for() -> None:
    """Amounts that were not given are left out; an instance that stays has no target and a reason."""
    instances = [
        {"id": "goes", "machine": "a", "cpu": 2, "placed_ago_s": 900},
        {"id": "stays", "machine": "a", "cpu": 1, "memory": 5, "labels": {"movable": "false"}, "placed_ago_s": 900},
    ]
    of = fleet(*(machine(name, 8, 100, usage={"cpu": 1, "memory": 1}) for name in "ab"), instances=instances)
    inputs = of.inputs(load_profiles().choose())
    found = drain_result(drain(["a"], inputs), inputs)
    assert (found.drained, found.profile, found.machines, found.instances) == (["a"], "windward", 2, 2)
    assert [(one.id, one.target, one.amounts, one.reason) for one in found.moves] == [("goes", "b", {"cpu": 2.0}, "")]
    assert [(one.id, one.target, one.amounts) for one in found.blocked] == [
        ("stays", None, {"cpu": 1.0, "memory": 5.0})
    ]
    assert "movable=false" in found.blocked[0].reason
    assert (found.cordoned, found.emptying) == (False, None)
