"""A mixed load on one scorer, beside another checkout: placements a second, waiting, and the cost of a decision.

    git worktree add --detach /tmp/other COMMIT
    python -m tests.bench.bench_mixed /tmp/other [--pairs 6] [--machines 5000 50000] [--seconds 4]

Each checkout has a Valkey, a scorer with the default profile and a process that writes windows as its worker does; a
tenth of the machines send a sample each second. Eight clients place (`tests.bench.mixed_requests` has the kinds of
load). Of ten instances one is confirmed, resized, moved and released while others are placed; the others expire after
the turn. Beside them a bare echo over two lists of the same server is asked every 10 ms.

Prints for each fleet and kind this checkout's medians and, in brackets, the ratio to the other one with its interval
(`tests.bench.pairs`); then the ratios between kinds, by pairs of the same turn, and between fleets. Times are in us;
``scorer`` and ``server`` are processor time a placement, with all that the process does meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.wire import Wire
from tests.bench.fleet_writer import fleet_writer
from tests.bench.mixed_requests import KINDS, Requests
from tests.bench.pairs import HERE, Figures, Side, in_pairs, ratio_between, ratio_of
from tests.bench.servers import own_scorer, own_server, processor_us, server_process

CLIENTS = 8
LIFE_EVERY = 10
STEP_EVERY = 2
"""After every second placement an instance in its life takes its next step."""
ECHO_EVERY_S = 0.01
WARM_S = 1.0
BEFORE = 10_000
"""Instances that are in the ledger throughout."""
SHOWN = ("placements/s", "p50", "p99", "echo p50", "echo p99", "p99 / echo", "scorer", "server", "worker share")


def life(client: Client, name: str, requests: Requests) -> Iterator[None]:
    """Confirm, resize, move and release an instance, one call a step."""
    client.confirm(name)
    yield
    client.update(name, cpu=requests.dice.choice((0.1, 0.3, 0.6)))
    yield
    record = client.update(name, machine="", move=True, ttl_s=30)
    yield
    if record["moving"] is not None:
        moving = record["moving"]
        client.confirm(name, machine=moving["to"], generation=record["generation"], move=moving["number"])
        yield
    client.release(name)


def place_until(url: str, name: str, kind: str, begin: float, seconds: float, told: multiprocessing.Queue[Any]) -> None:
    """Place as fast as the answers come; tell the times of those asked in the measured part of the turn."""
    times, failed = [], 0
    requests, living = Requests(kind, hash(name) % 2**32), iter(())
    with Client(url, timeout_s=30) as client:
        for number in itertools.count():
            started = time.monotonic()
            if started >= begin + seconds:
                break
            instance = f"{name}-{number}"
            try:
                found = client.place(id=instance, top=1, ttl_s=seconds + WARM_S + 2.0, **requests.draw())
                if started >= begin:
                    times.append(time.monotonic() - started)
                    failed += found["machine"] is None
                if number % LIFE_EVERY == 0 and found["machine"] is not None:
                    for _ in living:
                        pass
                    living = life(client, instance, requests)
                if number % STEP_EVERY == 0:
                    next(living, None)
            except WindwardError:
                failed += 1
        for _ in living:
            pass
    told.put((times, failed))


def echo_server(url: str) -> None:
    """Send back what comes, until killed."""
    wire = Wire({"url": url})
    while True:
        (got,) = wire.ask([("BLPOP", "echo:queries", 1)], 1.0)
        if got is not None:
            wire.post([("LPUSH", "echo:reply", got[1])])


class MixedLoad:
    """Measures turns of the load on one server."""

    def __init__(self, url: str, wire: Wire, server: int, scorer: int, tell: Callable[[str], Any]) -> None:
        self._url, self._wire, self._server, self._scorer, self._tell = url, wire, server, scorer, tell
        self._turns = 0
        with Client(url, timeout_s=60) as client:
            client.health()
            for number in range(BEFORE // 1_000):
                placed = client.place(id=f"before-{number}", cpu=0.1, memory="100M", count=1_000, ttl_s=86_400)
                assert len(placed["placed"]) == 1_000, placed["reason"]

    def __call__(self, kind: str, seconds: float) -> Figures:
        """Return the figures of one turn."""
        self._turns += 1
        self._tell("go")
        told: multiprocessing.Queue[Any] = multiprocessing.Queue()
        begin = time.monotonic() + 0.3 + WARM_S
        clients = [
            multiprocessing.Process(
                target=place_until, args=(self._url, f"{self._turns}-{n}", kind, begin, seconds, told), daemon=True
            )
            for n in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        time.sleep(max(0.0, begin - time.monotonic()))
        before = self._processors()
        echoes = self._echoes(begin + seconds)
        after = self._processors()
        answers = [told.get() for _ in clients]
        for client in clients:
            client.join()
        said = self._tell("pause")
        self._await_expiry()
        times = 1e6 * np.concatenate([each for each, _ in answers])
        (p50, p99), (echo_p50, echo_p99) = np.percentile(times, [50, 99]), np.percentile(echoes, [50, 99])
        return {
            "placements/s": len(times) / seconds,
            "p50": p50,
            "p99": p99,
            "echo p50": echo_p50,
            "echo p99": echo_p99,
            "p99 / echo": p99 / echo_p99,
            **{name: (after[name] - before[name]) / len(times) for name in before},
            "failed": float(sum(failed for _, failed in answers)),
            **said,
        }

    def _processors(self) -> Figures:
        return {"scorer": processor_us(self._scorer), "server": processor_us(self._server)}

    def _echoes(self, until: float) -> np.ndarray:
        """Ask the echo until then; return how long each answer took, us."""
        times = []
        while (started := time.monotonic()) < until:
            self._wire.ask([("LPUSH", "echo:queries", b"x" * 200), ("BLPOP", "echo:reply", 5)], 5.0)
            times.append(1e6 * (time.monotonic() - started))
            time.sleep(ECHO_EVERY_S)
        return np.array(times)

    def _await_expiry(self) -> None:
        """Wait until only the instances of before are left."""
        until = time.monotonic() + 60
        while self._wire.one("HLEN", Names().ledger("instances")) > BEFORE and time.monotonic() < until:
            time.sleep(0.1)


@contextmanager
def mixed_load(machines: int) -> Iterator[MixedLoad]:
    """Yield the load on a server, a scorer and a writer of their own."""
    with own_server() as (url, wire), fleet_writer(url, machines) as tell, own_scorer(url) as scorer:
        echo = multiprocessing.Process(target=echo_server, args=(url,), daemon=True)
        echo.start()
        try:
            yield MixedLoad(url, wire, server_process(wire), scorer.pid, tell)
        finally:
            echo.kill()


def told(pairs: Sequence[tuple[Figures, Figures]]) -> str:
    """Return the figures of one kind of load in a line."""
    words = []
    for name in SHOWN:
        value, ratio = median(now[name] for _, now in pairs), ratio_between(pairs, name)
        digits = 2 if value < 10 else 0
        words.append(f"{name} {value:.{digits}f} ({ratio})")
    failed = sum(now["failed"] + before["failed"] for before, now in pairs)
    return "  ".join(words) + (f"  failed {failed:.0f}" if failed else "")


def main() -> int:
    """Measure in pairs; print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a source tree of the other commit")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--machines", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    rates: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for machines in given.machines:
        other, this = (
            Side(tree, "tests.bench.bench_mixed:mixed_load", machines=machines)
            for tree in (given.other.resolve(), HERE)
        )
        questions = [{"kind": kind, "seconds": given.seconds} for kind in given.kinds]
        found = in_pairs(other, this, questions, given.pairs)
        other.close()
        this.close()
        for kind, pairs in zip(given.kinds, found, strict=True):
            print(f"{machines} machines, {kind}: {told(pairs)}", flush=True)
            rates[machines, kind] = [(before["placements/s"], now["placements/s"]) for before, now in pairs]
    tell_ratios(rates)
    return 0


def tell_ratios(rates: dict[tuple[int, str], list[tuple[float, float]]]) -> None:
    """Print how the rates of kinds and of fleets compare within each checkout."""
    for (machines, kind), pairs in rates.items():
        for what, base in (("one size", (machines, "one size")), ("the smallest fleet", (min(rates)[0], kind))):
            if base == (machines, kind) or base not in rates:
                continue
            sides = [
                ratio_of([mine[side] / theirs[side] for mine, theirs in zip(pairs, rates[base], strict=True)])
                for side in (1, 0)
            ]
            print(f"{machines} machines, {kind}: rate to that of {what} {sides[0]}, other checkout {sides[1]}")


if __name__ == "__main__":
    sys.exit(main())
