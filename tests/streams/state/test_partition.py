"""A partition takes each message of its log once and in order, however they are delivered, and counts each once."""

import itertools
import random
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.messages.sample import InstanceMeans, InstanceReport, MachineFacts, Moments, Usage, encode
from streams.agent.__main__ import run
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import Partition, Position, Written, drop_silent, forget, refresh_tables
from tests.effort import examples
from tests.streams.agent.sampling.test_sampler import BOOT, FakeClock, Gauge, sampler_of
from tests.streams.batches import START, sample
from tests.streams.state.test_checkpoint import assert_same

WINDOWS = (300, 900, 3600)


def partition():
    state = Partition(0, Table(WINDOWS, Zone()))
    state.topic_id = "t1"
    return state


def facts(machine, at, boot=1, **labels):
    return MachineFacts(v=1, machine=machine, boot=boot, at=at, capacity={"cpu": 4.0}, labels=labels)


def message(offset, value=None, recorded_at=START):
    return Arrived(offset, value, recorded_at, b"m")


def log_of(count, seed):
    """A log of samples, facts, repeats, old ones and garbage."""
    rng = random.Random(seed)
    log = []
    for offset in range(count):
        slot = 716 + offset // 3  # an hour ends at 720
        kind = rng.random()
        if kind < 0.1:
            value = rng.choice([None, b"", b"{", b'{"type":"sample","v":2}', b"x" * 20_000])
        elif kind < 0.15:
            value = encode(facts(rng.choice("abc"), START + slot * 10, rack=str(rng.randint(0, 2))))
        elif kind < 0.2:
            value = encode(sample(rng.choice("abc"), slot - 702))
        else:
            value = encode(sample(rng.choice("abc"), slot - rng.choice((0, 0, 0, 1, 9)), seq=rng.randint(0, 3)))
        log.append(message(offset, value, START + slot * 10 + 5))
    return log


@settings(max_examples=examples(60, 600), deadline=None)
@given(data=st.data())
def test_any_delivery_ends_with_the_log_folded_once(data):
    """Duplicates, holes, replays, shuffled pieces: in the end the state and the counts are those of one pass."""
    count = data.draw(st.integers(1, 80))
    log = log_of(count, data.draw(st.integers(0, 2**16)))
    straight, wanted = partition(), {}
    straight.take(log)
    for name, value in straight.fold_pending().counts.items():
        wanted[name] = wanted.get(name, 0) + value

    state, counts, refused = partition(), {}, []
    pieces = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(1, 40)), max_size=30))
    mixed = data.draw(st.booleans())

    def fold():
        outcome = state.fold_pending()
        refused.extend(arrived.offset for arrived, _ in outcome.refused)
        for name, value in outcome.counts.items():
            counts[name] = counts.get(name, 0) + value

    def deliver(arrived):
        before = state.next_offset
        beyond = state.take(arrived)
        assert beyond is None or beyond > state.next_offset
        assert before <= state.next_offset <= count
        assert [a.offset for a in state.pending] == list(range(state.position.offset, state.next_offset))

    for number, (start, length) in enumerate(pieces):
        piece = log[start : start + length]
        if mixed and number % 3 == 0:
            piece = random.Random(number).sample(piece, len(piece))
        deliver(piece)
        if number % 2:
            fold()
    while state.next_offset < count:
        deliver(log[max(0, state.next_offset - 3) : state.next_offset + 11])
        fold()
    deliver(log)
    fold()
    assert state.position == Position("t1", count)
    assert {k: v for k, v in counts.items() if v and k not in ("accepted", "duplicate")} == {
        k: v for k, v in wanted.items() if v and k not in ("accepted", "duplicate")
    }
    assert sum(counts.values()) == count
    assert refused == sorted(set(refused))
    assert_same(state.ring, straight.ring)
    assert state.facts == straight.facts


@pytest.mark.parametrize(
    ("name", "offsets", "taken", "beyond"),
    [
        ("next in order", [5, 6, 7], [5, 6, 7], None),
        ("all known", [2, 3, 4], [], None),
        ("half known", [3, 4, 5, 6], [5, 6], None),
        ("a hole first", [7, 8], [], 7),
        ("a hole inside", [5, 6, 9, 10], [5, 6], 9),
        ("twice the same", [5, 5, 6, 6], [5, 6], None),
        ("a repeat as long as the hole after it", [5, 5, 7], [5], 7),
        ("a replay inside", [5, 6, 4, 5, 6, 7], [5, 6, 7], None),
        ("backwards", [7, 6, 5], [], 7),
        ("nothing", [], [], None),
    ],
)
def test_what_is_taken(name, offsets, taken, beyond):
    state = partition()
    state.next_offset = 5
    assert state.take([message(offset) for offset in offsets]) == beyond, name
    assert [a.offset for a in state.pending] == taken, name
    assert state.next_offset == 5 + len(taken)
    assert state.position.offset == 5


def test_the_position_moves_when_messages_are_folded_not_when_taken():
    """What is written must not claim what is only waiting."""
    state = partition()
    state.changed = False
    assert not state.unwritten
    state.take([message(0, encode(sample())), message(1, b"{")])
    assert (state.position.offset, state.next_offset) == (0, 2)
    assert state.unwritten
    state.fold_pending()
    assert state.position == Position("t1", 2)


def test_every_message_is_counted_once():
    """By what became of it; a refused one is kept with its reason and its place."""
    state, one = partition(), encode(sample("a", 400))
    values = [one, one, encode(sample("a", 3)), encode(facts("a", START)), b"{", None, encode(sample("not an id", 401))]
    outcome = state.fold([message(i, v, START + 4003) for i, v in enumerate(values)])
    refused = [(arrived.offset, refused.reason) for arrived, refused in outcome.refused]
    assert refused == [(4, "malformed"), (5, "empty"), (6, "machine-id")]
    counted = [name for name, count in outcome.counts.items() if count == 1]
    assert sorted(counted) == [
        "accepted",
        "duplicate",
        "facts",
        "late",
        *sorted(f"rejected:{why}" for _, why in refused),
    ]
    assert sum(outcome.counts.values()) == 7


@pytest.mark.parametrize(
    ("name", "messages", "label", "version"),
    [
        ("first", [facts("a", 1, zone="x")], "x", 1),
        ("the same again", [facts("a", 1, zone="x"), facts("a", 2, zone="x")], "x", 1),
        ("a change", [facts("a", 1, zone="x"), facts("a", 2, zone="y")], "y", 2),
        ("an older one later", [facts("a", 2, zone="x"), facts("a", 1, zone="y")], "x", 1),
        ("a later boot at the same time", [facts("a", 9, zone="x"), facts("a", 9, boot=2, zone="y")], "y", 2),
        ("an earlier boot that goes on", [facts("a", 1, boot=2, zone="x"), facts("a", 9, zone="y")], "y", 2),
    ],
)
def test_the_newest_facts_stand(name, messages, label, version):
    """Only a change of substance raises their version, which makes scorers read them again."""
    state = partition()
    state.fold([message(i, encode(m)) for i, m in enumerate(messages)])
    assert msgspec.json.decode(state.facts["a"])["labels"] == {"zone": label}, name
    assert state.facts_version == version
    assert state.changed_facts == {"a"}


def test_facts_are_kept_whole():
    """Doctor reads there which interfaces count; a change of them alone has scorers read nothing."""
    state, said = partition(), replace(facts("a", 2), interfaces={"names": "bond0, eno1"}, lacks={"disk": "none"})
    state.fold([message(0, encode(facts("a", 1))), message(1, encode(said))])
    assert msgspec.json.decode(state.facts["a"], type=MachineFacts) == said
    assert state.facts_version == 1


def test_a_label_that_flips_raises_the_version_at_a_bounded_rate():
    """A minute of flips, each in a batch of its own: the newest stand, the version rises every ten seconds."""
    state = partition()
    flips = [facts("a", START + tick, zone=str(tick)) for tick in range(61)]
    for tick, each in enumerate(flips):
        state.fold([message(tick, encode(each), START + tick)])
    assert msgspec.json.decode(state.facts["a"])["labels"] == {"zone": "60"}
    assert state.facts_version == 1 + 6
    state.fold([message(61, encode(facts("b", START + 60, zone="x")), START + 60)])
    assert state.facts_version == 8, "a new machine's facts are told at once"
    state.fold([message(62, encode(facts("b", START + 60, boot=2, zone="y")), START + 60)])
    assert state.facts_version == 9, "so is its first change"
    state.fold([message(63, encode(facts("b", START + 61, boot=2, zone="y")), START + 61)])
    assert state.facts_version == 10, "the flip that waited is told when its time has come"


def test_a_silent_machine_leaves_with_its_facts_and_the_rest_is_written_again():
    state = partition()
    state.fold([message(0, encode(sample("old", 0))), message(1, encode(facts("old", START)))])
    state.fold([message(2, encode(sample("new", 9000)), START + 90_003)])
    state.refresh_table()
    state.positions[:] = False
    state.hours.clear()
    state.changed = False
    assert drop_silent(state, START + 90_003, 86_400) == 1
    assert state.ring.machines == ["new"]
    assert state.facts == {}
    assert state.gone_facts == {"old"}
    assert state.unwritten
    assert state.positions.all()
    state.refresh_table()
    assert state.table.columns["at"][0] == START + 90_003
    assert drop_silent(state, START + 90_003, 86_400) == 0


@pytest.mark.parametrize(
    ("name", "messages", "forgotten_at", "left"),
    [
        ("silent since", [sample("a", 1), facts("a", START)], START + 1_000, []),
        ("only facts", [facts("a", START)], START + 1_000, []),
        ("it sends again", [sample("a", 1), facts("a", START), sample("a", 200)], START + 1_000, ["samples"]),
        ("it told its facts again", [sample("a", 1), facts("a", START + 1_500)], START + 1_000, ["facts"]),
        ("never heard of", [], START + 1_000, []),
    ],
)
def test_a_forgotten_machine_is_dropped_until_it_is_heard_of_again(name, messages, forgotten_at, left):
    """What was heard until then goes, others stay; a log that is read again ends the same."""
    state = partition()
    for _ in range(2):
        others = [sample("b", 1), facts("b", START)]
        state.fold([message(i, encode(m), START + 3_000) for i, m in enumerate([*messages, *others])])
        version, state.changed = state.facts_version, False
        gone = forget(state, {"a": forgotten_at, "b": START - 1})
        assert gone == (["a"] if messages and left != ["samples", "facts"] else []), name
        assert ["samples"] * ("a" in state.ring.row) + ["facts"] * ("a" in state.facts) == left, name
        assert "b" in state.ring.row
        assert "b" in state.facts
        assert state.changed == bool(gone)
        assert (state.facts_version > version) == ("a" in state.gone_facts)
        state.gone_facts.clear()
    assert forget(state, {}) == []


@pytest.mark.parametrize(
    ("name", "messages", "left"),
    [
        ("never a sample", [facts("a", START)], []),
        ("never a sample, said again not long ago", [facts("a", START), facts("a", START + 80_000)], ["a"]),
        ("said again by an older boot", [facts("a", START, boot=2), facts("a", START + 80_000)], ["a"]),
        ("fresh samples keep the oldest facts", [facts("a", START), sample("a", 8_999)], ["a"]),
        ("the samples are old, the facts are not", [sample("a", 0), facts("a", START + 80_000)], ["a"]),
    ],
)
def test_facts_live_as_long_as_their_machine_is_heard_of(name, messages, left):
    """A day after its last word a machine's facts go, windows or none, and scorers are told to read again."""
    state = partition()
    state.fold([message(i, encode(m), START + 90_000) for i, m in enumerate(messages)])
    version = state.facts_version
    state.changed = False
    drop_silent(state, START + 90_000, 86_400)
    assert list(state.facts) == left, name
    assert state.facts_version == version + (not left)
    assert state.changed or left


def test_reports_of_instances_are_applied_once_whatever_is_read_again():
    """With the sample that brings them; a refused sample's report does not count."""
    log = [
        encode(sample("m", slot, instance_report=InstanceReport(
            at=START + slot * 10, interval_s=60.0, entries={"a": InstanceMeans(cpu=float(slot))}
        )))
        for slot in (6, 12, 18)
    ]  # fmt: skip
    refused = encode(sample("m", 60, cpu=Moments(60_000, 1.0, 1.0, 1.0, 4.0), instance_report=InstanceReport(
        at=START + 600, interval_s=60.0, entries={"a": InstanceMeans(cpu=99.0)}
    )))  # fmt: skip
    state = partition()
    outcome = state.fold([message(n, value, START + 700) for n, value in enumerate([*log, refused, log[0]])])
    assert (outcome.usage.applied, outcome.usage.late) == (6, 1)
    assert outcome.counts == Counter({"accepted": 3, "duplicate": 1, "late": 0, "facts": 0, "rejected:readings": 1})
    row = state.usage.row["m\ta"]
    assert (state.usage.count[row], state.usage.at[row]) == (3, START + 180)
    np.testing.assert_allclose(state.usage.daily[0, row], 12.0)
    again = state.fold([message(n, value, START + 400) for n, value in enumerate(log)])
    assert (again.usage.applied, again.usage.late) == (0, 3 + 1)
    assert state.usage.count[row] == 3


def test_usage_goes_with_the_silent_and_the_forgotten():
    state = partition()
    for machine in ("m", "n"):
        report = InstanceReport(at=START, interval_s=60.0, entries={"a": InstanceMeans(cpu=1.0)})
        state.fold([message(0, encode(sample(machine, 0, instance_report=report)))])
    state.changed = state.usage.changed = False
    state.finish()
    assert not state.unwritten, "all usage is written"
    state.usage.changed = True
    assert not state.unwritten, "usage alone waits for its pace"
    state.finish()
    assert state.unwritten
    state.changed = state.usage.changed = False
    assert forget(state, {"n": START + 60}) == ["n"]
    assert (list(state.usage.row), state.changed, state.usage.changed) == (["m\t", "m\ta"], True, True)
    state.changed = False
    drop_silent(state, START + 60, 86_400)
    assert (list(state.usage.row), state.changed) == (["m\t", "m\ta"], False)
    drop_silent(state, START + 100_000, 86_400)
    assert len(state.usage) == 0


def test_only_rows_that_changed_are_computed_again():
    state, whole = partition(), partition()
    for step in range(40):
        messages = [message(step, encode(sample(m, 10 + step)), START + 1000) for m in ("abc"[step % 3], "b")]
        state.fold(messages)
        whole.fold(messages)
        if step % 4 == 0:
            state.refresh_table()
    state.refresh_table()
    whole.refresh_table()
    assert state.table.columns.keys() == whole.table.columns.keys()
    for name, column in whole.table.columns.items():
        np.testing.assert_array_equal(state.table.columns[name][..., :3], column[..., :3], err_msg=name)
    assert state.rows == []


@settings(max_examples=examples(40, 400), deadline=None)
@given(
    flushes=st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 2),
                st.sampled_from("abc"),
                st.sampled_from([0, 1, 1, 5, 359, 361, 8_000]),
                st.sampled_from([None, "prod", "batch"]),
            ),
            max_size=8,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_partitions_refreshed_together_are_as_if_each_alone(flushes):
    """The same columns, in the same bytes; classes and days included, and what changed by row."""
    together, alone = [partition() for _ in range(3)], [partition() for _ in range(3)]
    slot, offset = 10, itertools.count()
    for number, flush in enumerate(flushes):
        for place, machine, steps, of_class in flush:
            slot += steps
            classes = {of_class: Usage(cpu=1.5)} if of_class else None
            arrived = [message(next(offset), encode(sample(machine, slot, classes=classes)), START + slot * 10 + 13)]
            together[place].fold(arrived)
            alone[place].fold(arrived)
        refresh_tables(together, number)
        for one in alone:
            if one.rows:
                one.refresh_table(number)
    for one, other in zip(together, alone, strict=True):
        used = len(one.ring)
        assert one.write_number == other.write_number
        assert one.table.columns.keys() == other.table.columns.keys()
        for name, column in other.table.columns.items():
            np.testing.assert_array_equal(one.table.columns[name][..., :used], column[..., :used], err_msg=name)
        np.testing.assert_array_equal(one.table.versions, other.table.versions)


def test_what_was_refreshed_is_not_computed_again_unless_more_came():
    """So each write has a greater number than the one before, and rows of samples that came in between."""
    state = partition()
    state.written, state.rows = Written("t1", 0, 0), []
    refresh_tables([state], START)
    assert not state.refreshed, "no row has changed: the write needs its number still"
    state.fold([message(0, encode(sample("a", 10)), START + 113)])
    refresh_tables([state], START)
    assert state.refreshed
    state.fold([message(1, encode(sample("a", 11)), START + 123)])
    assert not state.refreshed
    state.refresh_table(START)
    state.written = Written("t1", 2, state.write_number)
    assert not state.refreshed


def published(shift_s):
    """What an agent publishes whose clock is so far ahead, each with the broker's time."""
    messages = []
    clock = FakeClock(BOOT + 3.5 + shift_s, ticks=45)

    def emit(message):
        messages.append((clock.epoch_s() - shift_s, message))
        return True

    run(sampler_of(Gauge()), clock, emit, 1e9)
    return messages


def fold(messages):
    state = Partition(0, Table((300,), Zone()))
    for offset, (at, message) in enumerate(messages):
        state.fold([Arrived(offset, encode(message), at, b"m1")], at)
    return state


@pytest.mark.parametrize("shift_s", [73.0, 8.0, -8.0, -60.0, -4000.0])
def test_a_clock_that_is_far_off_is_named(shift_s):
    """Whether its samples are refused, corrected no more, or late; for a quarter of an hour."""
    messages = published(shift_s)
    state = fold(messages)
    now_s = messages[-1][0]
    assert state.clocks.off(now_s) == {"m1": pytest.approx(shift_s, abs=1.5)}
    assert state.clocks.off(now_s + 901) == {}


@pytest.mark.parametrize("shift_s", [0.0, 3.0, -3.0])
def test_a_clock_that_is_corrected_is_not_named(shift_s):
    messages = published(shift_s)
    assert fold(messages).clocks.off(messages[-1][0]) == {}


def test_a_backlog_is_no_clock():
    """Samples that waited for the broker are sent at once, or one a second."""
    messages = published(0.0)
    for pace_s in (0.001, 1.0):
        sent = [(messages[-1][0] + pace_s * place, message) for place, (_, message) in enumerate(messages)]
        assert fold(sent).clocks.off(sent[-1][0]) == {}


def test_a_clock_that_is_right_again_is_named_no_more():
    wrong, right = published(-60.0), published(0.0)
    assert fold(wrong).clocks.off(wrong[-1][0]) != {}
    assert fold([*wrong, right[-1]]).clocks.off(right[-1][0]) == {}
