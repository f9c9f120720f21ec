"""What a plan of moves costs: a large fleet with hot machines, the default profile with all filters.

    python -m tests.bench.bench_rebalance [--machines 5000] [--instances 100000] [--moves 500]

In processor time of one process. The plan is compared with bare numpy passes (mean, std, argmax) over the columns that
the scores read, in the same run. Prints one JSON object; exit code 1 when a plan takes more than 2 s.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from statistics import median

import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.window_table import Header, WindowTable, decode_table, encode_table
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import LedgerView
from scorer.planning.balance.by_overload import rebalance
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.tables import Tables
from scorer.snapshot.builder import build_snapshot
from tests.bench.bench_decision import NOW_S, WINDOWS_S, bare_pass, fleet_table

SECONDS_MAX = 2.0


def hot_table(machines: int, hot: float = 0.05) -> WindowTable:
    """Return the fleet of the decision's bench, with one machine in twenty near its limit."""
    table = fleet_table(machines)
    columns = dict(table.columns)
    near = np.random.default_rng(1).random(machines) < hot
    for name in ("mean", "std", "max", "percentile"):
        columns[name] = columns[name].copy()
    columns["mean"][..., near] = 0.93 * columns["capacity"][:, near]
    columns["std"][..., near] = 0.05 * columns["capacity"][:, near]
    header = Header(machines=machines, windows_s=WINDOWS_S, columns=[])
    return decode_table(encode_table(header, columns, "\n".join(table.machines).encode()))


def instances(names: tuple[str, ...], count: int) -> list[Instance]:
    """Return so many confirmed instances of different sizes, spread over the machines."""
    cpu = np.random.default_rng(2).uniform(0.2, 4.0, count)
    return [
        Instance(
            id=f"i{n}",
            machine=names[n % len(names)],
            state="confirmed",
            amounts=tuple({"cpu": float(cpu[n]), "memory": 1e9}.get(resource, 0.0) for resource in RESOURCES),
            started_at=NOW_S - 86_400,
            reserved_at=NOW_S - 86_400,
        )
        for n in range(count)
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=5_000)
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--moves", type=int, default=500)
    options = parser.parse_args()
    snapshot = build_snapshot([hot_table(options.machines)], {}, {})
    ledger = LedgerView(instances(snapshot.names, options.instances))
    profile, kept = load_profiles().choose(), Tables()
    settings = replace(profile.rebalance, moves_max=options.moves, gain_min=1e-4, hour_max=0.0)
    profile = replace(profile, rebalance=settings)
    bare = bare_pass(snapshot)
    plans, bares, steps = [], [], 0
    for _ in range(3):
        begin = time.process_time()
        steps = len(rebalance(RankingInputs(snapshot, ledger, profile, NOW_S, kept)).steps)
        plans.append(time.process_time() - begin)
        begin = time.process_time()
        for _ in range(100):
            bare()
        bares.append((time.process_time() - begin) / 100)
    seconds = median(plans)
    found = {
        "moves": steps,
        "plan, s": seconds,
        "move, us": 1e6 * seconds / max(steps, 1),
        "move in bare passes": seconds / max(steps, 1) / median(bares),
        "missed": ["plan"] if seconds > SECONDS_MAX else [],
    }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
