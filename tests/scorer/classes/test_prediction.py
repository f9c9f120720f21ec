"""Predicted peaks: learned of what is used, stored, read by others, believed only when they are known well enough."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.sample import InstanceMeans, InstanceReport
from schemas.resources import RESOURCES as ALL
from schemas.tables.instance_table import pair_name
from schemas.tables.window_table import decode_table
from scorer.classes import prediction
from scorer.classes.class_usage import LastReports
from scorer.snapshot.rules import Roster
from scorer.snapshot.usages import Usages, UsageTable, pair_digest
from streams.fold.instance_usage import InstanceUsage
from streams.fold.peaks import Zone
from streams.state.checkpoint import encode_usage
from tests.effort import examples

START_S, STEP_S = 1_800_000_000.0, 300.0
CAPACITY = np.array([[10.0], [100.0], *[[np.nan]] * (len(ALL) - 2)])


def used(prod, system=1.0):
    one = np.array([1.0, 10.0, *[np.nan] * (len(ALL) - 2)])
    return np.array([prod * one, system * one])[:, :, None]


def learned(days, prod=4.0, name="m"):
    """Histograms of a machine whose prod uses as much all the time, and when they were last looked at."""
    found, now_s = prediction.Histograms(), START_S
    for step in range(int(days * 86_400 / STEP_S) + 1):
        now_s = START_S + step * STEP_S
        found.look([name], used(prod), CAPACITY, now_s)
    return found, now_s


def test_a_peak_is_believed_after_a_day_and_while_it_is_looked_at():
    """Before, and half an hour after the last look, nothing is predicted; nor of a machine that was never seen."""
    roster = Roster(("other", "m"))
    young, now_s = learned(0.9)
    assert np.isnan(prediction.Peaks(young.peaks()).of(roster, np.full(2, now_s))).all()
    old, now_s = learned(1.0)
    peaks = prediction.Peaks(old.peaks())
    found = peaks.of(roster, np.full(2, now_s + prediction.EXPIRES_S))
    assert np.isnan(found[:, :, 0]).all()
    assert found[:, :, 1] == pytest.approx(np.array([[0.4, 0.4], [0.1, 0.1]]), rel=0.06)
    assert np.isnan(peaks.of(roster, np.full(2, now_s + prediction.EXPIRES_S + 1))).all()
    assert now_s - START_S == prediction.COLD_S


def test_a_report_counts_once():
    """Looked at again it changes nothing, nor does an older one; a machine without one is not predicted."""
    found = prediction.Histograms()
    ends = np.array([START_S])
    found.look(["m"], used(4.0), CAPACITY, START_S + 20, ends)
    once = found.stored()
    for now_s, end_s in ((START_S + 80, START_S), (START_S + 80, START_S - 60), (START_S + 80, np.nan)):
        found.look(["m"], used(9.0), CAPACITY, now_s, np.array([end_s]))
        assert found.stored() == once
    found.look(["m"], used(9.0), CAPACITY, START_S + 80, ends + 60)
    assert found.at.tolist() == [START_S + 60]
    assert found.stored() != once
    found.look(["new"], used(9.0), CAPACITY, START_S + 80, np.array([np.nan]))
    assert found.names == ["m"]


def test_a_peak_of_yesterday_fades():
    """Cpu has half-lives of 12 hours: a busy hour is the 95th percentile that day, and no more three days later."""
    found, now_s = learned(1.0, prod=2.0)
    for step in range(24):  # two busy hours of a day
        found.look(["m"], used(9.0), CAPACITY, now_s + step * STEP_S)
    roster, at = Roster(("m",)), np.array([now_s + 24 * STEP_S])
    assert prediction.Peaks(found.peaks()).of(roster, at)[0, 0, 0] > 0.85
    for step in range(3 * 288):
        found.look(["m"], used(2.0), CAPACITY, float(at[0]) + step * STEP_S)
    assert prediction.Peaks(found.peaks()).of(roster, at + 3 * 86_400)[0, 0, 0] < 0.25


@given(st.lists(st.floats(0.0, 15.0), min_size=1, max_size=30), st.lists(st.floats(0.0, 15.0), max_size=5))
def test_what_was_stored_goes_on_as_if_nothing_had_happened(before, after):
    """Another scorer that takes over finds the same peaks, within a bucket."""
    whole, now_s = prediction.Histograms(), START_S
    for prod in before:
        now_s += STEP_S
        whole.look(["m"], used(prod), CAPACITY, now_s)
    other = prediction.Histograms.restored(whole.stored())
    for prod in after:
        now_s += STEP_S
        for each in (whole, other):
            each.look(["m"], used(prod), CAPACITY, now_s)
    assert other.names == whole.names
    assert other.since.tolist() == whole.since.tolist()
    assert other.weights == pytest.approx(whole.weights, abs=1e-3 * float(whole.weights.max()))


def test_machines_come_and_go():
    found = prediction.Histograms()
    found.look(["a", "b"], np.concatenate([used(1.0), used(8.0)], axis=2), np.repeat(CAPACITY, 2, axis=1), START_S)
    found.look(["b", "c"], np.concatenate([used(8.0), used(2.0)], axis=2), np.repeat(CAPACITY, 2, axis=1), START_S + 60)
    assert found.names == ["a", "b", "c"]
    found.look(["c"], used(2.0), CAPACITY, START_S + 5 * 86_400)
    assert found.names == ["c"]
    assert found.weights.shape == (len(prediction.PREDICTED), prediction.RESOURCES, found.weights.shape[2], 1)


def test_what_is_not_measured_is_not_learned():
    found = prediction.Histograms()
    found.look(["m"], used(np.nan), CAPACITY, START_S)
    found.look(["n"], used(1.0), np.full_like(CAPACITY, np.nan), START_S)
    found.look(["o"], used(1.0), np.zeros_like(CAPACITY), START_S)
    assert found.names == []
    assert prediction.Peaks(found.peaks()).of(Roster(("m",)), np.array([START_S])).shape == (2, 2, 1)


@pytest.mark.parametrize("raw", [None, b"", b"garbage", b"WINDTBL\x01" + bytes(20)])
def test_what_cannot_be_read_is_nothing(raw):
    assert prediction.Histograms.restored(raw).names == []
    assert np.isnan(prediction.Peaks(raw).of(Roster(("m",)), np.array([START_S]))).all()
    other, _ = learned(0.0)
    assert prediction.Histograms.restored(other.peaks()).names == []
    assert np.isnan(prediction.Peaks(other.stored()).of(Roster(("m",)), np.array([START_S]))).all()


@functools.cache
def values():
    found, _ = learned(1.0)
    return found.stored(), found.peaks()


@settings(max_examples=examples(150, 150), deadline=None)
@given(
    st.deferred(lambda: st.sampled_from(values())),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=6),
    st.data(),
)
def test_whatever_bytes_come_nothing_is_raised(whole, changes, data):
    """A damaged value is none, or figures; a scorer goes on with either."""
    raw = bytearray(whole)
    for place, value in changes:
        raw[place % len(raw)] = value
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))]) if data.draw(st.booleans()) else bytes(raw)
    with np.errstate(all="ignore"):
        found = prediction.Peaks(cut).of(Roster(("m", "n")), np.full(2, START_S + prediction.COLD_S))
        assert found.shape == (2, 2, 2)
        restored = prediction.Histograms.restored(cut)
        restored.look(["m"], used(1.0), CAPACITY, START_S + prediction.COLD_S)
        assert len(restored.peaks()) > 0


HOUR_S = 3600.0


def of(shares, elapsed_s=0.0, half_life_s=12 * HOUR_S):
    weights = np.zeros((prediction.BUCKETS, 1), np.float32)
    for share in shares:
        prediction.add(weights, np.array([share]), np.array([elapsed_s]), half_life_s)
    return weights


def test_buckets_are_five_per_cent_wider_each_and_reach_beyond_the_capacity():
    widths = np.diff(prediction.STARTS)
    assert widths[0] == pytest.approx(0.001)
    assert widths[1:] / widths[:-1] == pytest.approx(1.05)
    assert prediction.STARTS[prediction.BUCKETS - 1] > 2.0


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60), st.sampled_from((0.5, 0.95, 0.98, 1.0)))
def test_a_quantile_is_the_end_of_the_bucket_that_holds_it(shares, q):
    """Never below the true one (numpy's inverted_cdf), and above it by the width of its bucket at most."""
    true = float(np.quantile(shares, q, method="inverted_cdf"))
    found = float(prediction.quantile(of(shares), q)[0])
    assert true <= found <= prediction.STARTS[prediction.bucket_of(np.array([true]))[0] + 1] + 1e-12


def test_a_sample_weighs_half_a_half_life_later():
    """Six of eight new samples after one half-life weigh as twelve of fourteen do: the old ones are less than p90."""
    old_high = of([1.0] * 8)
    assert prediction.quantile(old_high, 0.95)[0] > 1.0
    for _ in range(8):
        prediction.add(old_high, np.array([0.1]), np.array([12 * HOUR_S]), 12 * HOUR_S)
    assert prediction.quantile(old_high, 0.95)[0] < 0.2
    assert float(old_high.sum()) == pytest.approx(8 / 2**8 + sum(2.0**-n for n in range(8)))


def test_an_empty_histogram_knows_no_quantile_and_what_is_unknown_changes_none():
    weights = np.zeros((prediction.BUCKETS, 2), np.float32)
    prediction.add(weights, np.array([np.nan, 0.5]), np.zeros(2), HOUR_S)
    assert np.isnan(prediction.quantile(weights, 0.95)[0])
    assert prediction.quantile(weights, 0.95)[1] == pytest.approx(0.5, rel=0.05)


CPU, MEMORY = ALL.index("cpu"), ALL.index("memory")
REPORTED_S = 1_790_000_000.0


class Fleet:
    def __init__(self):
        self._usage, self._usages = InstanceUsage(), Usages()
        self._reports = LastReports()

    def report(self, at_s, **cores):
        entries = {name: InstanceMeans(cpu=used, memory=used * 1e9) for name, used in cores.items()}
        report = InstanceReport(at=REPORTED_S + at_s, interval_s=60.0, entries=entries)
        self._usage.apply([("m", report)], Zone().day_numbers)

    def restart(self):
        self._usage = InstanceUsage()

    def latest(self, name):
        table = UsageTable(decode_table(encode_usage(self._usage, {})))
        self._usages = Usages([table], self._usages)
        columns = self._usages.columns
        row = columns.index.rows(np.array([pair_digest("m", name)]))[0]
        assert table.row(pair_name("m", name)) == row
        found = self._reports.latest(columns)[:, row]
        return float(found[CPU]), float(found[MEMORY]) / 1e9


@given(st.lists(st.tuples(st.floats(10.0, 4000.0), st.floats(0.0, 64.0)), min_size=1, max_size=60))
def test_each_report_is_found(reports):
    """Whatever comes, at whatever pace, from the second report on; floats of 32 bits cost some millionths."""
    fleet, at_s = Fleet(), 0.0
    fleet.report(at_s, a=3.0)
    fleet.latest("a")
    for elapsed_s, cores in reports:
        at_s += elapsed_s
        fleet.report(at_s, a=cores)
        assert fleet.latest("a") == pytest.approx((cores, cores), abs=0.003 * 60 / min(elapsed_s, 60))


def test_a_short_peak_counts_in_full():
    """A minute of 9 cores in a quiet hour moves the mean by a third of a core, and is found as 9."""
    fleet = Fleet()
    for minute in range(120):
        fleet.report(60 * minute, a=1.0)
        fleet.latest("a")
    fleet.report(60 * 120, a=9.0)
    assert fleet.latest("a")[0] == pytest.approx(9.0, abs=1e-3)
    assert fleet.latest("a")[0] == pytest.approx(9.0, abs=1e-3), "the same table again"
    fleet.report(60 * 121, a=1.0, b=5.0)
    assert fleet.latest("a")[0] == pytest.approx(1.0, abs=1e-3), "beside an instance that came"
    assert fleet.latest("b")[0] == pytest.approx(5.0), "at first its mean"
    fleet.report(60 * 122, b=2.0)
    assert fleet.latest("b")[0] == pytest.approx(2.0, abs=1e-3)
    assert fleet.latest("a")[0] == pytest.approx(1.0, abs=1e-3), "one that this report does not have"


def test_of_several_reports_it_is_the_mean():
    """A look that comes late loses nothing of the mean: 2, 4 and 6 are 4."""
    fleet = Fleet()
    for minute in range(120):
        fleet.report(60 * minute, a=1.0)
    fleet.latest("a")
    for minute, cores in ((120, 2.0), (121, 4.0), (122, 6.0)):
        fleet.report(60 * minute, a=cores)
    assert fleet.latest("a")[0] == pytest.approx(4.0, abs=0.1)


def test_figures_that_began_anew_are_not_compared():
    """A stream app that lost its state: the mean of what it has now."""
    fleet = Fleet()
    for minute in range(20):
        fleet.report(60 * minute, a=8.0)
    fleet.latest("a")
    fleet.restart()
    fleet.report(60 * 21, a=2.0)
    assert fleet.latest("a")[0] == 2.0
