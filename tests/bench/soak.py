"""Ten million messages through one worker: whether memory grows after the warm-up.

    python -m tests.bench.soak [--messages 10000000] [--machines 2000]

A broker, Valkey, one worker, one scorer and an exporter, and a publisher that keeps a backlog of some seconds. At every
hundredth of the messages the resident memory of the three processes and the memory of Valkey are noted. After the
warm-up (the longest window full, and a fifth of the messages) a line is laid through each by least squares. Memory is
flat where that line rises by less than 3 % of the mean from its begin to its end. The broker keeps all messages in
memory, some 400 bytes each: ten million need 4 GB, and a quarter of an hour on two cores.

Prints a line a tenth, then slope and verdict of each; the exit code says whether all are flat.
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import redis

from ops.stack.servers.local import LocalBroker, LocalValkey
from ops.stack.servers.process import LocalProcess, free_port
from ops.stack.stack import listens
from schemas.names import Names
from tests.bench.stream_worker import publish_slots
from tests.support.pipeline import Pipeline

BACKLOG_MAX = 100_000
"""Messages that the publisher is ahead at most."""
FLAT = 0.03
"""The most that memory may rise after the warm-up, by the line through it."""
WARM = 0.2
SLOTS_OF_WINDOW = 360
"""Slots of the longest window."""


def reader(name, url, names, folder):
    port = free_port()
    arguments = ["--redis-url", url, "--prefix", names.prefix, "--metrics-port", str(port)]
    command = [sys.executable, "-m", "ops.cli.main", name, *arguments]
    return LocalProcess(name, command, log=folder / f"{name}.log", ready=lambda: listens(port)).start()


def slope(at, memory, warm):
    """Return the slope of the line through memory after the warm-up, half its 95 % interval, and its rise as a share.

    The rise is that of the line from its begin to its end, as a share of the mean. The interval takes the readings for
    independent; memory that goes up and down over many of them makes it too narrow.

    >>> slope([0, 1, 2, 3, 4], [9.0, 10.0, 11.0, 12.0, 13.0], warm=1)[::2]
    (1.0, 0.26087)
    """
    x, y = np.array([(a, m) for a, m in zip(at, memory, strict=True) if a >= warm]).T
    (rise, _), covariance = np.polyfit(x, y, 1, cov=True)
    share = round(float(rise * np.ptp(x) / y.mean()), 6)  # the last digits differ between processors
    return round(float(rise), 12), 1.96 * float(np.sqrt(covariance[0, 0])), share


def soak(messages, machines, folder):
    """Return by process the messages folded and the memory then, MB."""
    names, noted = Names("soak"), dict[str, tuple[list[float], list[float]]]()
    with LocalBroker() as broker, LocalValkey(directory=folder / "valkey") as valkey:
        pipeline, ahead = (Pipeline(broker, valkey.url, names, folder, partitions=8) for _ in range(2))
        worker = pipeline.start_worker()
        readers = [reader(name, valkey.url, names, folder) for name in ("scorer", "exporter")]
        ended = threading.Event()
        publisher = threading.Thread(
            target=publish_slots,
            args=(broker.address, names.prefix, machines, messages),
            kwargs={"may_go_on": lambda sent: ended.is_set() or sent - ahead.folded() < BACKLOG_MAX},
            daemon=True,
        )
        publisher.start()
        started, server = time.monotonic(), redis.Redis.from_url(valkey.url)
        try:
            for part in range(1, 101):
                pipeline.await_folded(messages * part // 100, deadline_s=600)
                here = {"valkey": float(server.info("memory")["used_memory"])}
                for process in (worker, *readers):
                    here[process.name] = float(psutil.Process(process.pid).memory_info().rss)
                for name, memory in here.items():
                    at, used = noted.setdefault(name, ([], []))
                    at.append(messages * part / 100)
                    used.append(memory / 1e6)
                if part % 10 == 0:
                    told = ", ".join(f"{name} {used[-1]:.0f} MB" for name, (_, used) in noted.items())
                    rate = messages * part / 100 / (time.monotonic() - started)
                    print(f"{messages * part // 100:,} messages, {rate:,.0f}/s: {told}", flush=True)
        finally:
            ended.set()
            for process in readers:
                process.kill()
            pipeline.close()
            publisher.join()
            ahead.close()
            server.close()
    return noted


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--machines", type=int, default=2_000)
    given = parser.parse_args(arguments)
    warm = max(WARM * given.messages, 1.2 * SLOTS_OF_WINDOW * given.machines)
    if warm > 0.8 * given.messages:
        parser.error(f"--messages: {given.machines} machines need {warm / 0.8:,.0f} at least, so that a window is full")
    with tempfile.TemporaryDirectory() as folder:
        noted = soak(given.messages, given.machines, Path(folder))
    rising = 0
    for name, (at, used) in noted.items():
        rise, half, share = slope(at, used, warm)
        rising += share > FLAT
        print(
            f"{name}: {np.mean(used[len(used) // 2 :]):.0f} MB, {1e6 * rise:+.2f} ± {1e6 * half:.2f} MB a million "
            f"messages after the warm-up ({share:+.1%} in all)"
        )
    print("memory is flat" if not rising else f"memory of {rising} grows")
    return 1 if rising else 0


if __name__ == "__main__":
    sys.exit(main())
