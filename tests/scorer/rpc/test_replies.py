"""Batches: one step each in turn."""

from __future__ import annotations

import time
from typing import Any, cast

from schemas.rpc.envelope import Query
from scorer.metrics import Metrics
from scorer.placement.choosing.steps import Steps
from scorer.rpc.replies import ACTIVE, LATER, LONG_MAX, Replies


class Service:
    """Answers a query in as many steps as its id says, and one more; notes the steps and what was closed."""

    methods = ("place", "rank")

    def __init__(self) -> None:
        self.done: list[str] = []
        self.closed: list[str] = []

    def steps(self, query: Query) -> Steps[bytes]:
        """Work."""
        try:
            for _ in range(int(query.id)):
                self.done.append(query.id)
                yield
        finally:
            self.closed.append(query.id)
        return b"1"


def make(*ids: str) -> tuple[Replies, Service, Metrics]:
    """Return replies to these queries, the first step of each done."""
    service, metrics = Service(), Metrics()
    replies = Replies(cast("Any", service), metrics, time.time)
    for name in ids:
        assert replies.reply(b"", Query(id=name, method="place")) is LATER
    return replies, service, metrics


def test_each_does_a_step_in_its_turn() -> None:
    """A short one that came later is not kept waiting by a long one."""
    replies, service, metrics = make("3", "2")
    assert metrics.long._value.get() == 2
    done = [replies.go_on() for _ in range(6)]
    assert [each[1].id for each in done if each and each[1]] == ["2", "3"]
    assert service.done == ["3", "2", "3", "2", "3"]
    assert not replies.under_way
    assert metrics.long._value.get() == 0


def test_one_ends_after_the_other() -> None:
    """Each of the first keeps a fifth of the steps; a short one waits for none."""
    replies, _, _ = make(*["20"] * 10, "2")
    ended: list[tuple[str, int]] = []
    for step in range(1, 151):
        if (done := replies.go_on()) is not None and done[1]:
            ended.append((done[1].id, step))
    assert ended[0][0] == "2"
    assert ended[0][1] <= 2 * (ACTIVE + 1)
    assert [step for _, step in ended][1] <= 22 * (ACTIVE + 1)
    assert len(ended) > ACTIVE


def test_there_is_a_largest_number() -> None:
    """What is beyond it is refused at once, and takes no memory."""
    replies, service, _ = make(*["1"] * LONG_MAX)
    refused = replies.reply(b"", Query(id="2", method="place"))
    assert refused is not None
    assert refused.error is not None
    assert (refused.error.code, refused.error.retryable) == ("RESOURCE_EXHAUSTED", True)
    assert service.closed == ["2"]
    short = replies.reply(b"", Query(id="0", method="place"))
    assert short is not None
    assert short.ok


def test_all_are_given_up_when_the_server_is_lost() -> None:
    """They are taken from the queue again: nothing of them is kept."""
    replies, service, metrics = make("3", "4")
    replies.clear()
    assert not replies.under_way
    assert sorted(service.closed) == ["3", "4"]
    assert metrics.long._value.get() == 0
