"""The agent's loop: wait for the tick, read, emit. Time comes from a clock that tests can replace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from schemas.messages.sample import Message, Sample
from streams.agent.instances.report import Reporter
from streams.agent.sampling.sampler import Sampler


class Clock:
    """The machine's clocks; ``stop`` ends a wait. Tests have one of their own."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def epoch_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait so long; return True as soon as the process is to stop."""
        return self._stop.wait(max(seconds, 0.0))


def run(
    sampler: Sampler,
    clock: Clock,
    emit: Callable[[Message], bool],
    facts_interval_s: float,
    alive: Callable[[], None] = lambda: None,
    reporter: Reporter | None = None,
) -> None:
    """Read at every tick and emit samples and facts until the clock says stop or ``emit`` returns False.

    ``reporter`` adds the usage of the machine's instances to samples; None: samples have none. The facts follow the
    first reading after a start, so that they have the capacities, and then at their own interval.
    """
    sampler.read(clock.epoch_s(), clock.monotonic_s())
    if reporter:
        reporter.start(clock.monotonic_s())
    next_facts_s = clock.monotonic_s()
    while not clock.wait(sampler.schedule.until_next_tick_s(clock.epoch_s())):
        messages: list[Message] = []
        now_s = clock.monotonic_s()
        samples: list[Sample] = sampler.read(clock.epoch_s(), now_s)
        if now_s >= next_facts_s:
            next_facts_s = now_s + facts_interval_s
            messages.append(sampler.facts(clock.epoch_s()))
        messages.extend(reporter.attach(sample, now_s) if reporter else sample for sample in samples)
        alive()
        wanted = [emit(message) for message in messages]
        if not all(wanted):
            return
