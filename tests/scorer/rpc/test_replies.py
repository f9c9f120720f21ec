"""Long queries: one step each in turn."""

from __future__ import annotations

from schemas.rpc.envelope import Query, Reply
from scorer.placement.choosing.steps import Steps
from scorer.rpc.replies import LATER, LONG_MAX, LongQueries, LongQuery

CLOSED: list[str] = []


def long(name: str, steps: int) -> LongQuery:
    """Return a query with so many steps."""

    def work() -> Steps[bytes]:
        try:
            for _ in range(steps):
                yield
        finally:
            CLOSED.append(name)
        return name.encode()

    return LongQuery(name.encode(), Query(id=name, method="place"), work(), 0.0)


def do(query: LongQuery) -> Reply:
    """Do one step."""
    try:
        next(query.steps)
    except StopIteration as done:
        return Reply(id=done.value.decode(), ok=True)
    return LATER


def test_each_does_a_step_in_its_turn() -> None:
    """A short one that came later is not kept waiting by a long one."""
    queue = LongQueries()
    queue.add(long("a", 3))
    queue.add(long("b", 1))
    done = [queue.step(do) for _ in range(6)]
    assert [each[1].id for each in done if each] == ["b", "a"]
    assert not len(queue)


def test_there_is_a_largest_number() -> None:
    """What is beyond it is refused by the loop."""
    queue = LongQueries()
    for number in range(LONG_MAX):
        assert not queue.full
        queue.add(long(f"q{number}", 1))
    assert queue.full


def test_all_are_given_up_when_the_server_is_lost() -> None:
    """They are taken from the queue again: nothing of them is kept."""
    queue, a = LongQueries(), long("given up", 3)
    next(a.steps)
    queue.add(a)
    queue.clear()
    assert not len(queue)
    assert "given up" in CLOSED
