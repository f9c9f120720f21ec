"""Whatever is lost of stored state is found and blank, what stands is kept, and the log fills what it still can."""

import functools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.sample import MachineFacts, encode
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.ring import HOURS, S
from streams.fold.table import Table
from streams.state.checkpoint import encode_hour, encode_position, encode_vitals
from streams.state.manifest import Manifest, checksum, decode_manifest
from streams.state.partition import Partition
from streams.state.resume import Stored, resume
from tests.effort import examples
from tests.streams.batches import START, sample
from tests.streams.state.test_checkpoint import assert_same

SLOTS = 400
BATCH = 60
"""Messages folded at once; those of a value that is gone are folded one by one."""


def partition():
    return Partition(0, Table((300, 900, 3600), Zone()))


def log():
    """Samples of three machines over more than an hour, and their facts."""
    messages = [sample(m, slot, seq=slot) for slot in range(SLOTS) for m in "abc"]
    facts = [MachineFacts(v=1, machine=m, boot=1, at=START + 10.0, capacity={"cpu": 4.0}) for m in "abc"]
    return [Arrived(n, encode(one), one.at + 0.05, one.machine.encode()) for n, one in enumerate([*facts, *messages])]


def folded():
    state = partition()
    state.fold(log())
    state.refresh_table()
    return state


def stored(state):
    used, ring = len(state.ring), state.ring
    positions = {p: encode_position(ring, p) for p in range(S)}
    hours = {h: encode_hour(ring, h) for h in range(HOURS)}
    manifest = Manifest(vitals=checksum(encode_vitals(ring)))
    for p, value in positions.items():
        manifest.positions[p] = checksum(value) if ring.n[:used, :, p].any() else 0
    for h, value in hours.items():
        manifest.hours[h] = 0 if np.isnan(ring.peak[:used, :, h]).all() else checksum(value)
    manifest.set_facts(state.facts, state.facts, ())
    facts = {machine.encode(): value for machine, value in state.facts.items()}
    return Stored(encode_vitals(ring), dict(positions), dict(hours), facts), manifest


def again(resumed, batch=BATCH):
    """The partition that goes on from what was left, with the log read again from its start."""
    state = partition()
    state.ring, state.facts = resumed.ring, dict(resumed.facts)
    state.rebuild(resumed.lost_positions, resumed.lost_hours)
    messages = log()
    for first in range(0, len(messages), batch):
        state.fold(messages[first : first + batch])
    state.end_rebuild()
    return state


@pytest.mark.parametrize("verified", [True, False])
def test_values_that_are_gone_are_never_taken_for_covered(verified):
    """A quarter of the slots: without a manifest blank; with one also known to be lost, and exact once read again."""
    state = folded()
    values, manifest = stored(state)
    gone = random.Random(1).sample(sorted(values.positions), S // 4)
    values.positions = values.positions | dict.fromkeys(gone)
    resumed = resume(values, manifest if verified else None)
    assert not resumed.ring.n[:3, :, gone].any()
    assert resumed.lost["slots"] == (len(gone) if verified else 0)
    assert_same(again(resumed, 1).ring, state.ring)


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(lambda value: b"", id="empty"),
        pytest.param(lambda value: b"garbage", id="text"),
        pytest.param(lambda value: value[:-9], id="cut"),
        pytest.param(lambda value: value.replace(b'"f4"', b'"f9"').replace(b'"f8"', b'"f9"'), id="header"),
    ],
)
@pytest.mark.parametrize("kind", ["vitals", "slots", "peaks", "facts"])
def test_garbage_is_lost_and_rebuilt(kind, garbage, verified):
    """In any kind of value: the worker goes on and, the log being whole, ends with the same windows."""
    state = folded()
    values, manifest = stored(state)
    if kind == "vitals":
        values.vitals = garbage(values.vitals or b"")
    elif kind == "slots":
        values.positions = values.positions | {7: garbage(values.positions[7] or b"")}
    elif kind == "peaks":
        place = START // 3600 % HOURS
        values.hours = values.hours | {place: garbage(values.hours[place] or b"")}
    else:
        values.facts = {b"a": garbage(values.facts[b"a"])}
        if garbage(b'"f4"') == b'"f9"':
            return  # a change that leaves facts as they were
    resumed = resume(values, manifest if verified else None)
    assert resumed.lost[kind] > 0
    rebuilt = again(resumed)
    assert rebuilt.facts == state.facts
    for name in ("n", "mean", "m2", "max", "head", "at", "peak", "first_minute"):
        np.testing.assert_array_equal(getattr(rebuilt.ring, name)[:3], getattr(state.ring, name)[:3])


WRITTEN = functools.cache(lambda: stored(folded()))


@settings(max_examples=examples(60, 60), deadline=None)
@given(place=st.integers(0, S - 1), at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_changed_bit_is_found(place, at, bit):
    values, manifest = WRITTEN()
    for name, value in (("slots", values.positions[place]), ("vitals", values.vitals)):
        changed = bytearray(value or b"")
        changed[at % len(changed)] ^= 1 << bit
        broken = Stored(
            bytes(changed) if name == "vitals" else values.vitals,
            values.positions | ({place: bytes(changed)} if name == "slots" else {}),
            values.hours,
            values.facts,
        )
        assert resume(broken, manifest).lost[name] == 1


def test_what_the_log_no_longer_has_stays_uncovered():
    """Its windows cover less, and the peaks are known from after the gap on."""
    state = folded()
    values, manifest = stored(state)
    head = int(state.ring.head[0])
    lost = [(head - back) % S for back in range(100, 130)]
    values.positions = values.positions | dict.fromkeys(lost)
    resumed = resume(values, manifest)
    state = partition()
    state.ring = resumed.ring
    state.next_offset = 1203
    state.rebuild(resumed.lost_positions, resumed.lost_hours)
    assert state.rebuilt_at == 1203
    state.fold([one for one in log() if one.recorded_at > START + (SLOTS - 110) * 10])
    state.refresh_table()
    before = state.table.columns["peak_since"][0]
    uncovered = state.end_rebuild()
    state.refresh_table()
    assert uncovered == 20
    assert state.table.columns["coverage"][2, 0, 0] == pytest.approx((S - 20) / S)
    assert state.table.columns["peak_since"][0] > before
    assert state.table.columns["peak_since"][0] == pytest.approx((head - 109) * 10, abs=120)


def test_facts_that_are_gone_are_found():
    values, manifest = stored(folded())
    values.facts = {machine: value for machine, value in values.facts.items() if machine != b"b"}
    resumed = resume(values, manifest)
    assert resumed.lost["facts"] == 1
    assert resumed.facts.keys() == {"a", "c"}


@settings(deadline=None)
@given(
    offset=st.integers(0, 2**62), written_at=st.floats(0, 1e11), topic=st.text(max_size=40), cut=st.integers(1, 2000)
)
def test_a_manifest_comes_back_whole_or_not_at_all(offset, written_at, topic, cut):
    manifest = Manifest(vitals=3, facts_sum=2**40, facts_count=9, topic_id=topic, offset=offset, written_at=written_at)
    manifest.positions[:] = np.arange(S)
    raw = manifest.encode()
    back = decode_manifest(raw)
    assert (back.offset, back.written_at, back.topic_id, back.facts_sum) == (offset, written_at, topic, 2**40)
    np.testing.assert_array_equal(back.positions, manifest.positions)
    assert decode_manifest(raw[:-cut]) is None
    assert decode_manifest(raw[:4] + b"\x02" + raw[5:]) is None
    assert decode_manifest(None) is None


def test_the_sum_of_facts_follows_each_change():
    """Set, changed, removed: the same as that of the facts that are left."""
    straight, step = Manifest(), Manifest()
    step.set_facts({"a": b"1", "b": b"2"}, {"a", "b"}, ())
    step.set_facts({"a": b"3"}, {"a"}, {"b"})
    straight.set_facts({"a": b"3"}, {"a"}, ())
    assert (step.facts_sum, step.facts_count) == (straight.facts_sum, straight.facts_count)
