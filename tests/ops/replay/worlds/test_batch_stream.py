"""Batch beside prod, of the same trace."""

from __future__ import annotations

import numpy as np
import pytest

from ops.replay.worlds.batch_stream import with_batch
from schemas.resources import CPU
from tests.ops.replay.small_worlds import small_world

PROD = small_world(seed=3)
BOTH = with_batch(PROD, 0.5)


def test_prod_is_what_it_was() -> None:
    """Its instances, times, amounts and usage are those of the world without batch."""
    prod = np.flatnonzero(~BOTH.lower)
    assert [BOTH.instances[at] for at in prod] == list(PROD.instances)
    for name in ("start", "life"):
        assert (getattr(BOTH, name)[prod] == getattr(PROD, name)).all()
    assert (BOTH.asked[:, prod] == PROD.asked).all()
    for mine, there in enumerate(prod[:40].tolist()):
        assert (BOTH.usage.of(there, CPU, 0, 99) == PROD.usage.of(mine, CPU, 0, 99)).all()


def test_batch_asks_for_its_share() -> None:
    """Live at a time, were all placed at once: half of the cores, in the long run."""
    batch = BOTH.lower
    live = (BOTH.asked[CPU] * BOTH.life)[batch].sum() / BOTH.minutes / PROD.capacity[CPU].sum()
    assert live == pytest.approx(0.5, rel=0.2)
    assert {BOTH.request(int(at)).priority_class for at in np.flatnonzero(batch)} == {"batch"}
    assert (np.diff(BOTH.start) >= 0).all()


def test_the_same_seed_is_the_same_stream() -> None:
    """And another seed another."""
    again, other = with_batch(PROD, 0.5), with_batch(small_world(seed=4), 0.5)
    assert again.start.tolist() == BOTH.start.tolist()
    assert other.start.tolist() != BOTH.start.tolist()
