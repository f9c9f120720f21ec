"""How fast a backlog is folded by one worker and by two that share the partitions.

    python -m tests.bench.bench_workers [--machines 1000] [--messages 200000] [--partitions 8]

Prints messages a second between the first tenth and nine tenths of the backlog, processor time a message, and the
ratios. On two cores the broker, Valkey and two workers share what one worker had nearly for itself.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from ops.stack.servers.broker import LocalBroker
from ops.stack.servers.valkey import LocalValkey
from schemas.names import Names
from tests.bench.bench_fold import publish
from tests.integration.pipeline import Pipeline, await_condition


class Rate(NamedTuple):
    """What so many workers do together."""

    messages_s: float
    cpu_us: float
    """Processor time of all of them, a message."""


def rate(workers: int, options: argparse.Namespace, folder: Path) -> Rate:
    """Return the messages a second that so many workers fold."""
    with LocalBroker() as broker, LocalValkey(directory=folder / f"valkey-{workers}") as valkey:
        pipeline = Pipeline(broker, valkey.url, Names("bench"), folder, options.partitions)
        try:
            for _ in range(workers):
                pipeline.start_worker()
            logs = [worker.log for worker in pipeline.workers]
            each = options.partitions // workers
            await_condition(
                lambda: (
                    sum(log.read_text().count("event=stream.loaded") for log in logs) >= each * workers
                    and all("event=stream.loaded" in log.read_text() for log in logs)
                ),
                "every worker has partitions",
            )
            publish(broker.address, "bench", options.machines, options.messages)
            begin = await_condition(
                lambda: pipeline.folded() > options.messages // 10 and mark(pipeline), "a tenth", 120
            )
            end = await_condition(
                lambda: pipeline.folded() > options.messages * 9 // 10 and mark(pipeline), "nine tenths", 300
            )
            messages = end[0] - begin[0]
            return Rate(messages / (end[1] - begin[1]), 1e6 * (end[2] - begin[2]) / messages)
        finally:
            pipeline.close()


def mark(pipeline: Pipeline) -> tuple[int, float, float]:
    """Return how many are folded, when, and the workers' processor time until then, s."""
    times = [psutil.Process(worker.pid).cpu_times() for worker in pipeline.workers]
    return pipeline.folded(), time.perf_counter(), sum(each.user + each.system for each in times)


def main() -> None:
    """Measure one and two workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, two = (rate(workers, options, Path(folder)) for workers in (1, 2))
    print(
        f"one worker {one.messages_s:,.0f}/s, {one.cpu_us:.0f} us a message; two workers {two.messages_s:,.0f}/s, "
        f"{two.cpu_us:.0f} us; ratios {two.messages_s / one.messages_s:.2f} and {two.cpu_us / one.cpu_us:.2f}"
    )


if __name__ == "__main__":
    main()
