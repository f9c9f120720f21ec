"""Is this checkout slower than another one? The hot figures of both, in interleaved pairs.

    git worktree add --detach /tmp/other COMMIT
    make bench-check TREE=/tmp/other
    python -m tests.bench.bench_against /tmp/other [--pairs 8] [--machines 5000] [--only rank place]

Each checkout has a server and a scorer of its own on the same fleet (`tests.bench.servers.Rig`), and the parts of a
scorer in one process (`tests.bench.bench_mixed.DecisionsAlone`). In every pair all figures are measured once on each.

| what         | figures                                                                                         |
|--------------|-------------------------------------------------------------------------------------------------|
| health, rank, place | p50 and p99 of a call of one client; processor time of scorer and server a call, us      |
| mixed        | `tests.bench.bench_mixed`                                                                       |
| batches      | `tests.bench.bench_batches`                                                                     |
| fold         | processor time of a worker a sample, us: folding it, and writing it                             |
| windows      | processor time of reading a flush and of a decision of the mixed load, us                       |
| first answer | seconds and processor time from the start of a scorer to its first placement                    |

A figure is slower when the interval of its ratio (`tests.bench.pairs`) excludes 5 %: with 95 % confidence it takes more
than 1.05 times as long. Then its name is printed again at the end, and the exit code is 1. A figure that the other
checkout cannot give is left out.
"""

import argparse
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from scorer.client import Client
from tests.bench.bench_batches import KINDS, Batches
from tests.bench.bench_mixed import MixedLoad, decisions_alone, echo_on
from tests.bench.pairs import in_pairs, ratio_between, told, two_sides
from tests.bench.servers import own_rig, own_scorer, processor_us

SLOWER = 1.05
PAIRS_MIN = 6
"""With fewer the interval of a ratio has less than 95 % confidence, and nothing is judged."""
RATES = ("placements/s", "instances/s")
COSTS = ("p50", "p99", "scorer", "server", "fold", "write", "flush", "decision", "seconds", "processor")
CALLS = {
    "health": lambda client: client.health(),
    "rank": lambda client: client.rank(cpu=0.5, memory="1G"),
    "place": lambda client: client.place(cpu=0.001, memory="1M", ttl_s=1),
}
CALLS_A_TURN = 300
BATCH = 640
SAMPLES = 500
DECISIONS = 100
QUESTIONS = {
    **{what: {"call": what} for what in CALLS},
    "mixed": {"mixed": "mixed"},
    "plain 64": {"mixed": "plain 64"},
    **{f"batch, {kind}": {"batch": kind} for kind in KINDS},
    "fold": {"alone": "fold"},
    "windows": {"alone": "windows"},
    "first answer": {"alone": "first answer"},
}


class HotFigures:
    def __init__(self, rig, alone):
        self._rig, self._alone = rig, alone
        self._mixed, self._batches = MixedLoad(rig), Batches(rig)

    def __call__(self, call="", mixed="", batch="", alone=""):
        if call:
            return self._calls(CALLS[call])
        if mixed:
            return self._mixed(mixed, seconds=3.0)
        if batch:
            return self._batches(batch, BATCH)
        if self._alone is None:
            return {}
        if alone == "fold":
            return self._alone.fold(SAMPLES)
        return first_answer(self._alone.url) if alone == "first answer" else self._alone("mixed", DECISIONS)

    def _calls(self, call):
        rig, times = self._rig, np.empty(CALLS_A_TURN)
        rig.refresh()
        with Client(rig.url, timeout_s=30) as client:
            for _ in range(20):
                call(client)
            before = rig.processors()
            for position in range(CALLS_A_TURN):
                started = time.perf_counter()
                call(client)
                times[position] = 1e6 * (time.perf_counter() - started)
            after = rig.processors()
        rig.await_the_end()
        p50, p99 = np.percentile(times, [50, 99])
        return {"p50": p50, "p99": p99, **{name: (after[name] - before[name]) / CALLS_A_TURN for name in before}}


def first_answer(url):
    """Return how long a scorer takes from its start to its first placement, seconds."""
    started = time.perf_counter()
    with own_scorer(url) as scorer, Client(url, timeout_s=60) as client:
        client.place(cpu=0.001, memory="1M", ttl_s=1)
        return {"seconds": time.perf_counter() - started, "processor": processor_us(scorer.pid) / 1e6}


@contextmanager
def hot_figures(machines):
    with ExitStack() as stack:
        rig = stack.enter_context(own_rig(machines))
        stack.enter_context(echo_on(rig.url))
        try:
            alone = stack.enter_context(decisions_alone(machines))
        except AttributeError:  # a checkout whose scorer is not built of parts
            alone = None
        yield HotFigures(rig, alone)


def slower(pairs):
    """Name the figures that are slower, each with its ratio; none of too few pairs.

    >>> list(slower([({"p50": 10.0, "p99": 10.0}, {"p50": 12.0, "p99": 10.4})] * 6))
    ['p50 1.20 [1.20, 1.20]']
    >>> list(slower([({"instances/s": 10.0, "scorer": 10.0}, {"instances/s": 9.0, "scorer": 8.0})] * 6))
    ['instances/s 0.90 [0.90, 0.90]']
    """
    for name in (*RATES, *COSTS) if len(pairs) >= PAIRS_MIN else ():
        ratio = ratio_between(pairs, name)
        if ratio is not None and (1 / ratio.high if name in RATES else ratio.low) > SLOWER:
            yield f"{name} {ratio}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a source tree of the other commit")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--machines", type=int, default=5_000)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    given = parser.parse_args()
    with two_sides(given.other, "tests.bench.bench_against:hot_figures", machines=given.machines) as sides:
        found = in_pairs(*sides, [QUESTIONS[what] for what in given.only], given.pairs)
    missed = []
    for what, pairs in zip(given.only, found, strict=True):
        print(f"{what}: {told(pairs)}")
        missed += [f"{what}: {figure}" for figure in slower(pairs)]
    if given.pairs < PAIRS_MIN:
        print(f"{given.pairs} pairs are too few to say what is slower")
    else:
        print("\n".join(["slower:", *missed] if missed else ["nothing is slower"]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
