"""Koordinator's batch and mid resources, row by row, by the product's arithmetic.

A row becomes columns by names and units alone: what is listed but not running counts for nothing, usage of what is not
listed is that of an instance that asks for nothing, and a class above batch's that runs beside all instances is system.
Not covered: values of NUMA zones, which two rows check, too (they are not transcribed; machines have no zones here);
prediction by pod (a histogram is kept of each machine's prod, none of each instance).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.classes.capacity import batch, cut, degraded, mid, part_of, unused
from scorer.classes.strategy import Reclaim
from scorer.classes.uses import Uses, sums_by_class, uses_from
from scorer.snapshot.arrays import Floats
from tests.rows import each_row

TABLES = {
    name: json.loads((Path(__file__).parent / "cases" / f"{name}.json").read_text())
    for name in ("koordinator_batch_resource", "koordinator_mid_resource")
}
NAMES = {"cpu_millicores": ("cpu", 1000.0), "memory_bytes": ("memory", 1.0)}
POLICIES = {"usage": "usage", "request": "request", "maxUsageRequest": "max-usage-request"}


def uses_of(*given: Any) -> Uses:
    """What batch and mid go by, of these instances."""
    return uses_from(sums_by_class(*given))


def rows(table: str, kind: str | None = None) -> list[Any]:
    return [pytest.param(one, id=one["name"]) for one in TABLES[table]["cases"] if kind is None or one["kind"] == kind]


def column(said: Mapping[str, float] | None, absent: float = 0.0) -> Floats:
    """Amounts as a column [R, 1]."""
    found = np.full((len(RESOURCES), 1), absent)
    for name, value in (said or {}).items():
        resource, unit = NAMES[name]
        found[RESOURCES.index(resource)] = value / unit
    return found


def shares(strategy: Mapping[str, Any], cpu: str, memory: str) -> dict[str, float]:
    """Percentages of cpu and memory as shares; left out where none is given."""
    given = {"cpu": strategy.get(cpu), "memory": strategy.get(memory)}
    return {name: percent / 100 for name, percent in given.items() if percent is not None}


def in_units(values: Floats) -> dict[str, float]:
    """What a column says, in the words of a row."""
    return {name: round(values[RESOURCES.index(resource), 0] * unit, 6) for name, (resource, unit) in NAMES.items()}


def code(priority_class: str | None) -> int:
    """The number of a class; what has none is prod's, as the peer has it."""
    return PRIORITY_CLASSES.index((priority_class or "koord-prod").removeprefix("koord-"))


@each_row("row", rows("koordinator_mid_resource", "mid"))
def test_mid_gets_what_the_peer_gives(row: Any) -> None:
    """Every row is exact; one whose metric has expired gives nothing."""
    inputs, strategy = row["inputs"], row["inputs"]["strategy"]
    static = {name: percent / 100 for name, percent in strategy.get("mid_static_percent", {}).items()}
    reclaim = Reclaim(
        mid_share=shares(strategy, "mid_cpu_threshold_percent", "mid_memory_threshold_percent"),
        mid_static=static,
        mid_unallocated=strategy.get("mid_unallocated_percent", 0) / 100,
        degrade_s=strategy["degrade_time_minutes"] * 60,
    )
    too_old = bool(degraded(reclaim, np.array([inputs["metric_age_s"]]))[0])
    assert too_old == (row["expected"] is None)
    if too_old:
        return
    capacity, requested = column(inputs["machine"]["capacity"]), column(inputs["prod_requested"])
    reserved = capacity - column(inputs["machine"]["allocatable"])
    host = inputs["host_application"]
    system = column(host["usage"] if host and code(host["priority_class"]) < PRIORITY_CLASSES.index("mid") else None)
    usage = column(inputs["node_usage"], 0.0 if inputs["node_usage"] else np.nan)
    uses = uses_of(np.array([0]), 1, np.array([0]), requested, np.full_like(requested, np.nan))
    spare = column(inputs["prod_reclaimable"])
    assert in_units(mid(reclaim, capacity, reserved, system, usage, uses, spare)) == {
        name: row["expected"][f"mid_{name}"] for name in NAMES
    }
    if "unallocated" in row["expected"]:
        unallocated = Reclaim(mid_unallocated=1.0)
        found = mid(unallocated, capacity, reserved, system, usage, uses, np.zeros_like(capacity))
        assert in_units(found) == row["expected"]["unallocated"]


@pytest.mark.parametrize("row", rows("koordinator_mid_resource", "unused"))
def test_what_prod_does_not_use_is_what_the_peer_predicts(row: Any) -> None:
    inputs = row["inputs"]
    found = unused(
        column(inputs["prod_requested"]),
        column(inputs["prod_peak"]),
        column(inputs["system_peak"]),
        column(inputs["allocatable"]),
        inputs["safety_margin_percent"] / 100,
    )
    assert in_units(found) == row["expected"]["prod_reclaimable"]


@pytest.mark.parametrize("row", rows("koordinator_mid_resource", "degrade"))
def test_old_data_gives_nothing(row: Any) -> None:
    """As the peer degrades, without data too."""
    age_s = row["inputs"]["metric_age_s"]
    reclaim = Reclaim(degrade_s=row["inputs"]["degrade_time_minutes"] * 60)
    assert degraded(reclaim, np.array([np.inf if age_s is None else age_s]))[0] == row["expected"]["degrade"]


def test_every_row_has_a_test() -> None:
    """20 rows of batch, 19 of mid and what it goes by; each kind has a test above."""
    kinds = [one["kind"] for one in TABLES["koordinator_mid_resource"]["cases"]]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"mid": 11, "unused": 2, "degrade": 6}
    assert len(TABLES["koordinator_batch_resource"]["cases"]) == 20


AMOUNT = st.floats(0, 200, allow_nan=False)
POLICY = st.sampled_from(sorted(POLICIES.values()))


@given(st.lists(st.tuples(st.integers(0, 3), AMOUNT, AMOUNT | st.just(np.nan)), max_size=6), AMOUNT, AMOUNT, POLICY)
def test_a_higher_class_never_gives_a_lower_one_more(
    placed: list[tuple[int, float, float]], capacity: float, system: float, policy: Any
) -> None:
    """What batch gets is within capacity, and no more after another instance of prod or mid came."""
    reclaim = Reclaim(share={"cpu": 0.6}, policy={"cpu": policy})

    def of(some: list[tuple[int, float, float]]) -> float:
        classes = np.array([one[0] for one in some], np.int64)
        amounts, measured = (np.full((len(RESOURCES), len(some)), 0.0) for _ in range(2))
        for k, (_, amount, use) in enumerate(some):
            amounts[0, k], measured[0, k] = amount, use
        uses = uses_of(np.zeros(len(some), np.int64), 1, classes, amounts, measured)
        full = np.full((len(RESOURCES), 1), capacity)
        return float(batch(reclaim, full, np.zeros_like(full), np.full_like(full, system), uses)[0, 0])

    assert 0 <= of(placed) <= capacity
    for higher in (0, 1):
        assert of([*placed, (higher, 3.0, np.nan)]) <= of(placed)
        assert of([*placed, (higher, 3.0, 5.0)]) <= of(placed)


def test_what_is_not_known_gives_nothing() -> None:
    """Of a machine without capacity or usage nothing is reclaimed; nor of a resource that is not sold by class."""
    nothing = uses_of(
        np.zeros(0, np.int64), 2, np.zeros(0), np.zeros((len(RESOURCES), 0)), np.zeros((len(RESOURCES), 0))
    )
    capacity = np.full((len(RESOURCES), 2), 10.0)
    capacity[0, 0] = np.nan
    system = np.full_like(capacity, 1.0)
    system[:, 1] = np.nan
    zero = np.zeros_like(capacity)
    found = batch(Reclaim(), capacity, zero, system, nothing)
    assert found[:, 1].tolist() == [0.0] * len(RESOURCES)
    assert found[0, 0] == 0.0
    assert found[1, 0] == 10 - 3 - 1
    assert not found[2:].any()
    assert not mid(Reclaim(), capacity, zero, system, system, nothing, capacity)[:, 1].any()


@pytest.mark.parametrize(("mid_share", "expected"), [({}, 10.0), ({"cpu": 1.0}, 10.0), ({"cpu": 0.5}, 5.0)])
@pytest.mark.parametrize("mid_static", [{}, {"cpu": 1.5}])
def test_mid_never_has_more_than_its_share(
    mid_share: dict[str, float], mid_static: dict[str, float], expected: float
) -> None:
    """10 unused cores and 10 unallocated ones, of 10; without a share of mid's the whole machine is the most."""
    nothing = uses_of(
        np.zeros(0, np.int64), 1, np.zeros(0), np.zeros((len(RESOURCES), 0)), np.zeros((len(RESOURCES), 0))
    )
    capacity, zero = column({"cpu_millicores": 10_000.0}), column({})
    strategy = Reclaim(mid_share=mid_share, mid_static=mid_static, mid_unallocated=1.0)
    found = mid(strategy, capacity, zero, zero, zero, nothing, capacity)
    assert found[RESOURCES.index("cpu"), 0] == expected


@pytest.mark.parametrize(
    ("capacity", "share", "expected"),
    [
        (120e9, 0.2, 24e9),
        (100e9, 0.29, 28999999999.0),
        (100e9, 0.57, 56999999999.0),
        (0.4, 0.5, 0.0),
        (np.nan, 0.5, np.nan),
    ],
)
def test_shares_are_multiplied_as_the_peer_does(capacity: float, share: float, expected: float) -> None:
    """Of whole units, by a hundredth of a percentage, and cut: 29 % of 100 GB is a byte less than 29 GB there."""
    found = part_of(np.full((len(RESOURCES), 1), capacity), share)[RESOURCES.index("memory"), 0]
    np.testing.assert_equal(found, expected)


def test_the_margin_is_of_the_rest_of_the_percentage() -> None:
    """71 % leaves 29 %, which is 28.999 of 100 cores there, although 1 - 0.71 is more than 0.29."""
    nothing = uses_of(
        np.zeros(0, np.int64), 1, np.zeros(0), np.zeros((len(RESOURCES), 0)), np.zeros((len(RESOURCES), 0))
    )
    capacity = np.full((len(RESOURCES), 1), 100.0)
    zero = np.zeros_like(capacity)
    assert batch(Reclaim(share={"cpu": 0.71}), capacity, zero, zero, nothing)[0, 0] == 100 - 28.999


def test_amounts_are_cut_to_whole_units() -> None:
    """Toward 0, to the millicore and the byte; one that is a whole unit but for rounding is that unit."""
    amounts = np.zeros((len(RESOURCES), 2))
    amounts[:2] = [[4.0009, 0.1 + 0.2], [24e9 + 0.4, 0.0]]
    assert cut(amounts)[:2].tolist() == [[4.0, 0.3], [24e9, 0.0]]
