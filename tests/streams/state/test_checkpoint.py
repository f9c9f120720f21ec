"""What is written to Redis is the whole state: decoding gives the ring back, bit by bit, whatever happened to it."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.sample import Usage, encode
from schemas.tables.window_table import Header, TableError, decode_table, encode_table
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.ring import HOURS, MINUTES, PEAKS, SLOTS, VITALS, R, Ring, S
from streams.fold.table import Table
from streams.state.checkpoint import blank_place, encode_hour, encode_position, encode_vitals
from streams.state.partition import Partition, drop_silent
from tests.effort import effort, examples
from tests.streams import golden_values as golden_state
from tests.streams.batches import START, sample
from tests.streams.golden_values import HOUR, POSITION, decode_ring

WINDOWS = (300, 900, 3600)


def values(ring):
    positions = {p: encode_position(ring, p) for p in range(S)}
    return encode_vitals(ring), positions, {h: encode_hour(ring, h) for h in range(HOURS)}


def assert_same(got, wanted, case=""):
    """Two rings are equal in every array, row and class, to the bit."""
    assert got.machines == wanted.machines, case
    assert got.row == wanted.row
    used = len(wanted)
    for name in (*VITALS, *SLOTS, *PEAKS, *MINUTES):
        np.testing.assert_array_equal(getattr(got, name)[:used], getattr(wanted, name)[:used], err_msg=f"{case} {name}")
    for name in got.classes.keys() | wanted.classes.keys():
        left, right = (r.class_means(name).means(np.arange(used)) for r in (got, wanted))
        np.testing.assert_array_equal(left, right, err_msg=f"{case} {name}")


class Stored:
    """What a store holds that is given only what changed, as `streams.worker.store` does."""

    def __init__(self):
        self.vitals = b""
        self.positions = {}
        self.hours = {}

    def write(self, state):
        """Take what changed, and return the ring as it would be loaded."""
        self.vitals = encode_vitals(state.ring)
        self.positions |= {int(p): encode_position(state.ring, int(p)) for p in state.positions.nonzero()[0]}
        self.hours |= {hour: encode_hour(state.ring, hour) for hour in state.hours}
        state.positions[:] = False
        state.hours.clear()
        state.refresh_table()
        return self.read()

    def read(self):
        return decode_ring(self.vitals, self.positions, self.hours)


def partition(zone="UTC"):
    return Partition(0, Table(WINDOWS, Zone(zone)))


def arrived(samples):
    return [Arrived(i, encode(s), s.at + 0.05, s.machine.encode()) for i, s in enumerate(samples)]


HISTORY = st.lists(
    st.one_of(
        st.tuples(st.just("fold"), st.sampled_from([1, 2, 7, 31, 200, 361, 4000, 18_000, 40_000]), st.integers(1, 12)),
        st.tuples(st.just("join"), st.integers(1, 20), st.just(0)),
        st.tuples(st.just("drop"), st.integers(1, 30), st.just(0)),
        st.tuples(st.just("flush"), st.just(0), st.just(0)),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=examples(8, 300), deadline=None)
@given(history=HISTORY, seed=st.integers(0, 2**32 - 1), zone=st.sampled_from(["UTC", "Asia/Kathmandu"]))
def test_what_is_written_is_the_ring(history, seed, zone):
    """Grown, dropped, gapped, partly filled: the values a worker writes, only what changed each time, give it back."""
    rng = random.Random(seed)
    state = partition(zone)
    names = ["a", "b"]
    slot = 0
    stored = Stored()
    for what, amount, count in [*history, ("fold", 1, 2), ("flush", 0, 0)]:
        if what == "fold":
            slot += amount
            usage = {"prod": Usage(cpu=1.0 + rng.random())} if rng.random() < 0.3 else None
            samples = [
                sample(rng.choice(names), max(0, slot - rng.randint(0, 30)), seq=rng.randint(0, 9), classes=usage)
                for _ in range(count)
            ]
            state.fold(arrived(samples))
        elif what == "join":
            names += [f"m{len(names) + i}" for i in range(amount)]
        elif what == "drop":
            drop_silent(state, START + slot * 10.0, amount * 3600)
        else:
            assert_same(stored.write(state), state.ring)
    again = Partition(0, Table(WINDOWS, Zone(zone)), stored.read())
    again.write_number = state.write_number
    again.refresh_table()
    state.forget_written()
    state.refresh_table()
    assert again.table.encode(again.ring, {}) == state.table.encode(state.ring, {})


@pytest.mark.long
def test_hours_that_nobody_filled_are_cleared_in_what_is_written():
    """An hour's place holds the hour 50 before until it is cleared, in Redis as in memory."""
    state, stored = partition(), Stored()
    for number, minutes in enumerate((*range(0, 51 * 60, 59), *range(75 * 60, 100 * 60, 59))):
        state.fold(arrived([sample("a", minutes * 6)]))
        written = stored.write(state)
        if number % effort(6, 1) == 0 or minutes >= 98 * 60:
            assert_same(written, state.ring, minutes)


def test_values_that_expired_leave_blanks():
    """A position or an hour that Redis no longer has is empty, and the rest is as it was."""
    state = partition()
    state.fold(arrived([sample("a", s) for s in range(100)]))
    vitals, positions, hours = values(state.ring)
    del positions[(START // 10 + 50) % S]
    hours.clear()
    ring = decode_ring(vitals, positions, hours)
    assert (ring.n[0, 0] > 0).sum() == 99
    assert np.isnan(ring.peak).all()


@pytest.mark.parametrize(("columns", "cleared"), [(SLOTS, True), (PEAKS, False)])
def test_a_class_goes_with_the_slots_of_its_place(columns, cleared):
    """A position of slots that was lost takes the classes' means there along; an hour of peaks does not."""
    ring = Ring()
    ring.add(["m"])
    ring.class_means("batch").set(0, 5, np.arange(R))
    blank_place(ring, 5, columns)
    assert (ring.class_means("batch").at(5, 1) is None) == cleared


def test_a_position_written_before_a_machine_joined_leaves_it_blank():
    """A value may have fewer rows than there are machines now."""
    state = partition()
    state.fold(arrived([sample("a", 1)]))
    old = encode_position(state.ring, int(state.positions.nonzero()[0][0]))
    state.fold(arrived([sample("b", 2)]))
    ring = decode_ring(encode_vitals(state.ring), {5: old}, {})
    assert ring.machines == ["a", "b"]
    assert ring.n[1].sum() == 0


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.9])
def test_a_cut_value_is_refused(kept):
    state = partition()
    state.fold(arrived([sample("a", 1)]))
    vitals, positions, hours = values(state.ring)
    for kind in (
        (vitals[: int(kept * len(vitals))], positions, hours),
        (vitals, {3: positions[3][: int(kept * len(positions[3]))]}, hours),
        (vitals, positions, {3: hours[3][: int(kept * len(hours[3]))]}),
    ):
        with pytest.raises(TableError):
            decode_ring(*kind)


def test_the_golden_checkpoint_is_read():
    """The golden state: vitals, one position and one hour; the others are blank."""
    ring = decode_ring(golden("vitals"), {POSITION: golden("position")}, {HOUR: golden("hour")})
    wanted = golden_state.state().ring
    assert ring.machines == wanted.machines == ["db1.example.org", "db2"]
    for names, place in ((VITALS, ()), (SLOTS, POSITION), (PEAKS, HOUR)):
        for name in names:
            got, full = getattr(ring, name)[:2], getattr(wanted, name)[:2]
            got, full = (got, full) if place == () else (got[..., place], full[..., place])
            np.testing.assert_array_equal(got, full, err_msg=name)
    assert (ring.mean[1, :2, POSITION].tolist(), ring.n[1, :2, POSITION].tolist()) == ([7.0, 7e9], [10, 10])
    assert not ring.n[0, :, POSITION].any()
    assert set(ring.classes) == {"prod"}
    assert ring.classes["prod"].means(np.arange(2))[1, :4, POSITION].tolist() == [0.75, 64.0, 0.0, 0.0]


def test_a_newer_minor_checkpoint_is_read_without_what_is_unknown():
    """More vitals, more of each slot and hour, a class this version has no name for."""
    state = golden_state.state()
    vitals, positions, hours = values(state.ring)
    again = decode_ring(
        newer(vitals, kernel=np.ones(2), delay=None),
        {p: newer(raw, min=np.ones((3, 2), "f4"), class_spot=np.ones((3, 2), "f4")) for p, raw in positions.items()},
        {h: newer(raw, trough=np.ones((3, 2), "f4")) for h, raw in hours.items()},
    )
    assert np.isinf(again.delay).all()
    again.delay[:2] = state.ring.delay[:2]
    assert_same(again, state.ring)
    assert set(again.classes) == {"prod"}


@pytest.mark.parametrize("kind", ["vitals", "position", "hour"])
def test_another_major_checkpoint_is_refused_by_name(kind):
    parts = {name: golden(name) for name in ("vitals", "position", "hour")}
    parts[kind] = parts[kind][:7] + b"\x02" + parts[kind][8:]
    with pytest.raises(TableError, match="major version 2; this reader knows 1"):
        decode_ring(parts["vitals"], {POSITION: parts["position"]}, {HOUR: parts["hour"]})


def golden(kind):
    return (Path(__file__).parent / "golden" / f"{kind}.v1.bin").read_bytes()


def newer(raw, **columns):
    """The value as a later minor version would write it: with these columns too, and without those that are None."""
    table = decode_table(raw)
    kept = {name: column for name, column in (dict(table.columns) | columns).items() if column is not None}
    header = Header(minor=7, machines=table.header.machines, windows_s=(), columns=[])
    return encode_table(header, dict(reversed(kept.items())), table.names)
