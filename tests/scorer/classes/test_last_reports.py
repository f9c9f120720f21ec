"""The last report of each instance is found again from the means that the stream app keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.instance_report import InstanceMeans, InstanceReport
from schemas.resources import RESOURCES
from schemas.tables.instance_table import pair_name
from schemas.tables.window_table import decode_table
from scorer.classes.last_reports import LastReports
from scorer.snapshot.usage_columns import pair_digest
from scorer.snapshot.usages import Usages, UsageTable
from streams.fold.instance_usage import InstanceUsage
from streams.fold.peaks import Zone
from streams.state.checkpoint import encode_usage

CPU, MEMORY = RESOURCES.index("cpu"), RESOURCES.index("memory")
START_S = 1_790_000_000.0


class Fleet:
    """The tables of one machine, as the stream app writes and a scorer reads them."""

    def __init__(self) -> None:
        self._usage, self._usages = InstanceUsage(), Usages()
        self._reports = LastReports()

    def report(self, at_s: float, **cores: float) -> None:
        """Apply a report of instances' cores; each uses as many GB."""
        entries = {name: InstanceMeans(cpu=used, memory=used * 1e9) for name, used in cores.items()}
        report = InstanceReport(at=START_S + at_s, interval_s=60.0, entries=entries)
        self._usage.apply([("m", report)], Zone().day_numbers)

    def restart(self) -> None:
        """Have the stream app know nothing."""
        self._usage = InstanceUsage()

    def latest(self, name: str) -> tuple[float, float]:
        """What is found for an instance: cores and GB."""
        table = UsageTable(decode_table(encode_usage(self._usage, {})))
        self._usages = Usages([table], self._usages)
        columns = self._usages.columns
        row = columns.index.rows(np.array([pair_digest("m", name)]))[0]
        assert table.row(pair_name("m", name)) == row
        found = self._reports.latest(columns)[:, row]
        return float(found[CPU]), float(found[MEMORY]) / 1e9


@given(st.lists(st.tuples(st.floats(10.0, 4000.0), st.floats(0.0, 64.0)), min_size=1, max_size=60))
def test_each_report_is_found(reports: list[tuple[float, float]]) -> None:
    """Whatever comes, at whatever pace, from the second report on; floats of 32 bits cost some millionths."""
    fleet, at_s = Fleet(), 0.0
    fleet.report(at_s, a=3.0)
    fleet.latest("a")
    for elapsed_s, cores in reports:
        at_s += elapsed_s
        fleet.report(at_s, a=cores)
        assert fleet.latest("a") == pytest.approx((cores, cores), abs=0.003 * 60 / min(elapsed_s, 60))


def test_a_short_peak_counts_in_full() -> None:
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


def test_of_several_reports_it_is_the_mean() -> None:
    """A look that comes late loses nothing of the mean: 2, 4 and 6 are 4."""
    fleet = Fleet()
    for minute in range(120):
        fleet.report(60 * minute, a=1.0)
    fleet.latest("a")
    for minute, cores in ((120, 2.0), (121, 4.0), (122, 6.0)):
        fleet.report(60 * minute, a=cores)
    assert fleet.latest("a")[0] == pytest.approx(4.0, abs=0.1)


def test_figures_that_began_anew_are_not_compared() -> None:
    """A stream app that lost its state: the mean of what it has now."""
    fleet = Fleet()
    for minute in range(20):
        fleet.report(60 * minute, a=8.0)
    fleet.latest("a")
    fleet.restart()
    fleet.report(60 * 21, a=2.0)
    assert fleet.latest("a")[0] == 2.0
