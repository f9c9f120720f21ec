"""What the agent costs: CPU and memory of a real agent process that publishes to a real broker.

    python -m tests.bench.bench_agent [--seconds 300] [--away] [--instances 50]

Prints one JSON object; exit code 1 when the agent takes more than 1 % of a core or 64 MiB. ``--away``: without broker.
``--instances``: with so many control groups to be read; they are files, so what a kernel does to make up theirs is not
in the figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from ops.stack.servers.broker import LocalBroker
from ops.stack.servers.process import LOOPBACK, LocalProcess, free_port
from streams.worker.topics import TopicSettings, ensure_topics
from tests.streams.agent.instances.tree import Tree

CORE_SHARE_MAX = 0.01
RSS_BYTES_MAX = 64 * 2**20
WARM_UP_S = 5.0


def measure(seconds: float, *, away: bool, instances: int = 0) -> dict[str, float]:
    """Return the share of a core and the memory of an agent over so many seconds, its start not counted."""
    with ExitStack() as stack:
        tree = Tree(Path(stack.enter_context(TemporaryDirectory())) / "machine")
        for number in range(instances):
            tree.group(f"system.slice/redis-{number}.service", cpu_s=number, io="8:0 rbytes=1 wbytes=1\n")
        if away:
            address = f"{LOOPBACK}:{free_port()}"
        else:
            address = stack.enter_context(LocalBroker()).address
            ensure_topics(TopicSettings(kafka=address))
        command = [sys.executable, "-m", "ops.cli.main", "agent", "--kafka", address, "--nic-speed", "10G"]
        command += ["--cgroup-root", str(tree.groups)]
        agent = psutil.Process(stack.enter_context(LocalProcess("agent", command)).pid)
        time.sleep(WARM_UP_S)
        started_s, before = time.monotonic(), agent.cpu_times()
        rss_bytes = 0
        while time.monotonic() - started_s < seconds:
            time.sleep(1)
            rss_bytes = max(rss_bytes, agent.memory_info().rss)
        after, elapsed_s = agent.cpu_times(), time.monotonic() - started_s
        return {
            "seconds": round(elapsed_s, 1),
            "core_share": round((after.user + after.system - before.user - before.system) / elapsed_s, 5),
            "rss_bytes_max": rss_bytes,
            "start_cpu_s": round(before.user + before.system, 3),
            "threads": agent.num_threads(),
            "instances": instances,
        }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--away", action="store_true", help="measure without a broker")
    parser.add_argument("--instances", type=int, default=0, help="control groups to be read")
    arguments = parser.parse_args()
    found = measure(arguments.seconds, away=arguments.away, instances=arguments.instances)
    print(json.dumps(found))
    return 0 if found["core_share"] <= CORE_SHARE_MAX and found["rss_bytes_max"] <= RSS_BYTES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
