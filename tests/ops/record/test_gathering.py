"""Samples and reports as figures."""

import numpy as np
import pytest

from ops.record.gathering import Gathering, Names
from schemas.messages.instance_report import InstanceMeans, InstanceReport
from streams.fold.admission import Admission
from tests.ops.record.entries import sample

NOW_S = 1_700_000_040.0
MINUTE = NOW_S - NOW_S % 60


def gathered(*raw: bytes, keys: list[bytes] | None = None) -> Gathering:
    """Messages taken, each under its machine's key unless told otherwise."""
    gathering = Gathering(Admission())
    gathering.take(raw, [NOW_S + 60] * len(raw), keys or [b"m"] * len(raw))
    return gathering


def test_samples_of_a_minute_are_one_figure() -> None:
    """Weighted by their length; one whose middle lies in the next minute counts there."""
    raw = [sample("m", MINUTE + at, cpu) for at, cpu in ((10, 1.0), (20, 3.0), (64, 5.0), (66, 9.0))]
    load, usage = gathered(*raw).figures(Names(), Names(), NOW_S)
    assert load.until_s.tolist() == [MINUTE + 60, MINUTE + 120]
    assert load.seconds.tolist() == [30.0, 10.0]
    assert load.values[0].tolist() == [3.0, 9.0]
    assert np.isnan(load.values[1:]).all()
    assert not len(usage)


def test_a_report_is_a_figure_for_each_instance_and_for_what_belongs_to_none() -> None:
    """A resource that was not measured is not known."""
    entries = {"a": InstanceMeans(cpu=1.5, memory=1e9), "b": InstanceMeans(memory=2e9)}
    report = InstanceReport(at=MINUTE + 9, interval_s=60.0, entries=entries, system=InstanceMeans(cpu=0.5))
    pairs = Names()
    _, usage = gathered(sample("m", MINUTE + 10, instance_report=report)).figures(Names(), pairs, NOW_S)
    assert pairs.take() == ["m\ta", "m\tb", "m\t"]
    assert pairs.take() == []
    assert usage.until_s.tolist() == [MINUTE + 9] * 3
    np.testing.assert_array_equal(usage.values[0], np.array([1.5, np.nan, 0.5], np.float32))
    np.testing.assert_array_equal(usage.values[1], np.array([1e9, 2e9, np.nan], np.float32))


def test_what_cannot_be_used_is_counted() -> None:
    """A foreign key, no message, a clock that is days off; the rest is recorded."""
    good = sample("m", MINUTE)
    far = sample("m", MINUTE - 10 * 86_400)
    gathering = gathered(good, good, b"{", far, keys=[b"m", b"other", b"m", b"m"])
    load, _ = gathering.figures(Names(), Names(), NOW_S)
    assert len(load) == 1
    assert gathering.take_refused() == {"key": 1, "malformed": 1, "far": 1}
    assert gathering.take_refused() == {}


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a figure is left out and counted; known names go on."""
    monkeypatch.setattr("ops.record.gathering.NAMES_MAX", 1)
    raw = [sample(name, MINUTE + at) for name, at in (("m", 10), ("n", 10), ("m", 20))]
    gathering = gathered(*raw, keys=[b"m", b"n", b"m"])
    load, _ = gathering.figures(Names(), Names(), NOW_S)
    assert load.row.tolist() == [0]
    assert gathering.take_refused() == {"names": 1}


def test_the_capacity_is_that_of_the_last_sample() -> None:
    """Of the resources that it has."""
    gathering = gathered(sample("m", MINUTE))
    gathering.figures(Names(), Names(), NOW_S)
    assert gathering.capacity == {"m": {"cpu": 8.0}}
