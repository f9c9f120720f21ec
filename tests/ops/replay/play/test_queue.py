"""Which instances ask in a minute, and which of them need no ranking."""

from __future__ import annotations

from dataclasses import replace

from ops.replay.play.queue import Queue
from tests.ops.replay.small_worlds import world

ASKS = [(2.0, 1.0, 0, 9), (4.0, 1.0, 0, 9), (1.0, 1.0, 0, 9), (3.0, 1.0, 8, 9)]
MIXED = world([8.0], ASKS, classes=["batch", "batch", "prod", "free"])


def test_prod_asks_first() -> None:
    """In one minute prod comes before batch, and the earlier before the later."""
    queue = Queue(MIXED)
    assert (queue.minute, queue.take()) == (0, [2, 0, 1])
    queue.ask_again(1, 8)
    assert (queue.minute, queue.take()) == (8, [1, 3])
    assert queue.minute == MIXED.minutes


def test_an_instance_that_asks_for_more_than_a_refused_one_is_not_ranked() -> None:
    """A refusal holds for larger instances of its class in that minute, and never for prod."""
    queue = Queue(MIXED)
    queue.take()
    assert not queue.cannot_fit(1)
    queue.refused(0)
    assert [queue.cannot_fit(each) for each in range(4)] == [True, True, False, False]
    queue.ask_again(1, 8)
    queue.take()
    assert not queue.cannot_fit(1)


def test_a_smaller_one_takes_the_place_of_a_larger_one() -> None:
    """The least that was refused decides."""
    queue = Queue(MIXED)
    queue.take()
    queue.refused(1)
    assert [queue.cannot_fit(each) for each in (0, 1)] == [False, True]
    queue.refused(0)
    assert [queue.cannot_fit(each) for each in (0, 1)] == [True, True]


def test_a_refusal_holds_for_its_kind() -> None:
    """What is expected of another kind may be less; with labels it holds for no other instance."""
    kinds = Queue(replace(MIXED, kinds=["a", "b", "a", "a"]))
    labels = Queue(replace(MIXED, labels=[{}, {}, {}, {}]))
    for queue in (kinds, labels):
        queue.take()
        queue.refused(0)
        assert not queue.cannot_fit(1)
