"""The pods of a cluster: how long a start takes, in what memory, and how soon a bound pod is in the ledger.

    python -m tests.bench.bench_pods [--pods 150000] [--rate 100] [--seconds 20]

The API server is made up, in this process; what follows is the real command. Pods have the managed fields and the
conditions that kubelets write, some 5 kB each. A start is told twice: on an empty ledger, and where nothing differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from ops.stack.servers.process import free_port
from schemas.names import Names
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.bench.servers import own_server
from tests.integration.kube_api import KubeApi, kube_api
from tests.integration.test_exporter import get
from tests.integration.test_rpc import eventually

NODES = 5_000
FILLER = {f"f:field-{number}": {"f:status": {}, "f:type": {}} for number in range(90)}
"""Managed fields, as large as real ones."""


def put(api: KubeApi, number: int) -> None:
    """Bind one pod."""
    api.put(
        f"{number:08x}-5b1e-4d7a-9c3f-0123456789ab", f"node-{number % NODES:05}", cpu="500m",
        labels={"app": f"app-{number % 200}", "pod-template-hash": "5d4f"}, managedFields=[FILLER],
        ownerReferences=[{"kind": "ReplicaSet", "name": f"app-{number % 200}-5d4f", "controller": True}],
    )  # fmt: skip


def follow(url: str, api: KubeApi, what: str) -> subprocess.Popen[bytes]:
    """Start the command; return when its list is written."""
    port, began_s = free_port(), time.monotonic()
    command = [sys.executable, "-P", "-m", "ops.cli.main", "pods", "--redis-url", url, "--kubernetes", "east"]
    command += ["--api-url", api.url, "--metrics-port", str(port), "--log-level", "warning"]
    process = subprocess.Popen(command)

    def listed() -> bool:
        try:
            return b'lists_total{fleet="windward",result="done"} 1' in get(f"http://127.0.0.1:{port}/metrics")[2]
        except OSError:
            return False

    eventually(listed, 600)
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak_mb = int(status.partition("VmHWM:")[2].split()[0]) / 1000
    ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    cpu_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    print(f"{what}: {time.monotonic() - began_s:.1f} s, {cpu_s:.1f} s of a core, {peak_mb:.0f} MB at most")
    return process


def delays_ms(api: KubeApi, wire: Wire, ledger: Ledger, first: int, rate: float, seconds: float) -> list[float]:
    """Bind pods at a rate; return how long each took to be in the ledger's log."""
    bound: dict[str, float] = {}
    found: list[float] = []
    last = wire.one("XREVRANGE", ledger.log, "+", "-", "COUNT", 1)[0][0]
    began_s, count = time.monotonic(), int(rate * seconds)
    number = 0
    while len(found) < count:
        while number < count and time.monotonic() >= began_s + number / rate:
            bound[f"{first + number:08x}-5b1e-4d7a-9c3f-0123456789ab"] = time.monotonic()
            put(api, first + number)
            number += 1
        for at, fields in wire.one("XRANGE", ledger.log, b"(" + last, "+"):
            last, now_s = at, time.monotonic()
            found += [
                1000 * (now_s - bound[json.loads(value)["id"]])
                for name, value in zip(fields[::2], fields[1::2], strict=True)
                if name == b"i"
            ]
        time.sleep(0.001)
    return found


def main() -> int:
    """Start twice, then bind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    with own_server() as (url, wire), kube_api() as api:
        for number in range(arguments.pods):
            put(api, number)
        ledger = Ledger(wire, Names())
        body = json.dumps(next(iter(api.pods.values())))
        print(f"{arguments.pods} pods of {len(body)} bytes")
        follow(url, api, "start on an empty ledger").terminate()
        eventually(lambda: not wire.one("HGETALL", Names().processes("pods")))
        process = follow(url, api, "start where nothing differs")
        found = delays_ms(api, wire, ledger, arguments.pods, arguments.rate, arguments.seconds)
        print(f"bound to ledger at {arguments.rate:.0f} a second: "
              + ", ".join(f"p{q} {np.percentile(found, q):.1f} ms" for q in (50, 99, 100)))  # fmt: skip
        process.terminate()
        process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
