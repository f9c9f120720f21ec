"""The filter `fits`: who passes, who does not, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.ranking.filters.fits import Fits
from tests.rows import each_row
from tests.scorer.fleets import BUSY, IDLE, machine, passes, why


@each_row(
    ("name", "asked", "plugin", "expected"),
    [
        ("both are left", {"cpu": 2, "memory": 20}, Fits(), "idle promised"),
        ("exactly what is left", {"cpu": 10, "memory": 100}, Fits(), "idle"),
        ("more than any machine has", {"cpu": 11}, Fits(), ""),
        ("nothing asked is never refused", {}, Fits(), "idle promised used silent"),
        ("measured load counts where nothing is promised", {"cpu": 1.5}, Fits(), "idle promised"),
        (
            "by requests alone measured load does not count",
            {"cpu": 1.5},
            Fits(basis="requests"),
            "idle promised used silent",
        ),
        ("what counts for a request without an amount", {}, Fits(default_cpu=1.5), "idle promised"),
        ("a resource whose capacity is unknown", {"nic": 1}, Fits(), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_fits(name: str, asked: dict[str, Any], plugin: Fits, expected: str) -> None:
    """A machine takes what allocatable leaves beside the larger of promised and used."""
    machines = [
        machine("idle", usage=IDLE),
        machine("promised", usage=IDLE),
        machine("used", usage=BUSY),
        machine("silent"),
    ]
    instances = [{"id": "i", "machine": "promised", "cpu": 8, "memory": 80, "expected": {"cpu": 0, "memory": 0}}]
    assert passes(plugin, *machines, instances=instances, **asked) == expected


def test_fits_by_allocatable_not_by_capacity() -> None:
    """Share and reserve of the operator come off the capacity first."""
    limited = machine("m", usage=IDLE, operator={"share": {"cpu": 0.5}, "reserve": {"cpu": 1}})
    assert passes(Fits(), limited, cpu=4) == "m"
    assert passes(Fits(), limited, cpu=4.1) == ""


@pytest.mark.parametrize("basis", ["requests", "taken"])
def test_instances_without_an_amount_count_the_default(basis: Any) -> None:
    """Of 100 m each ten fit on a core, nine that are there and the instance, and no eleventh; without it any number."""
    nine, ten = (
        [{"id": f"{name}{number}", "machine": name} for number in range(count)]
        for name, count in (("nine", 9), ("ten", 10))
    )
    machines = [machine(name, 1, usage={"cpu": 0.5, "memory": 0}) for name in ("nine", "ten")]
    assert passes(Fits(basis=basis, default_cpu=0.1), *machines, instances=nine + ten) == "nine"
    assert passes(Fits(basis=basis), *machines, instances=nine + ten) == "nine ten"


def test_fits_says_what_is_short() -> None:
    """Too large for the machine, too full, unknown: each in its own words."""
    reasons = why(Fits(), machine("small", 1, usage=IDLE), machine("full", usage=BUSY), machine("dark"), cpu=2)
    assert reasons == ["cpu larger than the machine", "cpu too full", "cpu usage unknown"]
