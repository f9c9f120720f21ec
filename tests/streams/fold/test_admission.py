"""What a record must keep to before it is folded: its key, its times, its readings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.sample import InstanceMeans, InstanceReport, MachineFacts, Moments, Usage, encode
from streams.fold.admission import REASONS, Admission
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.ring import S
from streams.fold.table import Table
from streams.state.checkpoint import encode_position, encode_vitals
from streams.state.partition import Partition, drop_silent, make_room
from streams.worker.app import ClockWatch
from streams.worker.metrics import Metrics
from streams.worker.topics import wrong_settings
from tests.streams.batches import START, sample
from tests.streams.golden_values import decode_ring

NOW = START + 5.0


def partition(**limits):
    """A new partition of a zone whose hours begin at half past."""
    return Partition(0, Table((300, 900, 3600), Zone("Asia/Kolkata")), admission=Admission(**limits))


def facts(**more):
    return MachineFacts(**({"v": 1, "machine": "m", "boot": 1, "at": START, "capacity": {"cpu": 4.0}} | more))


def reasons(state, *arrived, now_s=NOW):
    return [one.reason for _, one in state.fold(arrived, now_s).refused]


@pytest.mark.parametrize("time_s", [1e12, -1e12, 2.0**62 / 1000, -(2.0**62) / 1000, -0.001, NOW + 301, float("nan")])
@pytest.mark.parametrize("message", [sample("m", 0), facts()], ids=["sample", "facts"])
def test_a_record_of_an_impossible_time_is_refused_alone(time_s, message):
    state = partition()
    good = Arrived(1, encode(sample("m", 0)), START + 4, b"m")
    assert reasons(state, Arrived(0, encode(message), time_s, b"m"), good) == ["record-time"]
    assert reasons(state, good, Arrived(0, encode(message), time_s, b"m")) == ["record-time"]
    state.refresh_table()
    assert state.ring.machines == ["m"]
    assert state.recorded_at == START + 4


@pytest.mark.parametrize(
    ("name", "resource", "figures", "refused"),
    [
        ("all cores", "cpu", Moments(10, 4.0, 0.0, 4.0, 4.0), False),
        ("a rounding", "cpu", Moments(10, 4.0000001, 0.0, 4.0000001, 4.0), False),
        ("six cores of four", "cpu", Moments(10, 6.0, 0.0, 6.0, 4.0), True),
        ("five cores of four", "cpu", Moments(1, 5.0, 0.0, 5.0, 4.0), True),
        ("a reading of a little more", "cpu", Moments(10, 1.0, 0.4, 4.05, 4.0), True),
        ("bytes whose mean is too much", "nic", Moments(1, 1.55e9, 0.0, 1.55e9, 1.25e9), True),
        ("bytes whose mean is not too much", "nic", Moments(1, 1.5e9, 0.0, 1.5e9, 1.25e9), False),
        ("one reading of eight", "cpu", Moments(10, 1.0, 50.0, 8.0, 4.0), True),
        ("more memory than there is", "memory", Moments(1, 2e9, 0.0, 2e9, 1e9), True),
        ("bytes that are counted late", "nic", Moments(10, 1.3e9, 0.0, 2.5e9, 1.25e9), False),
        ("bytes of a leap", "nic", Moments(1, 3.9e14, 0.0, 3.9e14, 1.25e9), True),
        ("a leap among ten readings", "nic", Moments(10, 1e9, 0.0, 3.9e10, 1.25e9), True),
        ("twice what the link carries", "nic", Moments(1, 2.5e9, 0.0, 2.5e9, 1.25e9), True),
        ("a disk busy for longer than the time", "disk", Moments(10, 1.4, 0.0, 1.4, 1.0), True),
        ("a disk that is busy", "disk", Moments(10, 1.0, 0.0, 1.0, 1.0), False),
    ],
)
def test_more_than_the_capacity_allows_is_refused_alone(name, resource, figures, refused):
    """The reason names resource and figures; the other samples of the batch are folded."""
    state = partition()
    odd = Arrived(0, encode(sample("m", 0, **{resource: figures})), START + 4, b"m")
    found = state.fold([odd, Arrived(1, encode(sample("n", 0)), START + 4, b"n")], NOW).refused
    assert [one.reason for _, one in found] == ["excess"] * refused, name
    assert not refused or f"m: {resource}: mean" in found[0][1].detail
    state.refresh_table()
    assert state.ring.machines == ["n"] if refused else ["m", "n"]


@pytest.mark.parametrize(("cores", "excess"), [(4.0, 0), (4.03, 0), (4.05, 1), (7.0, 1)])
def test_an_instance_that_uses_more_than_its_machine_has_is_left_out(cores, excess):
    """A hundredth more is a rounding of the pace."""
    report = InstanceReport(
        at=START + 3, interval_s=60.0, entries={"a": InstanceMeans(cpu=cores)}, system=InstanceMeans(cpu=0.1)
    )
    whole = sample("m", 0, cpu=Moments(10, 4.0, 0.0, 4.0, 4.0), instance_report=report)
    usage = partition().fold([Arrived(0, encode(whole), START + 4, b"m")], NOW).usage
    assert usage.excess == excess


@settings(deadline=None)
@given(time_s=st.floats(width=64), at=st.floats(0, 1e11), now_s=st.floats(0, 4e9))
def test_no_time_ends_the_fold(time_s, at, now_s):
    """And no machine is ever more than some minutes ahead of the worker's clock."""
    state = partition()
    state.fold([Arrived(0, encode(sample("m", at=at)), time_s, b"m")], now_s)
    state.refresh_table()
    assert (state.ring.at[: len(state.ring)] <= now_s + 311).all()


@pytest.mark.parametrize(
    ("name", "message", "key", "reason"),
    [
        ("as agents do", sample("m", 0), b"m", None),
        ("another machine's key", sample("m", 0), b"n", "key"),
        ("no key", sample("m", 0), None, "key"),
        ("an empty key", sample("m", 0), b"", "key"),
        ("facts of another machine", facts(), b"n", "key"),
        ("a boot in the future", sample("m", 0, boot=2**32 - 1), b"m", "boot"),
        ("facts of a boot in the future", facts(boot=2**32 - 1), b"m", "boot"),
        ("a boot of just now", sample("m", 0, boot=int(NOW)), b"m", None),
        ("a year ahead of its record", sample("m", 3_000_000), b"m", "future"),
        ("too many readings", sample("m", 0, cpu=Moments(65_535, 1.0, 0.0, 1.0, 64.0)), b"m", "readings"),
        ("ten a second", sample("m", 0, cpu=Moments(100, 1.0, 0.0, 1.0, 64.0)), b"m", None),
        ("shorter than a slot", sample("m", 0, interval_s=9.0), b"m", "interval"),
    ],
)
def test_what_is_refused(name, message, key, reason):
    state = partition()
    assert reasons(state, Arrived(0, encode(message), NOW, key)) == ([reason] if reason else []), name
    assert len(state.ring) + len(state.facts) == (reason is None)


def test_more_readings_are_admitted_by_the_setting():
    many = Arrived(0, encode(sample("m", 0, cpu=Moments(1000, 1.0, 0.0, 1.0, 64.0))), NOW, b"m")
    assert reasons(partition(readings_hz_max=100.0), many) == []


def test_one_message_does_not_silence_the_facts_of_a_machine():
    """Facts of a later boot are followed by those of the agent that goes on."""
    state = partition()
    forged = facts(boot=int(NOW), at=NOW + 9, labels={"zone": "forged"})
    state.fold([Arrived(0, encode(forged), NOW, b"m")], NOW)
    state.fold([Arrived(1, encode(facts(at=NOW + 300, labels={"zone": "own"})), NOW + 300, b"m")], NOW + 300)
    assert b"own" in state.facts["m"]


def test_a_machine_of_the_far_future_is_dropped():
    """Accepted while the worker's clock was wrong: the machine starts anew with its next sample."""
    state = partition()
    year_2100 = 4.1e9
    state.fold(
        [
            Arrived(0, encode(sample("m", at=year_2100)), year_2100, b"m"),
            Arrived(1, encode(facts(at=year_2100, boot=1)), year_2100, b"m"),
        ]
    )
    assert drop_silent(state, NOW, 86_400) == 1
    assert (state.facts, state.ring.machines) == ({}, [])
    assert reasons(state, Arrived(2, encode(sample("m", 0)), NOW, b"m")) == []


@pytest.mark.parametrize(
    ("records", "ahead", "share", "behind"), [(100, 100, 1.0, True), (100, 50, 0.5, False), (9, 9, 0.0, False)]
)
def test_most_records_ahead_say_that_the_clock_is_behind(records, ahead, share, behind):
    watch = ClockWatch()
    watch.note(records, ahead, 0.0)
    assert (watch.ahead, watch.behind) == (share, behind)


def test_a_clock_that_was_set_right_is_right_some_minutes_later():
    watch = ClockWatch()
    watch.note(1000, 1000, 0.0)
    watch.note(1000, 0, 120.0)
    assert not watch.behind


def test_records_ahead_are_told_from_other_refusals():
    """A record without a time says nothing of the clock."""
    state = partition()
    value = encode(sample("m", 0))
    outcome = state.fold([Arrived(n, value, t, b"m") for n, t in enumerate((-1.0, NOW + 400, NOW))], NOW)
    assert (outcome.ahead, outcome.counts["rejected:record-time"]) == (1, 2)
    assert state.fold([], NOW).ahead == 0


def test_every_reason_is_counted_from_the_start():
    """A series that appears with the first refusal hides that refusal from a rate."""
    registry = Metrics().registry
    for reason in REASONS:
        assert registry.get_sample_value("windward_stream_rejected_total", {"reason": reason}) == 0


@pytest.mark.parametrize(
    ("found", "samples", "named"),
    [
        ({}, True, []),
        ({"message.timestamp.type": "CreateTime"}, True, ["message.timestamp.type is CreateTime"]),
        ({"retention.ms": "60000"}, True, ["retention.ms is 60000"]),
        ({"retention.ms": "-1", "cleanup.policy": "delete", "max.message.bytes": "1048588"}, True, []),
        ({"cleanup.policy": "compact,delete"}, True, ["cleanup.policy is compact,delete"]),
        ({"max.message.bytes": "1000"}, True, ["max.message.bytes is 1000"]),
        ({"max.message.bytes": "40000"}, False, ["max.message.bytes is 40000"]),
        ({"message.timestamp.type": "CreateTime", "retention.ms": "1"}, False, []),
        ({"retention.ms": "?"}, True, []),
    ],
)
def test_settings_of_a_topic_are_named(found, samples, named):
    problems = wrong_settings(found, samples=samples)
    assert [problem.partition(":")[0] for problem in problems] == named
    assert all("; set it to " in problem for problem in problems)


def crowd(state, names, slot):
    """Fold one sample of each; return the reasons of the refused."""
    at = START + slot * 10 + 5
    return reasons(state, *[Arrived(n, encode(sample(m, slot)), at, m.encode()) for n, m in enumerate(names)], now_s=at)


def test_made_up_machines_do_not_fill_a_worker():
    """Beyond the bound new ids are refused and known machines go on; room is made by dropping ids of few samples."""
    state = partition(machines_max=20)
    known = [f"known{n}" for n in range(10)]
    for slot in range(5):
        assert crowd(state, known, slot) == []
    assert crowd(state, [f"junk{n}" for n in range(40)], 5) == ["machines"] * 30
    assert crowd(state, known, 6) == []
    assert make_room(state) == 2
    assert crowd(state, ["joins"], 7) == []
    for slot in (8, 9):
        crowd(state, ["joins", *[f"more{slot}-{n}" for n in range(40)]], slot)
        make_room(state)
    assert {*known, "joins"} <= set(state.ring.machines)
    assert len(state.ring) <= 20
    state.refresh_table()


def test_no_room_is_made_before_it_is_needed():
    state = partition(machines_max=3)
    crowd(state, ["a", "b"], 0)
    assert make_room(state) == 0
    for slot in range(1, 4):
        crowd(state, ["a", "b", "c"], slot)
    assert make_room(state) == 0


def test_a_flood_of_ids_costs_a_known_fleet_nothing():
    """40,000 made-up ids against 2,000 known machines: the state stays within the bound, the refused leave no trace."""
    state = partition(machines_max=3_000)
    known = [f"known{n}" for n in range(2_000)]
    for slot in range(4):
        assert crowd(state, known, slot) == []
    full = Partition(0, Table((300, 900, 3600), Zone()), admission=Admission(machines_max=3_000))
    crowd(full, [f"m{n}" for n in range(3_000)], 0)
    refused = 0
    for slot in range(4, 12):
        refused += len(crowd(state, [f"junk{slot}-{n}" for n in range(5_000)], slot))
        assert crowd(state, known, slot) == []
        make_room(state)
    assert refused >= 40_000 - 1_000 - 8 * 300
    assert set(known) <= set(state.ring.machines)
    assert len(state.ring) <= 3_000
    assert state.ring.nbytes <= full.ring.nbytes * 1.13  # arrays grow by an eighth
    assert not any(machine.startswith("junk") for machine in state.facts)


def test_a_class_costs_memory_for_those_that_send_it():
    """One of 500 machines splits its usage: kilobytes, in memory and as stored; later it stops and they are free."""
    state = partition()
    names = [f"m{n}" for n in range(500)]
    crowd(state, names, 0)
    bare = state.ring.nbytes
    split = sample("m7", 1, classes={"batch": Usage(cpu=1.5)})
    state.fold([Arrived(0, encode(split), split.at + 1, b"m7")])
    assert state.ring.nbytes - bare < 50_000
    assert state.ring.class_means("batch").means(np.array([7, 8]))[:, 0].tolist()[0].count(1.5) == 1
    slots = {p: encode_position(state.ring, p) for p in range(S)}
    again = decode_ring(encode_vitals(state.ring), slots, {})
    assert 0 < again.class_means("batch").nbytes < 50_000
    assert sum(b"class_batch" in value for value in slots.values()) == 1
    crowd(state, names, 370)
    drop_silent(state, START + 3_700, 86_400)
    assert state.ring.class_means("batch").nbytes < 10_000


def test_facts_of_made_up_machines_are_bounded_too():
    state = partition(machines_max=3)
    crowd(state, ["a"], 0)
    told = [facts(machine=f"junk{n}") for n in range(9)] + [facts(machine="a")]
    outcome = state.fold([Arrived(n, encode(one), NOW, one.machine.encode()) for n, one in enumerate(told)], NOW)
    assert (outcome.counts["facts"], outcome.counts["rejected:machines"]) == (4, 6)
    assert [(message.offset, one.reason) for message, one in outcome.refused] == [(n, "machines") for n in range(3, 9)]
    assert "a" in state.facts
