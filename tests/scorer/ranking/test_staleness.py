"""A silent pipeline: the last known load serves on, and every answer says so."""

from __future__ import annotations

import pytest

from scorer.ranking.explanation import explain
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.staleness import degraded
from scorer.snapshot.builder import build_snapshot
from tests.scorer.fleets import FleetState, fleet, machine, ranked, request

DEFAULT = load_profiles().choose()


def mixed(old: int, fresh: int) -> FleetState:
    """Return a fleet of an old, loaded machine, other old ones and fresh ones."""
    loads = [9.0] + [1.0] * (old - 1)
    machines = [machine(f"old{n}", usage={"cpu": load, "memory": 1}, age_s=5000) for n, load in enumerate(loads)]
    machines += [machine(f"new{n}", usage={"cpu": 1, "memory": 1}) for n in range(fresh)]
    return fleet(*machines)


@pytest.mark.parametrize(("old", "fresh", "feasible"), [(10, 0, 9), (9, 1, 9), (8, 2, 2), (1, 9, 9)])
def test_old_machines_are_refused_unless_nearly_all_are_old(old: int, fresh: int, feasible: int) -> None:
    """From 90 % on the usage filters go by the old load: the loaded machine is refused for it."""
    found = ranked(mixed(old, fresh), DEFAULT, request(cpu=1))
    assert found.feasible_count == feasible
    assert found.machines.last_known is (old >= 9)


def test_a_loaded_fleet_stays_loaded() -> None:
    """The last window counts however old, with the credits of what was placed since."""
    both = [
        machine("busy", usage={"cpu": 6, "memory": 10}, age_s=5000),
        machine("idle", usage={"cpu": 1, "memory": 10}, age_s=5000),
    ]
    assert ranked(fleet(*both), DEFAULT).chosen == "idle"
    placed = [{"id": "i", "machine": "idle", "cpu": 8, "memory": 10, "placed_ago_s": 900}]
    assert ranked(fleet(*both, instances=placed), DEFAULT).machines.mean[0].tolist() == [6.0, 9.0]


def test_every_answer_warns_with_the_age() -> None:
    """Also where no machine fits."""
    warning = (
        "10 of 10 machines have stale data, the newest 5000 s old: ranked by the last known load and what was placed"
    )
    for machine_name in ("", "nowhere"):
        found = explain.answer(ranked(mixed(10, 0), DEFAULT, request(machine=machine_name)))
        assert found.warnings[0].startswith(warning)


def test_a_machine_without_any_data_is_refused() -> None:
    """What was never known is not the last known."""
    offline = fleet(machine("a", usage={"cpu": 1, "memory": 1}, age_s=5000), machine("b"))
    assert ranked(offline, DEFAULT).chosen == "a"


def test_a_profile_may_refuse_instead() -> None:
    """As the default did before."""
    refuse = parse_profile('stale = "refuse"\n[[filters]]\nuse = "fresh"\n[[scores]]\nuse = "least_allocated"', "p")
    assert explain.summary(ranked(mixed(3, 0), refuse)) == "0/3 feasible: 3 stale"


def test_health_says_what_is_wrong() -> None:
    """Nothing while samples come, else how old the newest is."""
    old, fresh = mixed(9, 1), mixed(1, 9)
    assert degraded(fresh.snapshot, DEFAULT, fresh.now_s) == ""
    assert "of the machines have stale data" in degraded(old.snapshot, DEFAULT, old.now_s)
    assert degraded(build_snapshot((), {}, {}), DEFAULT, 0.0) == "no machine is known"


@pytest.mark.parametrize(("age_s", "is_silent"), [(299, False), (301, True)])
def test_machines_that_publish_rarely_are_given_three_intervals(age_s: float, is_silent: bool) -> None:
    """As by the filter `fresh`; the profile's 60 s are shorter."""
    slow = machine("slow", usage={"cpu": 1, "memory": 1}, age_s=age_s, interval_s=100)
    assert ranked(fleet(slow), DEFAULT).machines.last_known is is_silent
