"""Window statistics against numpy: percentiles, moments, coverage, and what happens after millions of samples."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.messages.sample import Usage
from schemas.tables.window_table import PERCENTILES, WARMING_COVERAGE
from streams.fold.batch import to_batch
from streams.fold.fold import fold
from streams.fold.ring import RING_MINUTES, R, Ring, S
from streams.fold.windows import about, check_windows, class_means, pool, window_columns
from tests.effort import effort, examples
from tests.streams.batches import START, batch_of, moments_of, sample

WINDOWS = (300, 900, 3600)
ROW = np.array([0])


def filled_ring(slots, means, **more):
    """A ring of one machine whose slots hold these means."""
    ring = Ring()
    fold(ring, batch_of(["m"] * len(slots), START + np.asarray(slots) * 10.0 + 5, means, **more))
    return ring


@settings(max_examples=examples(60, 600), deadline=None)
@given(
    pattern=st.sets(st.integers(0, S - 1), min_size=1, max_size=S),
    seed=st.integers(0, 2**32 - 1),
    ties=st.booleans(),
    absent=st.sampled_from([0.0, 0.3]),
)
def test_percentiles_are_numpys_for_any_fill_pattern(pattern, seed, ties, absent):
    """Over the filled slot means of each window and resource, with gaps, ties and slots that lack the resource."""
    rng = np.random.default_rng(seed)
    slots = np.array(sorted(pattern))
    means = rng.integers(0, 4, (len(slots), R)).astype(float) if ties else rng.uniform(0, 1e11, (len(slots), R))
    means[rng.random(means.shape) < absent] = np.nan
    columns = window_columns(filled_ring(slots, means), ROW, WINDOWS)
    for w, window_s in enumerate(WINDOWS):
        inside = means[slots > slots[-1] - window_s // 10]
        for r in range(R):
            held = inside[~np.isnan(inside[:, r]), r].astype(np.float32)
            assert columns["filled"][0, w, r] == len(held)
            wanted = (
                np.quantile(held, np.array(PERCENTILES) / 100, method="inverted_cdf")
                if len(held)
                else np.full(len(PERCENTILES), np.nan)
            )
            np.testing.assert_array_equal(columns["percentile"][0, w, r], wanted)


@settings(max_examples=examples(60, 600), deadline=None)
@given(
    pattern=st.sets(st.integers(0, S - 1), min_size=1, max_size=80),
    seed=st.integers(0, 2**32 - 1),
    offset=st.sampled_from([0.0, 1e9, 2.0**36]),
    spread=st.sampled_from([0.5, 100.0, 1e6]),
)
def test_mean_std_and_max_are_those_of_all_raw_readings(pattern, seed, offset, spread):
    """Whatever each slot holds, the window is what numpy says of the concatenated readings, also on a large offset."""
    rng = np.random.default_rng(seed)
    slots = np.array(sorted(pattern))
    readings = [offset + rng.uniform(0, spread, rng.integers(1, 11)) for _ in slots]
    n, mean, m2, largest = (np.array(v)[:, None] for v in zip(*map(moments_of, readings), strict=True))
    columns = window_columns(filled_ring(slots, mean[:, 0], n=n, m2=m2, max=largest), ROW, WINDOWS)
    for w, window_s in enumerate(WINDOWS):
        inside = np.concatenate([x for s, x in zip(slots, readings, strict=True) if s > slots[-1] - window_s // 10])
        exact = inside.astype(np.longdouble)
        np.testing.assert_allclose(columns["mean"][0, w, 0], float(exact.mean()), rtol=1e-14)
        np.testing.assert_allclose(
            columns["std"][0, w, 0], float(exact.std()), rtol=1e-6, atol=1e-15 * offset, err_msg=str(window_s)
        )
        assert columns["max"][0, w, 0] == np.float32(inside.max())


def test_a_small_spread_is_kept_where_the_newest_slots_lack_the_resource():
    """Sums are about its newest slot that is filled, which may be an old one."""
    means = 2.0**36 + np.random.default_rng(1).normal(0, 1, (60, R))
    means[50:, 1] = np.nan
    columns = window_columns(filled_ring(np.arange(60), means), ROW, WINDOWS)
    for r, held in ((0, means[:, 0]), (1, means[:50, 1])):
        assert columns["std"][0, 2, r] == pytest.approx((held - 2.0**36).std(), rel=1e-4)


def test_what_left_the_ring_leaves_nothing_behind():
    """An hour after a burst, with its slots empty since, its maximum and mean are gone; also for slots of 1970."""
    for first in (-START, 0.0):
        ring = Ring()
        fold(ring, batch_of(["m"], START + first, [9.0]))
        assert window_columns(ring, ROW, WINDOWS)["max"][0, 2, 0] == 9.0
        fold(ring, batch_of(["m"], START + first + 3650.0, [1.0]))
        columns = window_columns(ring, ROW, WINDOWS)
        for name in ("mean", "max"):
            np.testing.assert_array_equal(columns[name][0, :, 0], 1.0, err_msg=name)
        np.testing.assert_array_equal(columns["filled"][0], 1)


def test_usage_by_class_goes_with_its_sample():
    """A slot set again by a sample without classes, or one that left the ring, no longer counts for the class."""
    ring = Ring()
    for slot, more in ((0, 4.0), (1, 8.0)):
        fold(ring, to_batch([sample("m", slot, classes={"prod": Usage(cpu=more)})], [START + 13.0]))
    assert class_means(ring, ROW, WINDOWS, "prod")[0, :, 0].tolist() == [6.0] * 3
    fold(ring, to_batch([sample("m", 1, boot=2)], [START + 13.0]))
    assert class_means(ring, ROW, WINDOWS, "prod")[0, 2, 0] == 4.0
    fold(ring, to_batch([sample("m", 360)], [START + 3603.0]))
    assert np.isnan(class_means(ring, ROW, WINDOWS, "prod")).all()


@pytest.mark.parametrize(
    ("name", "interval_s", "minutes", "wanted"),
    [
        ("every slot, an hour", 10, 60, (1, 1, 1)),
        ("every slot, half an hour", 10, 30, (1, 1, 0.5)),
        ("every slot, five minutes", 10, 5, (1, 1 / 3, 1 / 12)),
        ("every slot, two minutes", 10, 2, (0.4, 12 / 90, 12 / 360)),
        ("every 15 s, an hour", 15, 60, (1, 1, 1)),
        ("every 15 s, ten minutes", 15, 10, (1, 2 / 3, 1 / 6)),
        ("every minute, an hour", 60, 60, (1, 1, 1)),
        ("every minute, 15 minutes", 60, 15, (1, 1, 0.25)),
        ("every five minutes, an hour", 300, 60, (1, 1, 1)),
        ("every five minutes, one sample", 300, 5, (1, 1 / 3, 1 / 12)),
        ("every hour, longer than two windows", 3600, 60, (1, 1, 1)),
    ],
)
def test_coverage_is_of_the_slots_the_interval_can_fill(name, interval_s, minutes, wanted):
    """A slower machine is not warming for its interval; a young one is, whatever its interval."""
    count = int(minutes * 60 // interval_s)
    ring = Ring()
    at = START + (np.arange(count) + 1) * interval_s
    fold(ring, batch_of(["m"] * count, at, np.ones(count), interval_s=interval_s))
    coverage = window_columns(ring, ROW, WINDOWS)["coverage"][0, :, 0]
    np.testing.assert_allclose(coverage, wanted, rtol=1e-6, err_msg=name)
    assert [bool(c < WARMING_COVERAGE) for c in coverage] == [w < 0.5 for w in wanted]


@settings(max_examples=examples(80, 800), deadline=None)
@given(interval_s=st.floats(10, 300), phase_s=st.floats(0, 300), lost=st.integers(0, 2))
def test_any_interval_and_phase_cover_their_windows_after_an_hour(interval_s, phase_s, lost):
    """Coverage is 1 with nothing lost and never above; a lost sample shows as one slot of those it can fill."""
    at = START + phase_s + np.arange(int(3900 // interval_s)) * interval_s
    keep = np.ones(len(at), bool)
    keep[len(at) - 2 : len(at) - 2 - lost : -1] = False
    ring = Ring()
    fold(ring, batch_of(["m"] * int(keep.sum()), at[keep], np.ones(int(keep.sum())), interval_s=interval_s))
    columns = window_columns(ring, ROW, WINDOWS)
    for w, window_s in enumerate(WINDOWS):
        can_fill = window_s // interval_s
        assert columns["coverage"][0, w, 0] <= 1
        assert columns["coverage"][0, w, 0] >= (can_fill - lost) / can_fill - 1e-6


def test_rows_may_be_asked_for_in_any_order_and_number():
    """More machines than a ring has slots, and a few out of order, give the same rows."""
    ring = Ring()
    machines = [f"m{i}" for i in range(400)]
    rng = np.random.default_rng(3)
    for slot in range(0, 40, 2):
        at = START + np.repeat([slot, slot + 1], 400) * 10.0 + 5
        assert fold(ring, batch_of(machines * 2, at, rng.uniform(0, 9, (800, R)))).accepted == 800
    whole = window_columns(ring, np.arange(400), WINDOWS)
    chosen = np.array([149, 3, 77])
    few = window_columns(ring, chosen, WINDOWS)
    for name, values in whole.items():
        np.testing.assert_array_equal(few[name], values[chosen], err_msg=name)


@pytest.mark.parametrize(
    ("name", "windows_s"),
    [
        ("none", ()),
        ("descending", (900, 300)),
        ("twice the same", (300, 300)),
        ("shorter than a slot", (5, 300)),
        ("no multiple of a slot", (300, 905)),
        ("longer than the ring", (300, 7200)),
        ("zero", (0, 300)),
        ("negative", (-300, 300)),
    ],
)
def test_windows_that_the_ring_cannot_hold_are_refused(name, windows_s):
    with pytest.raises(ValueError, match=r"^windows_s: expected ascending multiples of 10 s up to 3600 s, ") as error:
        check_windows(windows_s)
    assert str(list(windows_s)) in str(error.value), name


@pytest.mark.long
def test_memory_stays_flat_however_many_samples_come():
    """8 kB a machine and resource at most, and the same after many hours as after two."""
    machines = effort(40, 200)
    names = [f"machine-{i:04d}.example.org" for i in range(machines)]
    ring = Ring()
    tracemalloc.start()
    try:
        used = []
        for hours in (2, effort(12, 40)):
            for first in range(0 if hours == 2 else 720, hours * 360, 36):
                slots = np.repeat(np.arange(36), machines) + first
                fold(ring, batch_of(names * 36, START + slots * 10.0 + 5, np.ones(machines * 36)))
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert used[1] < used[0] * 1.02 + 50_000, used
    arrays = sum(v.nbytes for v in vars(ring).values() if isinstance(v, np.ndarray))
    assert arrays / len(ring.head) <= 8_000 * R
    assert RING_MINUTES * 6 == S


READINGS = hnp.arrays(
    np.float64, st.integers(0, 12), elements=st.floats(-1e6, 1e6, allow_nan=False, allow_subnormal=False)
)
OFFSETS = st.sampled_from([0.0, 1.0, 1e9, 2.0**36])


def triple(readings):
    """The moments of readings as arrays of one; an empty set is all zero."""
    n, mean, m2, _ = moments_of(readings) if len(readings) else (0, 0.0, 0.0, 0.0)
    return np.array([float(n)]), np.array([mean]), np.array([m2])


def assert_close(got, wanted, scale, size):
    """Counts are equal; mean and m2 agree to rounding at the size of the numbers.

    ``size`` is the largest absolute reading, ``scale`` the largest distance from the mean.
    """
    np.testing.assert_array_equal(got[0], wanted[0])
    n = float(got[0][0])
    np.testing.assert_allclose(got[1], wanted[1], rtol=0, atol=8e-15 * size + 1e-300)
    # A mean off by one rounding, e, shifts m2 by about 2 n scale e.
    atol = n * 1e-14 * (scale * size + 1e-14 * size * size) + 1e-300
    np.testing.assert_allclose(got[2], wanted[2], rtol=1e-12, atol=atol)


def sizes(*parts):
    """Spread and size of all readings together."""
    every = np.concatenate([np.asarray(p) for p in parts])
    if not len(every):
        return 0.0, 0.0
    return float(np.ptp(every)), float(np.abs(every).max())


def pooled(cells):
    """The moments of the union of these sets, about the first that is not empty."""
    n, mean, m2 = (np.concatenate([cell[i] for cell in cells]) for i in range(3))
    about_one = np.array(mean[np.argmax(n > 0)])
    first, second = about(about_one, n, mean, m2)
    count = np.array([n.sum()])
    return count, *pool(about_one, count, first.sum(keepdims=True), second.sum(keepdims=True))


@given(parts=st.lists(READINGS, min_size=1, max_size=8), offset=OFFSETS)
def test_pool_equals_numpy_on_the_concatenation(parts, offset):
    """Whatever the sets, also when some are empty or far from zero; of nothing the mean is NaN."""
    parts = [part + offset for part in parts]
    got, every = pooled([triple(part) for part in parts]), np.concatenate(parts)
    if len(every):
        assert_close(got, triple(every), *sizes(*parts))
    else:
        assert got[0][0] == got[2][0] == 0
        assert np.isnan(got[1][0])
