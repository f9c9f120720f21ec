"""Batches of this commit beside another one, in interleaved pairs.

    git worktree add --detach /tmp/other COMMIT
    python -m tests.bench.bench_batches /tmp/other [--pairs 6] [--kinds identical,sizes,different]

Each commit has a server and a scorer of its own, on the same fleet; this process asks both. Prints the median of each
figure, and in brackets the median over the pairs of its ratio to the other commit: instances a second; processor time
of scorer and server and time of the reserve script, in us an instance. `bench_beside` prints how long others wait.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from schemas.names import Names
from scorer.client import Client
from scorer.wire import Wire
from tests.bench.bench_against import processor_us
from tests.bench.servers import machine_names
from tests.conftest import free_port, start_valkey, stop
from tests.window_tables import publish, window_table

MACHINES, INSTANCES = 5_000, 1_000
_numbers = count()

Params = dict[str, Any]
KINDS: dict[str, Callable[[int], Params]] = {
    "identical": lambda n: {"cpu": 0.001, "memory": "1M", "count": n},
    "sizes": lambda n: {"instances": [{"cpu": 0.001 + k % 64 / 1e3, "memory": f"{1 + k % 64}M"} for k in range(n)]},
    "different": lambda n: {
        "instances": [{"cpu": 0.001 + k / 1e5, "memory": f"{1 + k}M", "labels": {"app": f"a{k}"}} for k in range(n)]
    },
}


class Side:
    """A server and a scorer of one commit."""

    def __init__(self, url: str, wire: Wire, client: Client, processes: dict[str, int]) -> None:
        self.url, self._wire, self._client, self._processes = url, wire, client, processes

    def place(self, kind: str, instances: int) -> dict[str, float]:
        """Place a batch; return its figures."""
        loads = np.random.default_rng(1).beta(2, 4, MACHINES)
        publish(self._wire, Names(), [window_table(machine_names(MACHINES), utilization=loads)])
        time.sleep(0.2)
        asked, name = KINDS[kind](instances), f"batch-{next(_numbers)}"
        for number, one in enumerate(asked.get("instances", ())):
            one["id"] = f"{name}-{number}"
        self._wire.one("CONFIG", "RESETSTAT")
        before = {name: processor_us(process) for name, process in self._processes.items()}
        started = time.perf_counter()
        answer = self._client.place(**asked, **({} if "instances" in asked else {"id": name}), top=1)
        found = {"a second": instances / (time.perf_counter() - started)}
        assert len(answer["placed"]) == instances
        found |= {name: (processor_us(process) - before[name]) / instances for name, process in self._processes.items()}
        for line in self._wire.one("INFO", "commandstats").decode().splitlines():
            if line.startswith("cmdstat_evalsha:"):
                found["script"] = float(line.partition("usec=")[2].partition(",")[0]) / instances
        return found


@contextmanager
def side(folder: Path) -> Iterator[Side]:
    """Run a server and the scorer of a source tree."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        server, url = start_valkey(port, Path(directory)), f"redis://127.0.0.1:{port}/0"
        command = [sys.executable, "-m", "scorer", "--redis-url", url, "--log-level", "warning"]
        scorer = subprocess.Popen(command, cwd=folder, env={"PYTHONPATH": str(folder)})
        wire = Wire({"url": url})
        try:
            with Client(url, timeout_s=120) as client:
                client.health()
                yield Side(url, wire, client, {"scorer": scorer.pid, "server": server.pid})
        finally:
            wire.close()
            stop(scorer, wait_s=20)
            stop(server)


def main() -> int:
    """Measure in pairs; print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a source tree of the other commit")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    with side(given.other.resolve()) as other, side(Path(__file__).resolve().parents[2]) as this:
        for kind in given.kinds.split(","):
            pairs = []
            for turn in range(given.pairs + 1):  # the first is not counted
                order = (other, this) if turn % 2 else (this, other)
                found = {one: one.place(kind, INSTANCES) for one in order}
                pairs += [(found[other], found[this])] * (turn > 0)
            told = []
            for name in pairs[0][0]:
                ratio = median(now[name] / before[name] for before, now in pairs)
                told.append(f"{name} {median(now[name] for _, now in pairs):.1f} ({ratio:.2f})")
            print(f"{kind:10} {'  '.join(told)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
