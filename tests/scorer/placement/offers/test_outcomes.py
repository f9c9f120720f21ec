"""A refused instance is tried again while another try may help, and says why it is missing else."""

from __future__ import annotations

import pytest

from scorer.ledger.record.transition import ALL_OR_NONE, CHANGED, Kind, Outcome
from scorer.placement.offers.placement import Placement, hopeless
from tests.scorer.fleets import request


@pytest.mark.parametrize(
    ("kind", "reasons", "current", "missing", "lost"),
    [
        pytest.param("conflict", ("too many",), True, "the ledger refused its machine: too many", 0, id="a limit"),
        pytest.param("conflict", ("too many",), False, "", 1, id="a limit, and others wrote"),
        pytest.param("conflict", ("too many", CHANGED), True, "", 1, id="a changed machine"),
        pytest.param("conflict", (ALL_OR_NONE,), True, "", 0, id="another instance failed"),
        pytest.param("none", (), True, "", 0, id="no candidates"),
    ],
)
def test_another_try_may_help(kind: Kind, reasons: tuple[str, ...], current: bool, missing: str, lost: int) -> None:
    """Not after a limit's refusal on a ledger that nobody else wrote; a conflict with others is counted."""
    placement = Placement([request(cpu=1)], [None])
    assert hopeless(placement, 0, Outcome(kind, reasons=reasons), current) is bool(missing)
    assert (placement.missing.get(0, ""), placement.lost[0]) == (missing, lost)
