"""Usage by instance as the scorer reads it: by machine and instance, whatever worker wrote the table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.rpc.results import InstanceUsage
from schemas.tables.instance_table import pair_name
from schemas.tables.window_table import Header, TableError, decode_table, encode_table
from scorer.snapshot.usages import AGE_MAX_S, Usages, UsageTable, pair_digest


def encoded(pairs, at=100.0, resources=RESOURCES):
    count = len(pairs)
    recent = np.full((len(resources), count), np.nan, "f4")
    recent[resources.index("cpu")] = list(pairs.values())
    columns = {
        "at": np.full(count, at), "since": np.full(count, 40, "u4"), "count": np.full(count, 2, "u2"),
        "partial": np.ones(count, "u1"), "recent": recent, "variance": np.full((2, count), 0.25, "f4"),
    }  # fmt: skip
    header = Header(machines=count, windows_s=(), columns=[], resources=resources)
    return encode_table(header, columns, "\n".join(pair_name(*pair) for pair in pairs).encode())


def table(*given, **more):
    return decode_table(encoded(*given, **more))


def test_instances_that_ran_before_a_time_are_counted():
    """Without a machine's system, without what began later, and without what is no longer reported."""
    some = UsageTable(table({("m", ""): 9.0, ("m", "a"): 1.5, ("n", "b"): 2.0}))
    columns = Usages([some, UsageTable(table({("o", "old"): 1.0}, at=100.0 - 2 * AGE_MAX_S))]).columns
    assert [columns.running_before(at_s, 100.0) for at_s in (40.0, 41.0, float("inf"))] == [0, 2, 2]
    assert columns.running_before(41.0, 101.0 + AGE_MAX_S) == 0
    assert Usages().columns.running_before(41.0, 100.0) == 0


def test_an_instance_is_found_on_its_machine_alone():
    usages = Usages([UsageTable(table({("m", ""): 9.0, ("m", "a"): 1.5})), UsageTable(table({("n", "b"): 2.0}))])
    assert usages.find("m", "a") == InstanceUsage(
        at=100.0, since=40.0, count=2, partial=True, recent={"cpu": 1.5}, daily={},
        variance={"cpu": 0.25, "memory": 0.25}, day_peak={},
    )  # fmt: skip
    assert usages.find("n", "a") is None
    assert not Usages()
    assert Usages().find("m", "a") is None


def test_resources_are_aligned_by_name():
    found = Usages([UsageTable(table({("m", "a"): 3.0}, resources=("gpu", "memory", "cpu")))]).find("m", "a")
    assert found.recent == {"cpu": 3.0}


@pytest.mark.parametrize("column", [np.zeros((1, 2), "f8"), np.zeros(2, "S3"), np.zeros(2, "c8")])
def test_a_column_that_is_none_of_numbers_by_pair_is_refused(column):
    """A damaged table is refused as a whole and told, before anything is made of it."""
    header = Header(machines=2, windows_s=(), columns=[])
    raw = encode_table(header, {"at": column}, b"m\t\nm\ta")
    with pytest.raises(TableError, match="usage by instance is damaged: at is"):
        UsageTable(decode_table(raw))


CPU = RESOURCES.index("cpu")


def pair_table(pairs, at=1000.0, daily=None):
    recent = np.full((len(RESOURCES), len(pairs)), np.nan, "f4")
    recent[CPU] = list(pairs.values())
    columns = {"at": np.full(len(pairs), at), "since": np.full(len(pairs), at - 300, "u4"), "recent": recent}
    if daily is not None:
        columns["daily"] = np.where(np.isnan(recent), np.nan, daily).astype("f4")
    header = Header(machines=len(pairs), windows_s=(), columns=[], resources=RESOURCES)
    return UsageTable(decode_table(encode_table(header, columns, "\n".join(pairs).encode())))


@given(st.dictionaries(st.tuples(st.sampled_from("mno"), st.text("ab", max_size=3)), st.integers(0, 99), max_size=9))
def test_each_pair_is_found_and_no_other(pairs):
    named = {pair_name(*pair): float(cores) for pair, cores in pairs.items()}
    half = dict(list(named.items())[::2])
    columns = Usages([pair_table(half), pair_table({name: named[name] for name in named if name not in half})]).columns
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
def test_of_two_partitions_the_newer_while_it_is_current(name, now_s, cores):
    """A topic that got more partitions: the old one keeps its figures for a day."""
    tables = [pair_table({pair_name("m", "a"): 1.0}, at=900.0), pair_table({pair_name("m", "a"): 2.0}, at=1000.0)]
    for order in (tables, tables[::-1]):
        columns = Usages(order).columns
        rows = columns.rows(np.array([pair_digest("m", "a")]), np.array([now_s]))
        np.testing.assert_equal(columns.take(columns.recent, rows)[CPU, 0], cores)
        assert Usages(order).find("m", "a").recent == {"cpu": 2.0}


def test_the_mean_is_of_the_half_hour_and_the_day():
    """0.8 and 0.2, one for the other where only one is known; a resource never measured is not known."""
    columns = Usages([pair_table({pair_name("m", "a"): 1.0}, daily=2.0)]).columns
    assert columns.mean[CPU].tolist() == [pytest.approx(1.2)]
    assert np.isnan(columns.mean[CPU + 1 :]).all()
    assert Usages([pair_table({pair_name("m", "a"): 1.0})]).columns.mean[CPU].tolist() == [1.0]
    assert columns.since.tolist() == [700.0]


def test_what_a_machines_last_report_has_beside_its_system():
    """The pairs of its last report, of the ledger or not; one that the report no longer has is out."""
    tables = [pair_table(pairs) for pairs in ({"m\t": 1.0, "m\ta": 2.0, "n\tz": 50.0}, {"m\tb": 8.0})]
    columns = Usages([*tables, pair_table({"m\told": 4.0}, at=940.0)]).columns
    rows = columns.rows(np.array([pair_digest("m"), pair_digest("n")]), np.full(2, 1000.0))
    np.testing.assert_equal(columns.take(columns.recent_of_system, rows)[CPU], [10.0, np.nan])
