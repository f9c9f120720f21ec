"""Tables with different windows side by side, and what is not in them."""

from __future__ import annotations

import numpy as np

from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.joining import joined
from tests.scorer.snapshot.tables import table


def test_tables_with_other_windows_are_aligned() -> None:
    """While workers with two settings run, each table's windows count under their own length."""
    snapshot = build_snapshot([table(["a"]), table(["b"], mean=2.0, windows_s=(300, 900))], {}, {})
    assert snapshot.windows_s == (300, 900, 3600)
    assert snapshot.windows(300).mean[0].tolist() == [1, 2]
    assert np.isnan(snapshot.windows(900).mean[0, 0])
    assert snapshot.windows().window_s.tolist() == [3600, 900]


def test_what_a_table_does_not_have_is_covered_by_nothing() -> None:
    """A window or a machine without data is covered and filled by 0, never by an unknown share; its skew is 0."""
    tables = [table(["a"]), table(["b"], windows_s=(300, 900))]
    beyond_the_last = np.array([0, 1, 2])
    coverage = joined("coverage", tables, beyond_the_last, (300, 900, 3600))
    assert coverage[:, 0].tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert not joined("filled", tables, beyond_the_last, (300,)).any()
    assert joined("skew", tables, beyond_the_last, ()).tolist() == [0, 0, 0]
    assert np.isnan(joined("mean", tables, beyond_the_last, (300,))[0, :, 2]).all()
