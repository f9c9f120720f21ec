"""The fleet as the demo sees it: tables joined, windows covered, bursts compared."""

import numpy as np
import pytest

from ops.top.fleet_view import at_random, join_tables, least_used, spread
from schemas.resources import CPU, RESOURCES
from schemas.tables.window_table import Header, WindowTable, decode_table, encode_table

WINDOWS_S = (300, 3600)


def table(names: list[str], cpu: list[float], coverage: float, at: list[float] | None = None) -> WindowTable:
    """A table of machines of ten cores with the same coverage of both windows."""
    machines = len(names)
    shape = (len(WINDOWS_S), len(RESOURCES), machines)
    columns = {
        "at": np.arange(machines, dtype=np.float64) if at is None else np.array(at, np.float64),
        "capacity": np.full((len(RESOURCES), machines), 10.0),
        "mean": np.broadcast_to(np.array(cpu), shape).copy(),
        "std": np.zeros(shape, np.float32),
        "coverage": np.full(shape, coverage, np.float32),
    }
    header = Header(machines=machines, windows_s=WINDOWS_S, columns=[])
    return decode_table(encode_table(header, columns, "\n".join(names).encode()))


def test_machines_of_all_partitions_are_joined_in_order() -> None:
    """Names and columns keep together; an empty partition changes nothing."""
    view = join_tables([table(["a", "b"], [1, 2], 1.0), table([], [], 0.0), table(["c"], [4], 0.5)])
    assert view.names == ["a", "b", "c"]
    assert view.utilization[0, CPU].tolist() == pytest.approx([0.1, 0.2, 0.4])
    assert view.covered(5) == pytest.approx([0.5, 0.5])
    assert view.only(np.array([2])).names == ["c"]


@pytest.mark.parametrize(
    ("first", "second", "names", "utilization"), [(0, 9, ["b", "a"], 0.3), (9, 0, ["a", "b"], 0.1)]
)
def test_a_machine_in_two_partitions_has_one_row(
    first: float, second: float, names: list[str], utilization: float
) -> None:
    """That of the newer sample, whichever partition it is in."""
    tables = [table(["a", "b"], [1, 2], 1.0, [first, 5]), table(["a"], [3], 1.0, [second])]
    view = join_tables(tables)
    assert view.names == names
    assert view.utilization[0, CPU, names.index("a")] == pytest.approx(utilization)
    assert view.covered(2) == pytest.approx([1.0, 1.0])


def test_no_table_at_all_is_an_empty_fleet() -> None:
    """Before the stream app has written, nothing is shown and nothing fails."""
    view = join_tables([])
    assert view.names == []
    assert view.covered(200) == []


def test_a_scorer_that_sees_only_measured_load_piles_a_burst_onto_one_machine() -> None:
    """The comparison of the demo: one machine against many."""
    used, capacity = np.array([1.0, 2.0, 3.0]), np.full(3, 10.0)
    piled = spread(used, capacity, 2.0, least_used(used, capacity, 6))
    even = spread(used, capacity, 2.0, [0, 1, 2, 0, 1, 2])
    assert (piled.machines, piled.most, piled.highest) == (1, 6, 1.3)
    assert (even.machines, even.most) == (3, 2)
    assert even.std < piled.std
    assert set(at_random(3, 100)) == {0, 1, 2}
