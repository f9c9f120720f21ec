"""Usage that was measured takes the place of what is expected, where there is enough of it and it is current."""

import numpy as np
import pytest

from schemas.resources import CPU, MEMORY, RESOURCES
from schemas.tables.instance_table import pair_name
from schemas.tables.window_table import Header, decode_table, encode_table
from scorer.classes.class_usage import measured_usage
from scorer.planning.balance.scene import scene_of
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.snapshot.usages import Usages, UsageTable
from tests.scorer.fleets import fleet, machine

NOW_S = 10_000.0
DEFAULT = load_profiles().choose("windward")


def table(name="m", at=NOW_S - 30, count=6, recent=2.0, **more):
    columns = {
        "at": np.array([at]), "count": np.array([count], "u2"), "recent": np.full((len(RESOURCES), 1), np.nan, "f4"),
        "variance": np.array([[0.25], [np.nan]], "f4"),
    }  # fmt: skip
    columns["recent"][CPU] = recent
    if "daily" in more:
        columns["daily"] = np.full((len(RESOURCES), 1), np.nan, "f4")
        columns["daily"][CPU] = more["daily"]
    header = Header(machines=1, windows_s=(), columns=[], resources=RESOURCES)
    return UsageTable(decode_table(encode_table(header, columns, pair_name(name, "a").encode())))


def scene(tables, age_s=0.0):
    offline = fleet(
        machine("m", usage={"cpu": 5}, age_s=age_s), now=NOW_S,
        instances=[{"id": "a", "machine": "m", "cpu": 4, "memory": 100}],
    )  # fmt: skip
    inputs = offline.inputs(DEFAULT)
    inputs.snapshot.usages = Usages(tables)
    return scene_of(inputs)


def found(tables):
    seen = scene(tables)
    return float(seen.usage[CPU, 0]), float(seen.variance[CPU, 0]), float(seen.usage[MEMORY, 0]), bool(seen.measured[0])


@pytest.mark.parametrize(
    ("tables", "cpu"),
    [
        pytest.param([table(daily=7.0)], 0.8 * 2 + 0.2 * 7, id="both means"),
        pytest.param([table(daily=np.nan)], 2.0, id="no day yet"),
        pytest.param([table()], 2.0, id="a writer without daily means"),
        pytest.param([table(recent=np.nan, daily=7.0)], 7.0, id="only a day"),
    ],
)
def test_measured(tables, cpu):
    assert found(tables) == (pytest.approx(cpu), 0.25, 100.0, True)


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param([], id="nothing is reported"),
        pytest.param([table("other")], id="by another machine"),
        pytest.param([table(count=5)], id="too few reports"),
        pytest.param([table(at=NOW_S - 601)], id="too old"),
    ],
)
def test_as_expected(tables):
    """An agent speaks for what the ledger has on its machine, and for now."""
    assert found(tables) == (4.0, 16.0, 100.0, False)


@pytest.mark.parametrize("late_s", [0.0, 500.0, 700.0, 7_000.0])
@pytest.mark.parametrize("behind_s", [0.0, 599.0, 601.0])
def test_a_plan_and_an_over_commit_see_the_same_use_while_data_are_late(late_s, behind_s):
    """A report is current by its machine's newest sample, however long ago that was."""
    seen = scene([table(at=NOW_S - late_s - behind_s)], age_s=late_s)
    by_class = measured_usage(seen.snapshot, seen.placed)[CPU]
    assert seen.measured.tolist() == np.isfinite(by_class).tolist() == [behind_s < 600.0]
    assert seen.usage[CPU, 0] == (by_class[0] if behind_s < 600.0 else 4.0)
