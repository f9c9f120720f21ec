"""The backlog: bounded, in order, the oldest give way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.agent.sampling.backlog import Backlog, Record


def records(*numbers: int) -> list[Record]:
    """Return records named by numbers."""
    return [Record(b"m", str(number).encode()) for number in numbers]


@pytest.mark.parametrize(
    ("limit", "pushed", "kept", "dropped"),
    [
        pytest.param(3, [1], [1], 0, id="room"),
        pytest.param(3, [1, 2, 3], [1, 2, 3], 0, id="just full"),
        pytest.param(3, [1, 2, 3, 4, 5], [3, 4, 5], 2, id="the two oldest give way"),
        pytest.param(1, [1, 2, 3], [3], 2, id="room for one"),
    ],
)
def test_push(limit: int, pushed: list[int], kept: list[int], dropped: int):
    """What does not fit pushes out the oldest, and is counted."""
    backlog = Backlog(limit)
    assert sum(backlog.push(records(number)) for number in pushed) == dropped
    assert backlog.take(10) == records(*kept)


def test_what_was_not_delivered_goes_back_to_its_place():
    """Older than all that came meanwhile, so it is first again, and the first to go when there is no room."""
    backlog = Backlog(4)
    backlog.push(records(1, 2, 3))
    taken = backlog.take(3)
    backlog.push(records(4, 5))
    assert backlog.put_back(taken) == 1
    assert backlog.take(10) == records(2, 3, 4, 5)


@given(st.integers(1, 8), st.lists(st.one_of(st.integers(0, 5), st.just("back"), st.just("lost")), max_size=40))
def test_whatever_happens_the_newest_are_kept_in_order(limit: int, steps: list[int | str]):
    """Pushing, taking and putting back never reorders, never exceeds the limit, and loses none uncounted."""
    backlog, number, dropped, gone = Backlog(limit), 0, 0, 0
    for step in steps:
        if isinstance(step, int):
            dropped += backlog.push(records(*range(number, number + step)))
            number += step
        else:
            taken = backlog.take(2)
            if step == "back":
                dropped += backlog.put_back(taken)
            else:
                gone += len(taken)
        assert len(backlog) <= limit
        assert len(backlog) + dropped + gone == number
    left = [int(record.value) for record in backlog.take(limit)]
    assert left == list(range(number - len(left), number))
