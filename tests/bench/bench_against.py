"""This commit beside another one: what a call takes, and placements a second, in interleaved pairs.

    git worktree add --detach /tmp/other COMMIT
    python -m tests.bench.bench_against /tmp/other [--pairs 6] [--profile variance-and-risk]

Each commit has a server and a scorer of its own, on the same fleet. They are asked in turn, some hundred calls at a
time, so that other work on the machine slows both. Prints the median of each figure, and in brackets the median over
the pairs of its ratio to the other commit. The figures: p50 and p99 of a call in us, processor time of scorer and
server a call, the mean time of the reserve script, placements a second by eight clients. ``--profile`` is the default
of this commit's scorer, for one that had another default.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from schemas.names import Names
from scorer.client import Client
from scorer.wire import Wire
from tests.conftest import free_port, start_valkey, stop

MACHINES, PARTITIONS, CLIENTS = 5_000, 4, 8
FIGURES = ("p50", "p99", "a second", "scorer", "server", "script")
Figures = dict[str, float]


def processor_us(process: int) -> float:
    """Return the processor time of all threads of a process."""
    found = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        found += int((task / "schedstat").read_text().split()[0])
    return found / 1e3


def place_until(url: str, name: str, start: float, seconds: float, counts: multiprocessing.Queue[int]) -> None:
    """Place small instances as fast as the answers come."""
    placed = 0
    with Client(url, timeout_s=30) as client:
        client.health()
        time.sleep(max(0.0, start - time.monotonic()))
        while time.monotonic() < start + seconds:
            client.place(id=f"{name}-{placed}", cpu=0.001, memory="1M", top=1)
            placed += 1
    counts.put(placed)


class Side:
    """A server, a scorer and a client of the commit that is imported here."""

    def __init__(self, url: str, server: int, scorer: int, client: Client) -> None:
        self._url, self._server, self._scorer, self._client = url, server, scorer, client
        self._wire = Wire({"url": url})
        self._rounds = 0
        self._calls: dict[str, Callable[[], object]] = {
            "health": client.health,
            "rank": lambda: client.rank(cpu=0.5, memory="1G"),
            "place": lambda: client.place(cpu=0.001, memory="1M"),
        }

    def measure(self, what: str, calls: int, seconds: float) -> Figures:
        """Return the figures of so many calls, or of placements by several clients."""
        self._publish()
        call = self._calls.get(what)
        for _ in range(20):
            (call or self._client.health)()
        self._wire.one("CONFIG", "RESETSTAT")
        before = self._processors()
        if call is None:
            count = self._clients(seconds)
            found = {"a second": count / seconds}
        else:
            count, times = calls, np.empty(calls)
            for position in range(calls):
                started = time.perf_counter()
                call()
                times[position] = 1e6 * (time.perf_counter() - started)
            found = {"p50": float(np.percentile(times, 50)), "p99": float(np.percentile(times, 99))}
        found |= {name: (now - before[name]) / count for name, now in self._processors().items()}
        for line in self._wire.one("INFO", "commandstats").decode().splitlines():
            if line.startswith("cmdstat_evalsha:"):
                found["script"] = float(line.partition("usec_per_call=")[2].partition(",")[0])
        return found

    def _publish(self) -> None:
        """Write fresh windows, and wait until the scorer has read them."""
        tables = import_module("tests.window_tables" if Path("tests/window_tables.py").exists() else "tests.fleets")
        names = [f"machine-{number:05d}" for number in range(MACHINES)]
        loads = np.random.default_rng(1).beta(2, 4, MACHINES)
        parts = [range(part, MACHINES, PARTITIONS) for part in range(PARTITIONS)]
        written = [tables.window_table([names[row] for row in part], utilization=loads[list(part)]) for part in parts]
        tables.publish(self._wire, Names(), written)
        time.sleep(0.2)

    def _processors(self) -> Figures:
        return {"scorer": processor_us(self._scorer), "server": processor_us(self._server)}

    def _clients(self, seconds: float) -> int:
        self._rounds += 1
        counts: multiprocessing.Queue[int] = multiprocessing.Queue()
        start = time.monotonic() + 0.5
        clients = [
            multiprocessing.Process(target=place_until, args=(self._url, f"{self._rounds}-{n}", start, seconds, counts))
            for n in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        placed = sum(counts.get() for _ in clients)
        for client in clients:
            client.join()
        return placed


def serve(profile: str) -> None:
    """Measure what is asked on standard input, one JSON line each, on the commit in the current folder."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        server, url = start_valkey(port, Path(directory)), f"redis://127.0.0.1:{port}/0"
        options = ["--profile", profile] if profile else []
        command = [sys.executable, "-m", "scorer", "--redis-url", url, "--log-level", "warning", *options]
        scorer = subprocess.Popen(command)
        try:
            with Client(url, timeout_s=30) as client:
                client.health()
                side = Side(url, server.pid, scorer.pid, client)
                for line in sys.stdin:
                    print(json.dumps(side.measure(**json.loads(line))), file=answers)
        finally:
            stop(scorer)
            stop(server)


def start(folder: Path, profile: str) -> subprocess.Popen[str]:
    """Start the other side of `serve` on a commit."""
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    code = "import sys; sys.path.insert(0, sys.argv[1]); import bench_against; bench_against.serve(sys.argv[2])"
    return subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parent), profile],
        cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def ask(side: subprocess.Popen[str], **question: Any) -> Figures:
    """Return the figures that a commit measured."""
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write(json.dumps(question) + "\n")
    side.stdin.flush()
    answer: Figures = json.loads(side.stdout.readline())
    return answer


def main() -> int:
    """Measure in pairs; print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a source tree of the other commit")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--profile", default="", help="default profile of this commit's scorer")
    given = parser.parse_args()
    other = start(given.other.resolve(), "")
    this = start(Path(__file__).resolve().parents[2], given.profile)
    for what in ("health", "rank", "place", f"{CLIENTS} clients"):
        pairs = []
        for turn in range(given.pairs + 1):  # the first is not counted
            sides = (other, this) if turn % 2 else (this, other)
            found = {side: ask(side, what=what, calls=given.calls, seconds=given.seconds) for side in sides}
            pairs += [(found[other], found[this])] * (turn > 0)
        told = []
        for name in FIGURES:
            known = [(before[name], now[name]) for before, now in pairs if name in before and name in now]
            if len(known) == len(pairs):
                ratio = median(now / before for before, now in known)
                told.append(f"{name} {median(now for _, now in known):.0f} ({ratio:.2f})")
        print(f"{what:10} {'  '.join(told)}", flush=True)
    for side in (other, this):
        side.communicate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
