"""Credits: what placed instances add, how it fades as the window absorbs them, and that release removes it at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.credits import Estimate
from scorer.ledger_view import copy_with
from scorer.profile import Sight
from tests.scorer.fleets import fleet, machine, request, see

HOUR = {"windows_s": [300, 900, 3600]}


def credit(model: str, window: Any = 3600, *, machines: dict[str, Any] | None = None, **instance: Any) -> float:
    """Return the cpu credit of one instance of 4 cores on an otherwise idle machine."""
    host = machine("m", usage={"cpu": 0, "memory": 0}, **(machines or {}))
    placed = {"id": "i", "machine": "m", "cpu": 4, **instance}
    offline = fleet(host, instances=[placed], **HOUR)
    return float(see(offline, None, Sight(window=window, credits=model)).mean[0, 0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("window_s", "ago_s", "expected"),
    [
        (3600, 0, 4.0),
        (3600, 9, 4.0),
        (3600, 10, 4 * 359 / 360),
        (3600, 900, 3.0),
        (3600, 1800, 2.0),
        (3600, 3600, 0.0),
        (3600, 1e6, 0.0),
        (300, 150, 2.0),
        (300, 300, 0.0),
        (900, 450, 2.0),
    ],
)
def test_a_mean_gets_less_as_slots_after_the_start_fill_the_window(
    window_s: int, ago_s: float, expected: float
) -> None:
    """Credit = expected * (1 - share of the window's filled slots later than the start), in whole slots."""
    assert credit("window", window_s, placed_ago_s=ago_s) == pytest.approx(expected)


def test_time_is_measured_to_the_windows_end_and_never_to_now() -> None:
    """While data is late nothing is absorbed: an instance placed after the window's end counts in full."""
    late = {"age_s": 900}
    assert credit("window", placed_ago_s=900, machines=late) == 4.0
    assert credit("window", placed_ago_s=1800, machines=late) == pytest.approx(3.0)


@pytest.mark.parametrize("state", [{"state": "reserved"}, {"started": False}])
def test_an_instance_not_confirmed_started_counts_in_full(state: dict[str, Any]) -> None:
    """A reservation is full credit however old it is."""
    assert credit("window", placed_ago_s=3000, **state) == 4.0


def test_a_warming_machine_absorbs_by_the_slots_it_has() -> None:
    """With ten slots filled, five of them after the start, half is absorbed."""
    thin = {"cpu": {"mean": 0, "filled": 10, "coverage": 10 / 360}, "memory": 0}
    host = machine("m", windows={"300": thin, "900": thin, "3600": thin})
    placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 50}]
    offline = fleet(host, instances=placed, **HOUR)
    assert see(offline, None, Sight(window=3600)).mean[0, 0] == pytest.approx(2.0)


def test_a_slow_publisher_fills_fewer_slots_and_fades_as_fast() -> None:
    """A machine with a minute's interval fills every sixth slot: half an hour absorbs half, as elsewhere."""
    assert credit("window", placed_ago_s=1800, machines={"interval_s": 60}) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("percent", "ago_s", "expected"),
    [(50, 1790, 4.0), (50, 1810, 0.0), (95, 180, 4.0), (95, 190, 0.0), (99, 30, 4.0), (99, 40, 0.0)],
)
def test_a_percentile_gets_all_until_the_share_exceeds_what_lies_above_it(
    percent: int, ago_s: float, expected: float
) -> None:
    """p_q gets the credit in full until the share of later slots exceeds 1 - q, then none."""
    placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": ago_s}]
    offline = fleet(machine("m", usage={"cpu": 1, "memory": 0}), instances=placed, **HOUR)
    assert see(offline, None, Sight(window=3600)).percentile(percent)[0, 0] == pytest.approx(1 + expected)


def test_a_maximum_gets_all_until_the_first_later_slot_and_a_std_nothing() -> None:
    """The first slot after the start shows the maximum; the newcomer's own deviation is unknown and 0."""
    for ago_s, expected in ((5, 4.0), (10, 0.0)):
        placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": ago_s}]
        machines = see(fleet(machine("m", usage={"cpu": {"mean": 1, "std": 0.5, "max": 2}}), instances=placed, **HOUR))
        assert machines.max[0, 0] == pytest.approx(2 + expected)
        assert machines.std[0, 0] == pytest.approx(0.5)


def test_a_daily_peak_gets_all_until_that_day_began_after_the_start() -> None:
    """An instance of this morning may not have shown in today's peak; one of before yesterday has in both."""
    for ago_s, expected in ((60, (6, 5)), (100_000, (2, 5)), (400_000, (2, 1))):
        placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": ago_s}]
        host = machine("m", usage={"cpu": 0}, peak_today={"cpu": 2}, peak_yesterday={"cpu": 1})
        machines = see(fleet(host, instances=placed, **HOUR))
        assert (machines.peak("today")[0, 0], machines.peak("yesterday")[0, 0]) == expected


@pytest.mark.parametrize(
    ("model", "ago_s", "expected"),
    [
        ("trimaran-60s", 59, 4.0),
        ("trimaran-60s", 60, 0.0),
        ("koordinator-pending", 59, 4.0),
        ("koordinator-pending", 60, 0.0),
        ("none", 0, 0.0),
    ],
)
def test_the_peers_models_are_all_or_nothing(model: str, ago_s: float, expected: float) -> None:
    """Trimaran counts for 60 s, Koordinator for one report interval, in full and then not at all."""
    assert credit(model, placed_ago_s=ago_s) == expected


def test_release_removes_a_credit_at_once() -> None:
    """An instance that ended adds nothing from the next decision on."""
    host = machine("m", usage={"cpu": 0})
    offline = fleet(host, instances=[{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 0}], **HOUR)
    assert see(offline).mean[0, 0] == 4.0
    offline.ledger.apply(copy_with(offline.ledger.instances["i"], state="released"))
    assert see(offline).mean[0, 0] == 0.0


@pytest.mark.parametrize(
    ("estimate", "asked", "cpu"),
    [
        (Estimate(), {"cpu": 4, "limits": {"cpu": 8}}, 4),
        (Estimate(factor={"cpu": 0.85}), {"cpu": 4}, 3.4),
        (Estimate(base="larger", factor={"cpu": 0.85}), {"cpu": 4, "limits": {"cpu": 8}}, 6.8),
        (Estimate(base="larger", factor={"cpu": 1.2}), {"cpu": 4, "limits": {"cpu": 4}}, 4),
        (Estimate(base="limit-first", factor={"cpu": 1.5}), {"cpu": 4, "limits": {"cpu": 0}}, 0),
        (Estimate(base="limit-first", factor={"cpu": 1.5}), {"cpu": 4}, 6),
        (Estimate(default={"cpu": 0.25}), {}, 0.25),
        (Estimate(factor={"cpu": 0.85}), {"cpu": 4, "expected": {"cpu": 0.1}}, 0.1),
    ],
)
def test_what_an_instance_is_expected_to_use(estimate: Estimate, asked: dict[str, Any], cpu: float) -> None:
    """Base, factor, cap at the limit, default; an explicit figure wins. Newcomer and placed instance agree."""
    assert estimate.of_request(request(**asked))[0] == pytest.approx(cpu)
    offline = fleet(machine("m", usage={"cpu": 0}), instances=[{"id": "i", "machine": "m", "placed_ago_s": 0, **asked}])
    assert see(offline, None, Sight(estimate=estimate)).mean[0, 0] == pytest.approx(cpu)


@pytest.mark.parametrize("settings", [{"factor": {"cpu": -1}}, {"default": {"disk": 1}}])
def test_an_estimate_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    """A negative factor or unknown resource is an error that names it."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        Estimate(**settings)


@given(ago_s=st.floats(0, 5000), more_s=st.floats(0, 5000))
def test_a_credit_only_falls_with_time(ago_s: float, more_s: float) -> None:
    """As the window's end moves on a credit never rises, and lies between nothing and all."""
    first, later = credit("window", placed_ago_s=ago_s), credit("window", placed_ago_s=ago_s + more_s)
    assert 0 <= later <= first + 1e-9 <= 4 + 1e-9
