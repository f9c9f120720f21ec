"""The usage by instance as columns: each pair is found where it is, of two partitions the newer, while current."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.tables.instance_table import pair_name
from schemas.tables.window_table import Header, decode_table, encode_table
from scorer.snapshot.usage_columns import AGE_MAX_S, pair_digest
from scorer.snapshot.usages import Usages, UsageTable

CPU = RESOURCES.index("cpu")


def table(pairs: dict[str, float], at: float = 1000.0, daily: float | None = None) -> UsageTable:
    """A table of pairs by name with their cores."""
    recent = np.full((len(RESOURCES), len(pairs)), np.nan, "f4")
    recent[CPU] = list(pairs.values())
    columns = {"at": np.full(len(pairs), at), "since": np.full(len(pairs), at - 300, "u4"), "recent": recent}
    if daily is not None:
        columns["daily"] = np.where(np.isnan(recent), np.nan, daily).astype("f4")
    header = Header(machines=len(pairs), windows_s=(), columns=[], resources=RESOURCES)
    return UsageTable(decode_table(encode_table(header, columns, "\n".join(pairs).encode())))


@given(st.dictionaries(st.tuples(st.sampled_from("mno"), st.text("ab", max_size=3)), st.integers(0, 99), max_size=9))
def test_each_pair_is_found_and_no_other(pairs: dict[tuple[str, str], int]) -> None:
    """Over any number of tables, with or without rows."""
    named = {pair_name(*pair): float(cores) for pair, cores in pairs.items()}
    half = dict(list(named.items())[::2])
    columns = Usages([table(half), table({name: named[name] for name in named if name not in half})]).columns
    asked = [*pairs, ("other", "a")]
    digests = np.array([pair_digest(*pair) for pair in asked], np.int64)
    rows = columns.rows(digests, np.full(len(asked), 1000.0))
    assert (rows >= 0).tolist() == [*(True for _ in pairs), False]
    assert columns.take(columns.recent, rows)[CPU, :-1].tolist() == list(map(float, pairs.values()))
    assert np.isnan(columns.take(columns.recent, rows)[:, -1]).all()


@pytest.mark.parametrize(
    ("name", "now_s", "cores"),
    [("of two the newer", 1000.0, 2.0), ("as old as may be", 1000.0 + AGE_MAX_S, 2.0),
     ("too old", 1001.0 + AGE_MAX_S, np.nan), ("no sample of its machine", np.nan, np.nan)],
)  # fmt: skip
def test_of_two_partitions_the_newer_while_it_is_current(name: str, now_s: float, cores: float) -> None:
    """A topic that got more partitions: the old one keeps its figures for a day."""
    tables = [table({pair_name("m", "a"): 1.0}, at=900.0), table({pair_name("m", "a"): 2.0}, at=1000.0)]
    for order in (tables, tables[::-1]):
        columns = Usages(order).columns
        rows = columns.rows(np.array([pair_digest("m", "a")]), np.array([now_s]))
        np.testing.assert_equal(columns.take(columns.recent, rows)[CPU, 0], cores)


def test_the_mean_is_of_the_half_hour_and_the_day() -> None:
    """0.8 and 0.2, one for the other where only one is known; a resource never measured is not known."""
    columns = Usages([table({pair_name("m", "a"): 1.0}, daily=2.0)]).columns
    assert columns.mean[CPU].tolist() == [pytest.approx(1.2)]
    assert np.isnan(columns.mean[CPU + 1 :]).all()
    assert Usages([table({pair_name("m", "a"): 1.0})]).columns.mean[CPU].tolist() == [1.0]
    assert columns.since.tolist() == [700.0]


def test_what_a_machines_last_report_has_beside_its_system() -> None:
    """The pairs of its last report, of the ledger or not; one that the report no longer has is out."""
    tables = [
        table({"m\t": 1.0, "m\ta": 2.0, "n\tz": 50.0}), table({"m\told": 4.0}, at=940.0), table({"m\tb": 8.0}),
    ]  # fmt: skip
    columns = Usages(tables).columns
    rows = columns.rows(np.array([pair_digest("m"), pair_digest("n")]), np.full(2, 1000.0))
    np.testing.assert_equal(columns.take(columns.recent_of_system, rows)[CPU], [10.0, np.nan])


def test_where_a_pair_is_is_found_again_only_where_pairs_changed() -> None:
    """New figures of the same pairs: the index is lent; of two partitions that both have a pair it is not."""
    first = Usages([table({pair_name("m", "a"): 1.0})])
    index = first.columns.index
    second = Usages([table({pair_name("m", "a"): 5.0})], first)
    assert second.columns.index is index
    assert second.columns.recent[CPU].tolist() == [5.0]
    third = Usages([table({pair_name("m", "b"): 5.0})], second)
    assert third.columns.index is not index
    asked = np.array([pair_digest("m", "a"), pair_digest("m", "b")])
    assert (third.columns.rows(asked, np.full(2, 1000.0)) >= 0).tolist() == [False, True]
    both = [table({pair_name("m", "a"): 1.0}, at=1000.0), table({pair_name("m", "a"): 2.0}, at=900.0)]
    before = Usages(both)
    assert before.columns.take(before.columns.recent, before.columns.rows(asked[:1], np.array([1000.0])))[CPU] == 1.0
    newer = [both[0], table({pair_name("m", "a"): 7.0}, at=1500.0)]
    after = Usages(newer, before)
    assert after.columns.take(after.columns.recent, after.columns.rows(asked[:1], np.array([1000.0])))[CPU] == 7.0
