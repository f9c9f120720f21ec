"""Reading messages into columns: what is refused, what is left out, and what the columns hold."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.sample import MachineFacts, Moments, Usage, encode
from schemas.names import SLOT_S
from streams.fold.admission import FUTURE_TOLERANCE_S
from streams.fold.batch import read_messages, to_batch
from streams.fold.ring import R
from tests.effort import examples
from tests.streams.batches import START, sample

AT = START + 3.0


FACTS = MachineFacts(v=1, machine="m", boot=1, at=AT)


def later(message, seconds):
    return msgspec.structs.replace(message, at=message.at + seconds)


ROWS = [
    ("a good sample", sample(), "", ""),
    ("good facts", FACTS, "", ""),
    ("an hour old", later(sample(), -3600), "", ""),
    ("as far ahead as is borne", later(sample(), FUTURE_TOLERANCE_S), "", ""),
    ("ahead of the record", later(sample(), 10.5), "future", "at is 10.5 s ahead of the record, at most 10"),
    ("a day ahead", later(sample(), 86_400), "future", "86400.0 s ahead"),
    ("facts ahead of the record", later(FACTS, 11), "future", "11.0 s ahead"),
    ("the shortest interval", sample(interval_s=SLOT_S), "", ""),
    ("an interval below the slot", sample(interval_s=9.99), "interval", "interval_s is 9.99, at least 10"),
    ("a machine with a space", sample("a b"), "machine-id", "'a b'"),
    ("facts of a machine with a newline", msgspec.structs.replace(FACTS, machine="a\nb"), "machine-id", "'a\\nb'"),
    ("another version", msgspec.structs.replace(sample(), v=2), "version", "v is 2, this reader knows 1"),
    ("no resource", sample(cpu=None, memory=None), "no-resource", "none of"),
    ("impossible", sample(cpu=Moments(1, 5.0, 0.0, 4.0, 8.0)), "impossible", "max 4.0"),
    ("empty", None, "empty", ""),
    ("garbage", b"garbage", "malformed", ""),
    ("over-long", b"[" * 17_000, "too-long", "17000 bytes"),
]


@pytest.mark.parametrize(("name", "message", "reason", "detail"), ROWS, ids=[row[0] for row in ROWS])
def test_each_message_is_a_sample_or_facts_or_refused(name, message, reason, detail):
    """One that is wrong does not touch its neighbours."""
    raw = message if message is None or isinstance(message, bytes) else encode(message)
    before, after = encode(sample("before")), encode(sample("after", 1))
    samples, places, facts, refused = read_messages([before, raw, after], [AT, AT, AT + 10])
    assert [s.machine for s in samples if s.machine in ("before", "after")] == ["before", "after"]
    assert len(samples) + len(facts) + len(refused) == 3
    if reason:
        assert places == [0, 2]
        assert [(r.index, r.reason) for r in refused] == [(1, reason)], name
        assert detail in refused[0].detail
    else:
        assert refused == []
        assert places == ([0, 2] if facts else [0, 1, 2])


def test_every_reason_of_the_stream_is_in_the_table():
    """The closed set: metrics and the rejects topic know these and no others."""
    reasons = "empty too-long malformed version no-resource impossible machine-id future interval"
    assert {row[2] for row in ROWS if row[2]} == set(reasons.split())


def test_a_known_machine_is_not_checked_again():
    """The check of an id costs more than looking it up."""
    samples, _, _, refused = read_messages([encode(sample("a b"))], [AT], known={"a b"})
    assert len(samples) == 1
    assert refused == []


def test_columns_hold_the_samples():
    """A resource that is left out has no readings and no capacity; nothing is taken for zero usage."""
    samples = [
        sample("a", 0, nic=Moments(7, 5.0, 2.0, 9.0, 100.0)),
        sample("b", 3, cpu=None, classes={"prod": Usage(cpu=1.0)}, interval_s=60.0, boot=9, seq=4),
        sample("a", 1, classes={}),
    ]
    batch = to_batch(samples, [AT, AT + 30, AT + 10])
    assert batch.machines == ["a", "b", "a"]
    np.testing.assert_array_equal(batch.slot - START // 10, [0, 3, 1])
    np.testing.assert_array_equal(batch.n[:, :3], [[10, 10, 7], [0, 10, 0], [10, 10, 0]])
    np.testing.assert_array_equal(batch.mean[:, :3], [[1.0, 1e9, 5.0], [0, 4e9, 0], [2.0, 2e9, 0]])
    np.testing.assert_array_equal(np.isnan(batch.capacity[:, :3]), [[0, 0, 0], [1, 0, 1], [0, 0, 1]])
    np.testing.assert_array_equal(batch.max[:, 2], [9.0, 0, 0])
    np.testing.assert_array_equal(batch.m2[:, 2], [2.0, 0, 0])
    np.testing.assert_array_equal(batch.interval_s, [10, 60, 10])
    np.testing.assert_array_equal(batch.boot, [1, 9, 1])
    np.testing.assert_array_equal(batch.seq, [0, 4, 1])
    assert [(index, s.machine) for index, s in batch.classes] == [(1, "b")]


@given(chosen=st.lists(st.integers(0, 5), unique=True))
@settings(max_examples=examples(30, 300))
def test_taking_keeps_rows_together(chosen):
    """Any choice, by place or by mask, takes the same rows of every column."""
    samples = [sample(f"m{i}", i, classes={"prod": Usage(cpu=float(i))} if i % 2 else None) for i in range(6)]
    batch = to_batch(samples, [AT + 10 * i for i in range(6)])
    taken = batch.take(np.array(chosen, np.intp))
    assert taken.machines == [f"m{i}" for i in chosen]
    np.testing.assert_array_equal(taken.slot, batch.slot[chosen])
    np.testing.assert_array_equal(taken.mean, batch.mean[chosen])
    assert [(i, s.machine) for i, s in taken.classes] == [(chosen.index(m), f"m{m}") for m in (1, 3, 5) if m in chosen]
    mask = np.isin(np.arange(6), chosen)
    assert batch.take(mask).machines == [f"m{i}" for i in sorted(chosen)]


def test_an_empty_batch_has_all_columns():
    """When everything was refused there is nothing to fold, and that is no error."""
    batch = to_batch([], [])
    assert len(batch) == 0
    assert batch.mean.shape == (0, R)
