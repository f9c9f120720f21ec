"""The filter `machine_name`: a request for one machine."""

from __future__ import annotations

from scorer.ranking.filters.machine_name import MachineName
from tests.scorer.fleets import machine, passes


def test_a_named_machine_is_the_only_one() -> None:
    """Also a cordoned one, as far as this filter goes; a name without a machine leaves none."""
    machines = [machine("a", operator={"cordon": True}), machine("b")]
    assert passes(MachineName(), *machines, machine="a") == "a"
    assert passes(MachineName(), *machines, machine="nowhere") == ""
