"""Every process of a local stack is restarted under load; callers and windows notice nothing."""

import pytest

from tests.bench import rolling


@pytest.mark.slow
def test_everything_is_restarted_under_load(capfd: pytest.CaptureFixture[str]) -> None:
    """Scorers, workers, exporter, planner, Redis: each call is answered in time and once, no slot is missing."""
    assert rolling.main(["--machines", "30", "--clients", "3"]) == 0, capfd.readouterr().out
