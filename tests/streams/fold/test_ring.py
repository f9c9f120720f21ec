"""Which slot an interval belongs to."""

import numpy as np

from streams.fold.ring import slot_of
from tests.rows import each_row


@each_row(
    ("name", "at", "slot"),
    [
        ("end of the first slot", 10.0, 0),
        ("just after it", 10.000001, 1),
        ("inside the second", 15.0, 1),
        ("end of the second", 20.0, 1),
        ("the epoch", 0.0, -1),
        ("just after the epoch", 1e-9, 0),
        ("a time of today", 1_790_000_000.0, 178_999_999),
        ("the latest that is read", 1e11, 9_999_999_999),
    ],
)
def test_an_interval_belongs_to_the_slot_it_ends_in(name: str, at: float, slot: int) -> None:
    """A slot holds the moment just before the interval's end."""
    assert slot_of(np.array([at]))[0] == slot, name
