"""What the times of acknowledged records tell of a machine's clock."""

import pytest

from streams.agent.broker_clock import KEPT, BrokerClock
from tests.rows import each_row


@each_row(
    ("what", "notes", "ahead_s", "is_off"),
    [
        ("nothing was acknowledged", [], None, False),
        ("the topic keeps the sender's times", [(100.0, 100.0, 100.1)], None, False),
        ("right", [(100.0, 100.01, 100.02)], 0.0, False),
        ("ahead", [(100.0, 40.0, 100.2)], 60.1, True),
        ("behind", [(100.0, 160.0, 100.2)], -59.9, True),
        ("a slow answer proves nothing", [(100.0, 100.5, 103.0)], 1.0, False),
        ("the narrowest of several", [(100.0, 100.5, 103.0), (110.0, 110.1, 110.2), (120.0, 120.5, 123.0)], 0.0, False),
        ("the clock was set: what it was does not count", [(100.0, 40.0, 100.1), (50.0, 50.1, 50.2)], 0.0, False),
        ("set while a record was on its way", [(100.0, 40.0, 41.0)], None, False),
    ],
)  # fmt: skip
def test_what_is_known(what: str, notes: list[tuple[float, float, float]], ahead_s: float | None, is_off: bool) -> None:
    """Each row: the records' times of sending, taking and acknowledgement."""
    clock = BrokerClock()
    for note in notes:
        clock.note(*note)
    assert (clock.ahead_s, clock.is_off) == (ahead_s if ahead_s is None else pytest.approx(ahead_s), is_off), what


def test_a_change_is_told_once() -> None:
    """When it goes off, and when enough has been heard that it is right."""
    clock = BrokerClock()
    assert [clock.note(at, at - 60, at + 0.1) for at in range(100, 110)] == [True, *[False] * 9]
    assert clock.note(150.0, 150.1, 150.2)
    assert not clock.is_off


def test_a_clock_that_drifts_is_noticed() -> None:
    """Narrow old pairs do not hide it for longer than there are kept ones."""
    clock = BrokerClock()
    clock.note(0.0, 0.01, 0.02)
    for number in range(1, KEPT + 1):
        clock.note(10.0 * number, 10.0 * number - 0.25 * number, 10.0 * number + 1.5)
    assert clock.ahead_s != 0.0
