"""Several scorers on one ledger."""

from __future__ import annotations

import pytest

from schemas.names import Names
from tests.bench.bench_scorers import contend
from tests.conftest import Valkey

pytestmark = pytest.mark.integration


def test_several_scorers_never_oversubscribe(valkey: Valkey, names: Names) -> None:
    """Three scorers, one killed in the middle, six clients, a nearly full fleet: every law holds in the history."""
    report, _ = contend(valkey.url, names, scorers=3, clients=6, placements=1800, machines=12, kill=True)
    assert report.faults == []
    assert report.answers["placed"] > 500
    assert report.answers["no machine"] > 0
    assert report.fullest > 0.95
