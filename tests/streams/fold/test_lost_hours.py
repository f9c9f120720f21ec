"""A lost hour of the peaks is made again from the log, as far as that reaches."""

import numpy as np
import pytest

from schemas.messages.sample import encode
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.ring import HOURS
from streams.fold.table import Table
from streams.state.partition import Partition
from tests.rows import each_row
from tests.streams.batches import START, sample

SLOTS = 500
BATCH = 20


def log() -> list[Arrived]:
    """Samples of two machines over more than an hour; those of one begin late."""
    samples = [sample(m, slot, seq=slot) for slot in range(SLOTS) for m in ("a", "b") if slot >= 150 or m == "a"]
    return [Arrived(n, encode(one), one.at + 0.05, one.machine.encode()) for n, one in enumerate(samples)]


def partition(zone: str) -> Partition:
    """A new partition."""
    return Partition(0, Table((300, 900, 3600), Zone(zone)))


@each_row(
    ("zone", "lost", "first_slot", "while_read", "known_from"),
    [
        pytest.param("UTC", 0, 0, (60, 60), (0, 25), id="the whole log"),
        pytest.param("UTC", 0, 100, (60, 60), (16, 25), id="from within the hour"),
        pytest.param("UTC", 0, 150, (60, 60), (25, 25), id="from where the other machine begins"),
        pytest.param("UTC", 0, 365, (60, 60), (60, 60), id="from after it"),
        pytest.param("Asia/Kolkata", 0, 0, (30, 30), (0, 25), id="hours cut at half past: the whole log"),
        pytest.param("Asia/Kolkata", 0, 365, (30, 30), (30, 30), id="hours cut at half past: from after it"),
        pytest.param("UTC", 5, 0, (0, 25), (0, 25), id="an hour in which nothing was"),
    ],
)
def test_a_lost_hour(
    zone: str, lost: int, first_slot: int, while_read: tuple[int, int], known_from: tuple[int, int]
) -> None:
    """While the log is read the peaks are known from its end on, then from where the log begins (minutes)."""
    whole, again, messages = partition(zone), partition(zone), log()
    for state in (whole, again):
        for first in range(0, len(messages), BATCH):
            state.fold(messages[first : first + BATCH])
    place = (START // 3600 + (lost - HOURS if lost else 0)) % HOURS
    again.ring.peak[:, :, place] = np.nan
    again.rebuild(again.lost_positions, {place})
    if not lost:
        assert tuple(again.ring.first_minute[:2] - START // 60) == while_read
    again.fold([one for one in messages if one.recorded_at > START + first_slot * 10])
    assert again.end_rebuild() == 0
    assert tuple(again.ring.first_minute[:2] - START // 60) == known_from
    assert place in again.hours
    if not first_slot:
        np.testing.assert_array_equal(again.ring.peak[:2], whole.ring.peak[:2])
        assert np.isnan(again.ring.peak[:2, :, place]).all() == bool(lost)
