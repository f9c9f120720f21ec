"""Usage by instance as the scorer reads it: by machine and instance, whatever worker wrote the table."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.resources import RESOURCES
from schemas.rpc.results import InstanceUsage
from schemas.tables.instance_table import pair_name
from schemas.tables.window_table import Header, TableError, WindowTable, decode_table, encode_table
from scorer.snapshot.usages import Usages, UsageTable


def table(
    pairs: dict[tuple[str, str], float], at: float = 100.0, resources: tuple[str, ...] = RESOURCES
) -> WindowTable:
    """A table of pairs and their cores; of the other resources nothing is known."""
    count = len(pairs)
    recent = np.full((len(resources), count), np.nan, "f4")
    recent[resources.index("cpu")] = list(pairs.values())
    columns = {
        "at": np.full(count, at), "since": np.full(count, 40, "u4"), "count": np.full(count, 2, "u2"),
        "partial": np.ones(count, "u1"), "recent": recent, "variance": np.full((2, count), 0.25, "f4"),
    }  # fmt: skip
    header = Header(machines=count, windows_s=(), columns=[], resources=resources)
    return decode_table(encode_table(header, columns, "\n".join(pair_name(*pair) for pair in pairs).encode()))


def test_an_instance_is_found_on_its_machine_alone() -> None:
    """Figures by resource; what was never measured, or is in no column, is left out."""
    usages = Usages([UsageTable(table({("m", ""): 9.0, ("m", "a"): 1.5})), UsageTable(table({("n", "b"): 2.0}))])
    assert usages.find("m", "a") == InstanceUsage(
        at=100.0, since=40.0, count=2, partial=True, recent={"cpu": 1.5}, daily={},
        variance={"cpu": 0.25, "memory": 0.25}, day_peak={},
    )  # fmt: skip
    assert usages.find("n", "a") is None
    assert not Usages()
    assert Usages().find("m", "a") is None


def test_of_two_partitions_the_newer_counts() -> None:
    """A topic that got more partitions: the old one keeps its figures for a day."""
    tables = [table({("m", "a"): 1.0}, at=100.0), table({("m", "a"): 2.0}, at=200.0)]
    for order in (tables, tables[::-1]):
        found = Usages([UsageTable(one) for one in order]).find("m", "a")
        assert found is not None
        assert found.recent == {"cpu": 2.0}


def test_resources_are_aligned_by_name() -> None:
    """A writer that measures others: each figure stays its resource's, what is not known here is passed over."""
    found = Usages([UsageTable(table({("m", "a"): 3.0}, resources=("gpu", "memory", "cpu")))]).find("m", "a")
    assert found is not None
    assert found.recent == {"cpu": 3.0}


@pytest.mark.parametrize("column", [np.zeros((1, 2), "f8"), np.zeros(2, "S3"), np.zeros(2, "c8")])
def test_a_column_that_is_none_of_numbers_by_pair_is_refused(column: np.ndarray) -> None:
    """A damaged table is refused as a whole and told, before anything is made of it."""
    header = Header(machines=2, windows_s=(), columns=[])
    raw = encode_table(header, {"at": column}, b"m\t\nm\ta")
    with pytest.raises(TableError, match="usage by instance is damaged: at is"):
        UsageTable(decode_table(raw))


def test_rows_are_looked_up_again_only_where_pairs_changed() -> None:
    """A newer table of the same pairs takes over the index; one of others makes its own."""
    first = UsageTable(table({("m", "a"): 1.0}))
    assert first.row(pair_name("m", "a")) == 0
    second = UsageTable(table({("m", "a"): 2.0}), first)
    assert second._rows is first._rows
    other = UsageTable(table({("m", "b"): 2.0, ("m", "a"): 3.0}), second)
    assert other.row(pair_name("m", "a")) == 1
