"""An agent whose clock is off is named, ahead or behind; one that sends a backlog is not."""

from typing import Any

import pytest

from schemas.messages.sample import Message, encode
from streams.agent.loop import run
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.state.partition import Partition
from tests.streams.agent.sampling.test_sampler import BOOT, FakeClock, Gauge, sampler_of


def published(shift_s: float) -> list[tuple[float, Message]]:
    """What an agent publishes whose clock is so far ahead, each with the broker's time."""
    messages: list[tuple[float, Message]] = []
    clock: Any = FakeClock(BOOT + 3.5 + shift_s, ticks=45)

    def emit(message: Message) -> bool:
        messages.append((clock.epoch_s() - shift_s, message))
        return True

    run(sampler_of(Gauge()), clock, emit, 1e9)
    return messages


def fold(messages: list[tuple[float, Message]]) -> Partition:
    """Fold messages one by one, each as soon as the broker has it."""
    state = Partition(0, Table((300,), Zone()))
    for offset, (at, message) in enumerate(messages):
        state.fold([Arrived(offset, encode(message), at, b"m1")], at)
    return state


@pytest.mark.parametrize("shift_s", [73.0, 8.0, -8.0, -60.0, -4000.0])
def test_a_clock_that_is_far_off_is_named(shift_s: float) -> None:
    """Whether its samples are refused, corrected no more, or late; for a quarter of an hour."""
    messages = published(shift_s)
    state = fold(messages)
    now_s = messages[-1][0]
    assert state.clocks.off(now_s) == {"m1": pytest.approx(shift_s, abs=1.5)}
    assert state.clocks.off(now_s + 901) == {}


@pytest.mark.parametrize("shift_s", [0.0, 3.0, -3.0])
def test_a_clock_that_is_corrected_is_not_named(shift_s: float) -> None:
    """Up to five seconds are learned."""
    messages = published(shift_s)
    assert fold(messages).clocks.off(messages[-1][0]) == {}


def test_a_backlog_is_no_clock() -> None:
    """Samples that waited for the broker are sent at once, or one a second."""
    messages = published(0.0)
    for pace_s in (0.001, 1.0):
        sent = [(messages[-1][0] + pace_s * place, message) for place, (_, message) in enumerate(messages)]
        assert fold(sent).clocks.off(sent[-1][0]) == {}


def test_a_clock_that_is_right_again_is_named_no_more() -> None:
    """By its first sample."""
    wrong, right = published(-60.0), published(0.0)
    assert fold(wrong).clocks.off(wrong[-1][0]) != {}
    assert fold([*wrong, right[-1]]).clocks.off(right[-1][0]) == {}
