"""Usage that was measured takes the place of what is expected, where there is enough of it and it is fresh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from schemas.resources import RESOURCES
from schemas.tables.instance_table import pair_name
from schemas.tables.window_table import Header, decode_table, encode_table
from scorer.ledger.record.instance import Instance
from scorer.planning.balance.scene import measured
from scorer.snapshot.usages import Usages, UsageTable

NOW_S = 10_000.0
ONE = Instance(id="a", machine="m", state="confirmed", amounts=(4.0, 100.0, None, None))


def table(machine: str = "m", at: float = NOW_S - 30, count: int = 6, recent: float = 2.0, **more: Any) -> UsageTable:
    """A table with the instance on a machine, its cpu measured; no daily mean unless one is given."""
    cpu = RESOURCES.index("cpu")
    columns = {
        "at": np.array([at]), "count": np.array([count], "u2"), "recent": np.full((len(RESOURCES), 1), np.nan, "f4"),
        "variance": np.array([[0.25], [np.nan]], "f4"),
    }  # fmt: skip
    columns["recent"][cpu] = recent
    if "daily" in more:
        columns["daily"] = np.full((len(RESOURCES), 1), np.nan, "f4")
        columns["daily"][cpu] = more["daily"]
    header = Header(machines=1, windows_s=(), columns=[], resources=RESOURCES)
    return UsageTable(decode_table(encode_table(header, columns, pair_name(machine, "a").encode())))


def found(*tables: UsageTable) -> tuple[float, float, float, bool]:
    """Cpu, its variance, memory, and whether anything was measured; expected are 4 cores and 100 bytes."""
    expected = np.array([[4.0], [100.0], [0.0], [0.0]])
    usage, variance, known = measured(Usages(tables), [ONE], expected, expected**2, NOW_S)
    assert expected[0, 0] == 4.0
    return float(usage[0, 0]), float(variance[0, 0]), float(usage[1, 0]), bool(known[0])


@pytest.mark.parametrize(
    ("tables", "cpu"),
    [
        pytest.param([table(daily=7.0)], 0.8 * 2 + 0.2 * 7, id="both means"),
        pytest.param([table(daily=np.nan)], 2.0, id="no day yet"),
        pytest.param([table()], 2.0, id="a writer without daily means"),
        pytest.param([table(recent=np.nan, daily=7.0)], 7.0, id="only a day"),
        pytest.param([table(recent=1.0, at=NOW_S - 300), table(recent=3.0)], 3.0, id="of two partitions the newer"),
        pytest.param([table(recent=3.0), table(recent=1.0, at=NOW_S - 300)], 3.0, id="in any order"),
    ],
)
def test_measured(tables: list[UsageTable], cpu: float) -> None:
    """What no report says stays as expected."""
    assert found(*tables) == (pytest.approx(cpu), 0.25, 100.0, True)


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param([], id="nothing is reported"),
        pytest.param([table(machine="other")], id="by another machine"),
        pytest.param([table(count=5)], id="too few reports"),
        pytest.param([table(at=NOW_S - 601)], id="too old"),
    ],
)
def test_as_expected(tables: list[UsageTable]) -> None:
    """An agent speaks for what the ledger has on its machine, and for now."""
    assert found(*tables) == (4.0, 16.0, 100.0, False)
