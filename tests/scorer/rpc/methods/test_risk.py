"""The answer of `risk`: which machines come first, what heats each, what is left out; and its table."""

import pytest

from schemas.process.tables import Screen
from schemas.rpc.request import InvalidRequest
from scorer.commands.machines.machine_table import soon_hot
from scorer.rpc.methods.listings import risk
from tests.scorer.fleets import PROFILES, fleet, machine

WINDOWS = [300, 3600]


def load(name, recent, mean, std=1.0, **more):
    windows = {"300": {"cpu": {"mean": recent, "std": std}}, "3600": {"cpu": {"mean": mean, "std": std}}}
    return machine(name, windows=windows, **more)


MACHINES = (
    load("calm", 2.0, 2.0),
    load("falling", 5.0, 6.0),
    load("hot", 9.0, 9.0),
    load("rising", 7.0, 6.0),
    load("old", 9.0, 9.0, age_s=90.0),
    machine("silent"),
)
INSTANCES = (
    {"id": "small", "machine": "rising", "cpu": 4, "usage": {"cpu": 0.5}},
    {"id": "large", "machine": "rising", "cpu": 4, "usage": {"cpu": 4.0}},
    {"id": "unmeasured", "machine": "rising", "cpu": 4},
    {"id": "late", "machine": "falling", "cpu": 4, "usage": {"cpu": 9.0}, "usage_age_s": 1_000.0},
    {"id": "busy", "machine": "hot", "cpu": 4, "usage": {"cpu": 9.5}},
)


def answer(**params):
    offline = fleet(*MACHINES, windows_s=WINDOWS, instances=list(INSTANCES))
    return risk(params, offline.inputs(PROFILES.choose("windward")))


def test_the_hottest_come_first():
    """A rising machine comes before a falling one of the same mean; stale and silent ones are left out."""
    found = answer()
    assert [row.machine for row in found.machines] == ["hot", "rising", "falling", "calm"]
    assert found.total == 4
    assert [row.chance for row in found.machines] == sorted((row.chance for row in found.machines), reverse=True)
    rising = found.machines[1]
    assert (rising.recent, rising.mean, rising.std) == pytest.approx((0.7, 0.6, 0.1))


def test_what_heats_a_machine():
    hot, rising, falling, calm = answer().machines
    assert [(one.id, one.cpu) for one in rising.instances] == [("large", 4.0), ("small", 0.5)]
    assert rising.other == pytest.approx(2.5)
    assert (falling.instances, falling.other) == ([], pytest.approx(5.0))
    assert (hot.instances[0].cpu, hot.other) == (9.5, 0.0)
    assert (calm.instances, calm.other) == ([], pytest.approx(2.0))


def test_what_is_asked():
    plain, high, soon = answer(top=2), answer(limit=0.95), answer(within_s=300)
    assert [row.machine for row in plain.machines] == ["hot", "rising"]
    assert high.machines[1].chance < plain.machines[1].chance
    assert soon.machines[1].chance < plain.machines[1].chance
    for wrong in ({"limit": 0}, {"top": 0}, {"within_s": -1}, {"machines": 1}):
        with pytest.raises(InvalidRequest):
            answer(**wrong)


def test_no_machine():
    for offline in (fleet(), fleet(machine())):
        found = risk({}, offline.inputs(PROFILES.choose("windward")))
        assert (found.total, found.machines) == (0, [])


def test_the_table():
    lines = soon_hot(answer(), Screen(200)).splitlines()
    line = next(each for each in lines if each.startswith("rising"))
    assert line.split()[2:6] == ["70%", "60%", "10%", "+10%"]
    assert line.endswith("large 40%, small 5%, other 25%")
    assert lines[-1] == "above 70% cpu within 1h; of 4 machines with fresh data"
