"""The fold against the oracle: order, repetition, gaps and restarts leave the state that the definition gives."""

import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.sample import Moments, Sample
from schemas.resources import RESOURCES
from streams.fold.batch import to_batch
from streams.fold.fold import Folded, active, fold, heard, skew_s
from streams.fold.peaks import Zone, day_peaks
from streams.fold.ring import Ring
from streams.fold.windows import window_columns
from tests.effort import examples
from tests.streams import oracle

START = 1_790_000_000 // 86_400 * 86_400
WINDOWS = (300, 900, 3600)


def sample(machine, slot, rng, **more):
    """A plausible sample of one slot after START."""
    readings = int(more.pop("n", 10))

    def moments(scale):
        values = [rng.uniform(0, scale) for _ in range(readings)]
        mean = sum(values) / readings
        return Moments(readings, mean, sum((v - mean) ** 2 for v in values), max(values), scale)

    fields = {
        "v": 1,
        "machine": machine,
        "boot": 1,
        "seq": slot,
        "at": START + slot * 10 + 3.0,
        "interval_s": 10.0,
        "cpu": moments(64.0),
        "memory": moments(6.4e10),
    }
    if rng.random() < 0.7:
        fields["nic"] = moments(1.25e9)
    return Sample(**(fields | more))


def fold_all(samples, batch=1000, delay_s=0.05):
    """Fold samples in batches; counts are summed."""
    ring, total = Ring(), Folded()
    for start in range(0, len(samples), batch):
        part = samples[start : start + batch]
        done = fold(ring, to_batch(part, [s.at + delay_s for s in part]))
        total.accepted += done.accepted
        total.duplicate += done.duplicate
        total.late += done.late
    return ring, total


def assert_matches(ring, samples, peaks=True):
    """Every machine's windows and peaks are those of the oracle."""
    rows = np.arange(len(ring))
    columns = window_columns(ring, rows, WINDOWS)
    days = day_peaks(ring, rows, Zone("UTC"))
    for machine, row in ring.row.items():
        mine = [s for s in samples if s.machine == machine]
        yesterday, today, tomorrow = oracle.utc_days(float(ring.head[row] * 10))
        for r, resource in enumerate(RESOURCES):
            for w, window_s in enumerate(WINDOWS):
                wanted = oracle.window(mine, resource, window_s)
                for name, value in wanted.items():
                    got = columns[name][row, w, r]
                    exact = name == "filled"
                    np.testing.assert_allclose(got, value, rtol=0 if exact else 1e-6, err_msg=f"{machine} {name}")
            if peaks:
                for name, begin, end in (("peak_today", today, tomorrow), ("peak_yesterday", yesterday, today)):
                    wanted_peak = oracle.peak(mine, resource, begin, end)
                    np.testing.assert_allclose(days[name][row, r], wanted_peak, rtol=1e-6, err_msg=f"{machine} {name}")


@settings(max_examples=examples(60, 600), deadline=None)
@given(data=st.data())
def test_order_and_repetition_do_not_matter(data):
    """Any order within the ring, any repetition and any batch size leave bit-equal state."""
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    machines = ["a", "b", "c", "d"][: data.draw(st.integers(1, 4))]
    span = data.draw(st.integers(1, 400))
    slots = data.draw(st.lists(st.integers(0, span), min_size=1, max_size=60))
    samples = [
        sample(rng.choice(machines), s, rng, n=rng.randint(1, 10), boot=rng.randint(1, 2), seq=seq)
        for seq, s in enumerate(slots)
    ]
    shuffled = samples + [rng.choice(samples) for _ in range(data.draw(st.integers(0, 20)))]
    newest = {m: max((s.at for s in samples if s.machine == m), default=0) for m in machines}
    # Reordering can make a sample late only when it is older than the ring; those are kept out here.
    fresh = [s for s in shuffled if s.at > newest[s.machine] - 3000]
    kept = {id(s) for s in fresh}
    rng.shuffle(fresh)
    straight, _ = fold_all([s for s in samples if id(s) in kept])
    ring, total = fold_all(fresh, batch=data.draw(st.integers(1, 40)))
    assert total.accepted + total.duplicate + total.late == len(fresh)
    order = [straight.row[m] for m in ring.machines]
    for name in ("head", "at", "n", "mean", "m2", "max", "slot_boot", "slot_seq", "minute", "capacity"):
        left, right = getattr(ring, name)[: len(ring)], getattr(straight, name)[order]
        if name in ("mean", "m2", "max"):
            filled = ring.n[: len(ring)] > 0
            left, right = left[filled], right[filled]
        np.testing.assert_array_equal(left, right, err_msg=name)
    assert_matches(ring, [s for s in samples if id(s) in kept])


@settings(max_examples=examples(40, 400), deadline=None)
@given(data=st.data())
def test_gaps_of_any_length_forget_what_is_older_than_the_ring(data):
    """Samples in order with gaps up to days: the same as the oracle, peaks included, whatever the batches."""
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    steps = data.draw(st.lists(st.sampled_from([1, 1, 1, 2, 5, 61, 359, 360, 361, 900, 9000]), min_size=1, max_size=80))
    slots = np.cumsum(steps)
    samples = [sample("a", int(s), rng, n=3) for s in slots]
    ring, total = fold_all(samples, batch=data.draw(st.integers(1, 100)))
    assert total.accepted == len(samples)
    assert_matches(ring, samples)


def test_a_sample_older_than_the_ring_is_late_and_refreshes_nothing():
    """The very slot that leaves the ring is late, the one after it is not."""
    rng = random.Random(3)
    ring, _ = fold_all([sample("a", 1000, rng)])
    late = fold(ring, to_batch([sample("a", 640, rng)], [START + 10_003.0]))
    assert (late.late, late.accepted) == (1, 0)
    assert ring.at[0] == START + 10_003
    kept = fold(ring, to_batch([sample("a", 641, rng)], [START + 10_003.0]))
    assert (kept.late, kept.accepted) == (0, 1)


def test_of_two_samples_for_a_slot_the_larger_wins_whatever_comes_first():
    """More readings beat fewer; at equal readings the later boot, then the later number."""
    rng = random.Random(4)
    few, many = sample("a", 5, rng, n=4, boot=9), sample("a", 5, rng, n=6, boot=1)
    rebooted = sample("a", 6, rng, n=5, boot=2, seq=0, nic=None)
    before = sample("a", 6, rng, n=5, boot=1, seq=99, nic=None)
    for order in ([few, many, rebooted, before], [many, few, before, rebooted]):
        for batch in (1, 10):
            ring, _ = fold_all(order, batch=batch)
            assert_matches(ring, [many, rebooted])


def test_a_machine_is_active_for_three_of_its_intervals():
    """Three minutes at least; a slow machine is given longer."""
    rng = random.Random(8)
    slow = msgspec.structs.replace(sample("slow", 0, rng), interval_s=300.0)
    ring, _ = fold_all([sample("quick", 0, rng), slow])
    newest = float(ring.at.max())
    assert [active(ring, newest + after_s) for after_s in (170, 200, 890, 910)] == [2, 1, 1, 0]


def test_a_silent_machine_is_dropped_and_the_others_stay():
    rng = random.Random(7)
    samples = [sample("old", 0, rng)] + [sample("new", s, rng) for s in range(8700, 8760)]
    ring, _ = fold_all(samples)
    ring.keep(heard(ring, START + 87_700, 86_400))
    assert ring.machines == ["new"]
    assert_matches(ring, samples[1:])


@pytest.mark.parametrize(
    ("name", "delays", "wanted"),
    [
        ("no delay", [0.0, 0.0], 0.0),
        ("transport only", [0.2, 0.05, 0.3], -0.05),
        ("two seconds ahead", [-2.0, -1.9], 2.0),
        ("three seconds behind", [3.0, 3.1], -3.0),
        ("beyond five seconds is age", [8.0, 9.0], 0.0),
        ("a backlog teaches nothing", [0.1, 1800.0], -0.1),
    ],
)
def test_skew_is_learned_from_the_least_delay(name, delays, wanted):
    """The least delay of live samples is the clock's error."""
    rng = random.Random(8)
    ring = Ring()
    for slot, delay in enumerate(delays):
        one = sample("a", slot, rng)
        fold(ring, to_batch([one], [one.at + delay]))
    assert skew_s(ring, np.array([0]))[0] == pytest.approx(wanted, abs=1e-6), name
