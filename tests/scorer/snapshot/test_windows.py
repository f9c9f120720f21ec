"""Which window of a machine counts, by how much of it is covered."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.resources import RESOURCES
from schemas.tables.window_table import WARMING_COVERAGE
from scorer.snapshot.arrays import Floats
from scorer.snapshot.windows import LONGEST_COVERED, ChosenWindows, choose_windows
from tests.rows import each_row

LEAST = float(WARMING_COVERAGE)
LITTLE = LEAST - 0.1


def chosen(*coverages: tuple[float | None, float | None], window_s: int = LONGEST_COVERED) -> ChosenWindows:
    """The windows of one machine whose cpu and memory are covered so far in each window; None: no data there."""
    column = np.zeros((len(coverages), len(RESOURCES), 1))
    mean = np.full_like(column, np.nan)
    for place, of in enumerate(coverages):
        for resource, coverage in zip(("cpu", "memory"), of, strict=True):
            if coverage is not None:
                at = (place, RESOURCES.index(resource), 0)
                column[at], mean[at] = coverage, 1.0
    read: dict[str, Floats] = {"coverage": column, "mean": mean}
    return choose_windows(
        lambda name, place: read[name][place], tuple(300 * 4**n for n in range(len(coverages))), window_s, 1
    )


@pytest.mark.parametrize(
    ("of", "expected"),
    [((1.0, 0.75), 0.75), ((0.75, None), 0.75), ((None, 1.0), 1.0), ((None, None), 0.0), ((0.75, 0.0), 0.0)],
)
def test_the_resource_that_is_covered_least_counts(of: tuple[float | None, float | None], expected: float) -> None:
    """One without data in the window does not count; a machine without any is not covered."""
    found = chosen(of, window_s=300)
    assert found.coverage.tolist() == [expected]
    assert found.warming.tolist() == [expected < WARMING_COVERAGE]


@each_row(
    ("coverages", "window_s", "warming"),
    [
        ([1.0, 1.0, 1.0], 4800, False),
        ([1.0, 1.0, LEAST], 4800, False),
        ([1.0, 1.0, LITTLE], 1200, False),
        ([1.0, LEAST, LITTLE], 1200, False),
        ([1.0, LITTLE, LITTLE], 300, False),
        ([LEAST, LITTLE, LITTLE], 300, False),
        ([LITTLE, LITTLE, LITTLE], 4800, True),
        ([LITTLE, LITTLE, LITTLE / 2], 1200, True),
        ([LITTLE, LITTLE / 2, LITTLE / 2], 300, True),
    ],
)
def test_the_longest_window_that_is_covered(coverages: list[float], window_s: float, warming: bool) -> None:
    """Just covered is covered; where none is, the longest of the best covered ones."""
    found = chosen(*((each, None) for each in coverages))
    assert found.window_s.tolist() == [window_s]
    assert found.warming.tolist() == [warming]
