"""The filter `ports`: a port is used once on a machine."""

from __future__ import annotations

from scorer.ranking.filters.ports import Ports
from tests.scorer.fleets import machine, passes


def test_ports_are_used_once() -> None:
    """A machine where any of the ports is taken does not take the requested instance."""
    taken = [{"id": "i", "machine": "a", "ports": [6379]}]
    assert passes(Ports(), machine("a"), machine("b"), instances=taken, ports=[6380, 6379]) == "b"
    assert passes(Ports(), machine("a"), machine("b"), instances=taken) == "a b"
