"""What an instance adds to a limit."""

from __future__ import annotations

import math

import pytest

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, adds, in_role, mosts_in_script, on_port, total
from scorer.ledger.record.units import COUNT_MAX, NO_LIMIT
from tests.rows import each_row


@each_row(
    ("limit", "added"),
    [
        (Limit(total("memory"), 1.0, ""), 1_000_000_000),
        (Limit(total("memory", "prod"), 1.0, ""), 0),
        (Limit(total("memory", "prod", "batch"), 1.0, ""), 1_000_000_000),
        (Limit(total("maxmemory"), 1.0, ""), 7),
        (Limit(total("instances"), 1.0, ""), 1),
        (Limit(on_port(1), 1.0, ""), 1),
        (Limit(on_port(2), 1.0, ""), 0),
        (Limit(in_role("a b", "c"), 1.0, ""), 1),
        (Limit(in_role("a", "b c"), 1.0, ""), 0),
    ],
)
def test_what_an_instance_adds_to_a_limit(limit: Limit, added: int) -> None:
    """A sum over all or some classes, the number of instances, a port, a role of a cluster: each by its name."""
    record = Instance(
        id="a", machine="m", state="reserved", amounts=(None, 1e9, *[0.0] * (len(RESOURCES) - 2)), maxmemory=7.0,
        ports=(1,), cluster="a b", role="c", priority_class="batch",
    )  # fmt: skip
    assert adds(record, limit.measure) == added


@pytest.mark.parametrize(
    ("most", "counted"),
    [(2.0, 2_000_000), (0.0, 0), (-5.0, 0), (-math.inf, 0), (math.nan, NO_LIMIT), (1e300, COUNT_MAX)],
)
def test_the_most_of_a_limit_as_the_scripts_count_it(most: float, counted: float) -> None:
    """A limit below 0 leaves no room; it is not taken for none."""
    assert mosts_in_script([Limit(total("cpu"), most, "")], [(1e6, 0.5)]) == [int(counted)]
