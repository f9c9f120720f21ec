"""What ends is started again, later each time it ends soon; what depends on others ends first."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.stack.servers.process import LocalProcess
from ops.stack.supervisor import BACKOFF_S_MAX, STEADY_S, Supervisor, backoff_s


class Fake(LocalProcess):
    """A process that is only told of."""

    def __init__(self, name: str, events: list[str]) -> None:
        super().__init__(name, [], log=Path(f"{name}.log"))
        self.events = events
        self.alive = True

    @property
    def running(self) -> bool:
        return self.alive

    @property
    def exit_code(self) -> int | None:
        return None if self.alive else 1

    @property
    def pid(self) -> int:
        return 7

    def spawn(self) -> Fake:
        self.alive = True
        self.events.append(f"spawn {self.name}")
        return self

    def ask_to_stop(self) -> None:
        self.events.append(f"ask {self.name}")

    def stop(self) -> None:
        self.alive = False
        self.events.append(f"stop {self.name}")


def revived_at(supervisor: Supervisor, process: Fake, now_s: float) -> float:
    """Let the process end, watch ten times a second, return when it was started again."""
    process.alive = False
    while not process.alive:
        supervisor.watch(now_s)
        now_s += 0.1
        assert now_s < 10_000
    return now_s


def test_the_pause_doubles_while_a_process_ends_soon_and_is_short_again_after_a_steady_time() -> None:
    """1, 2, 4 seconds; after a minute of life 1 again."""
    said: list[str] = []
    process = Fake("stream-1", [])
    supervisor = Supervisor(said.append)
    supervisor.add([process], 0.0)
    now = 0.0
    for pause in (1, 2, 4):
        back = revived_at(supervisor, process, now)
        assert back - now == pytest.approx(pause, abs=0.25)
        now = back
    later = now + STEADY_S + 1
    assert revived_at(supervisor, process, later) - later == pytest.approx(1, abs=0.25)
    assert said[0] == "stream-1 ended with 1; again in 1 s (stream-1.log)"
    assert said[1] == "stream-1 is started again, process 7"


def test_the_pause_has_a_bound() -> None:
    """A process that never comes up is tried twice a minute for ever."""
    assert backoff_s(10_000) == BACKOFF_S_MAX


def test_what_depends_on_others_ends_first_and_a_tier_ends_together() -> None:
    """The agent before the stream apps, these at once, the broker last."""
    events: list[str] = []
    supervisor = Supervisor(lambda _: None)
    for tier in (["broker"], ["stream-1", "stream-2"], ["agent"]):
        supervisor.add([Fake(name, events) for name in tier], 0.0)
    supervisor.stop()
    assert events == [
        *("ask agent", "stop agent"),
        *("ask stream-1", "ask stream-2", "stop stream-1", "stop stream-2"),
        *("ask broker", "stop broker"),
    ]
    assert len(supervisor.dead) == 4
