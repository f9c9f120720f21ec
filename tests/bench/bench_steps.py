"""The longest step of each query of operators: how long others wait for it.

    python -m tests.bench.bench_steps [--machines 5000] [--instances 100000] [--rounds 5] [--where]

A drain of five machines, a plan of 200 wanted instances and a rebalancing of a fleet with hot machines, on a scorer's
service with the default profile: after a ranking, and on a fleet of which the scorer keeps nothing. Prints one JSON
object with the median and the highest of the rounds, in ms, and the number of steps; with `--where` also the line at
which each of the longest steps ended. Exit code 1 when a median is above 30 ms.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import defaultdict
from itertools import pairwise, product
from statistics import median
from types import SimpleNamespace
from typing import Any

import msgspec

from schemas.rpc.envelope import Query
from scorer.ledger.record.instance import Instance
from scorer.placement.choosing.steps import Steps, quietly
from scorer.ranking.tables import Tables
from scorer.snapshot.builder import build_snapshot
from tests.bench.bench_decision import NOW_S
from tests.bench.bench_planning import wanted
from tests.bench.bench_rebalance import hot_table, instances
from tests.scorer.rpc.test_results import Scorer

STEP_MS_MAX = 30.0


def scorer_of(machines: int, count: int) -> tuple[Scorer, list[Instance]]:
    """Return a scorer that has answered queries on a fleet with hot machines, and the instances there."""
    snapshot = build_snapshot([hot_table(machines)], {}, {})
    scorer, there = Scorer(SimpleNamespace(snapshot=snapshot, now_s=NOW_S)), instances(snapshot.names, count)
    scorer.service.current.ledger.add(there)
    scorer.ask("rank", cpu=1, memory="1G")
    return scorer, there


def steps_of(scorer: Scorer, method: str, params: dict[str, Any]) -> list[tuple[float, str]]:
    """Return how long each step of a query took, in ms, and where it ended."""
    query = Query(
        v=1, id=f"{method}-{time.monotonic()}", method=method, params=msgspec.Raw(msgspec.json.encode(params))
    )
    steps, ends, ended = scorer.service.steps(query), [(time.perf_counter(), "")], False
    while not ended:
        try:
            next(steps)
        except StopIteration:
            ended = True
        ends.append((time.perf_counter(), "the answer" if ended else _at(steps)))
    return [(1e3 * (after - before), where) for (before, _), (after, where) in pairwise(ends)]


def _at(steps: Steps[Any]) -> str:
    """Return the innermost line at which some steps pause."""
    while (inner := steps.gi_yieldfrom) is not None:
        steps = inner  # type: ignore[assignment]
        if steps.gi_code is quietly.__code__:
            steps = steps.gi_frame.f_locals["steps"]
    return f"{steps.gi_code.co_filename.rpartition('/')[2]}:{steps.gi_frame.f_lineno}" if steps.gi_frame else ""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=5_000)
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--where", action="store_true")
    options = parser.parse_args()
    scorer, there = scorer_of(options.machines, options.instances)
    names = scorer.service.current.snapshot.names
    gc.freeze()  # as a scorer does
    asked: dict[str, dict[str, Any]] = {
        "drain": {"machines": names[:5]},
        "plan": {"instances": [msgspec.to_builtins(one) for one in wanted(there, 200)]},
        "rebalance": {"moves_max": 10},
    }
    found: dict[str, Any] = {}
    for method, kept in product(asked, (True, False)):
        rounds = []
        for _ in range(options.rounds):
            scorer.service.current.tables = Tables()
            if kept:
                scorer.ask("rank", cpu=1, memory="1G")
            rounds.append(steps_of(scorer, method, asked[method]))
        name = method if kept else f"{method}, no table yet"
        longest = [max(one)[0] for one in rounds]
        found[name] = {"ms": median(longest), "ms at most": max(longest), "steps": len(rounds[0])}
        if options.where:
            places = defaultdict(list)
            for number, (_, where) in enumerate(rounds[0]):
                places[where] += [median(one[number][0] for one in rounds if len(one) > number)]
            found[name]["where"] = {
                where: max(each) for where, each in sorted(places.items(), key=lambda item: -max(item[1]))[:8]
            }
    missed = [method for method, one in found.items() if one["ms"] > STEP_MS_MAX]
    sys.stdout.write(json.dumps({**found, "missed": missed}, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
