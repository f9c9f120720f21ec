"""A silent pipeline: the last known load serves on, and every answer says so."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.messages.process import SILENT_S, Pipeline, Process, read_pipeline
from scorer.ranking import explain
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.staleness import degraded
from scorer.snapshot.builder import build_snapshot
from tests.scorer.fleets import fleet, machine, ranked, request

DEFAULT = load_profiles().choose()


def mixed(old, fresh):
    loads = [9.0] + [1.0] * (old - 1)
    machines = [machine(f"old{n}", usage={"cpu": load, "memory": 1}, age_s=5000) for n, load in enumerate(loads)]
    machines += [machine(f"new{n}", usage={"cpu": 1, "memory": 1}) for n in range(fresh)]
    return fleet(*machines)


@pytest.mark.parametrize(("old", "fresh", "feasible"), [(10, 0, 9), (940, 61, 61), (8, 2, 2), (1, 9, 9)])
def test_old_machines_are_refused_while_any_is_fresh(old, fresh, feasible):
    """When none is, the usage filters go by the old load: the loaded machine is refused for it."""
    found = ranked(mixed(old, fresh), DEFAULT, request(cpu=1))
    assert found.feasible_count == feasible
    assert found.machines.last_known is (not fresh)


TICK_S = 5.0
PARTS = ("worker", "broker", "Redis")
PHASES = st.lists(
    st.tuples(st.integers(1, 40), st.sets(st.integers(0, 3)), st.sets(st.sampled_from(PARTS), max_size=2)), max_size=5
)
"""How many ticks each lasts, which agents of four are lost meanwhile, and which parts of the pipeline are away."""


@given(PHASES)
@example([(20, {0, 1, 2}, set())])
@example([(20, {0, 1, 2, 3}, set())])
@example([(20, set(), {"broker"}), (2, {0, 1, 2, 3}, set())])
@settings(max_examples=60)
def test_a_silent_machine_takes_nothing_unless_the_pipeline_is_silent(phases):
    """Whatever is lost, and for how long: what the workers say tells a lost agent from a lost pipeline."""
    now_s, late_s, said_s, said, seen = 1000.0, 0.0, 0.0, b"", [1000.0] * 4
    for ticks, lost, away in phases:
        for _ in range(ticks):
            now_s += TICK_S
            late_s = now_s if away else late_s
            seen = [at if away or n in lost else now_s for n, at in enumerate(seen)]
            if not away & {"worker", "Redis"}:
                said_s, details = now_s, {"caught_up_s": now_s - late_s}
                said = Process(host="h", pid=1, version="1", started=0.0, at=now_s, details=details).encode()
        machines = [machine(f"m{n}", usage={"cpu": 1, "memory": 1}, age_s=now_s - at) for n, at in enumerate(seen)]
        known = fleet(*machines, now=now_s)
        pipeline = read_pipeline({b"h-1": said})
        state = replace(known, snapshot=known.snapshot.with_use(pipeline=pipeline))
        fresh = [now_s - at <= DEFAULT.stale_s for at in seen]
        found = ranked(state, DEFAULT, request(cpu=1))
        if any(fresh) or now_s - late_s > DEFAULT.stale_s:
            assert found.feasible.tolist() == fresh
        elif said_s == now_s or now_s - said_s > SILENT_S:  # before, the last heartbeat counts
            assert found.feasible_count == 4
        assert bool(degraded(state.snapshot, DEFAULT, now_s)) is not any(fresh)


def test_a_clock_that_is_ahead_keeps_no_dead_pipeline_fresh():
    ahead = [
        machine("a", usage={"cpu": 1, "memory": 1}, age_s=-3600),
        machine("b", usage={"cpu": 1, "memory": 1}, age_s=61),
    ]
    state = fleet(*ahead)
    table = state.snapshot.columns.tables[0]
    header = msgspec.structs.replace(table.header, written_at=state.now_s - 61)
    known = build_snapshot([replace(table.base, header=header)], {}, {})
    assert ranked(replace(state, snapshot=known), DEFAULT).machines.last_known


def test_a_loaded_fleet_stays_loaded():
    """The last window counts however old, with the credits of what was placed since."""
    both = [
        machine("busy", usage={"cpu": 6, "memory": 10}, age_s=5000),
        machine("idle", usage={"cpu": 1, "memory": 10}, age_s=5000),
    ]
    assert ranked(fleet(*both), DEFAULT).chosen == "idle"
    placed = [{"id": "i", "machine": "idle", "cpu": 8, "memory": 10, "placed_ago_s": 900}]
    assert ranked(fleet(*both, instances=placed), DEFAULT).machines.mean[0].tolist() == [6.0, 9.0]


def test_every_answer_warns_with_the_age():
    warning = (
        "10 of 10 machines have stale data, the newest 5000 s old: ranked by the last known load and what was placed"
    )
    for machine_name in ("", "nowhere"):
        found = explain.answer(ranked(mixed(10, 0), DEFAULT, request(machine=machine_name)))
        assert found.warnings[0].startswith(warning)


def test_a_machine_without_any_data_is_refused():
    offline = fleet(machine("a", usage={"cpu": 1, "memory": 1}, age_s=5000), machine("b"))
    assert ranked(offline, DEFAULT).chosen == "a"


def test_health_says_what_is_wrong():
    old, fresh = mixed(9, 0), mixed(9, 1)
    assert degraded(fresh.snapshot, DEFAULT, fresh.now_s) == ""
    silent = "is silent: the newest sample is 5000 s old"
    assert degraded(old.snapshot, DEFAULT, old.now_s) == f"the pipeline {silent}"
    up = old.snapshot.with_use(pipeline=Pipeline(((0.0, old.now_s),)))
    assert degraded(up, DEFAULT, old.now_s) == f"every agent, while the stream runs, {silent}"
    assert degraded(build_snapshot((), {}, {}), DEFAULT, 0.0) == "no machine is known"


@pytest.mark.parametrize(("age_s", "is_silent"), [(299, False), (301, True)])
def test_machines_that_publish_rarely_are_given_three_intervals(age_s, is_silent):
    slow = machine("slow", usage={"cpu": 1, "memory": 1}, age_s=age_s, interval_s=100)
    assert ranked(fleet(slow), DEFAULT).machines.last_known is is_silent
