"""Hot minutes by the size of the machine: of machines, of cores, and of an exactly even fleet.

python -m tests.bench.bench_hot_cores TRACE --lifetimes FILE [--part held-out] [--first-seed 201] [--seeds 4]
    [--profile windward --profile trimaran]

A machine-minute counts the same for 16 cores and for 96. So a profile that leaves small machines emptier and large ones
fuller has fewer hot machine-minutes, and may have more hot core-minutes. An exactly even fleet is hot in the minutes in
which the whole fleet is above the limit. Means over the worlds, of the time after the fill. Ratios are of the first
profile to each other, with 95 % intervals.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.references import Oracle
from ops.replay.play.roles import Policy
from ops.replay.play.simulation import simulate
from ops.replay.report.comparison import ratio_of
from ops.replay.report.measures import utilization
from ops.replay.traces.find import read_lives, read_trace
from ops.replay.traces.trace import part_of
from ops.replay.workload import Workload
from ops.replay.worlds.worlds import MACHINE_CORES, Shape, build_world
from schemas.resources import CPU
from scorer.ranking.profiles.catalogue import load_profiles

HOT = 0.8


def main() -> int:
    """Run each profile in each world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--lifetimes", type=Path)
    parser.add_argument("--part", default="held-out")
    parser.add_argument("--machines", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=201)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--profile", action="append")
    arguments = parser.parse_args()
    trace, lives = part_of(read_trace(arguments.trace), arguments.part), read_lives(arguments.lifetimes)
    shape, resolution = Shape(machines=arguments.machines), 1.0
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        world = build_world(trace, lives, shape, seed)
        resolution = 1 / (len(world.machines) * (world.minutes - world.fill_minutes))
        for name in [*(arguments.profile or ["windward", "trimaran"]), "oracle"]:
            policy = Oracle(seed) if name == "oracle" else ProfilePolicy(load_profiles(()).choose(name))
            found.setdefault(name, []).append(figures(world, policy))
    for name, worlds in found.items():
        print(f"{name}: " + ", ".join(f"{key} {np.mean([one[key] for one in worlds]):.2%}" for key in worlds[0]))
    first, *others = found
    for other in others:
        for key in ("hot machine-minutes", "hot core-minutes"):
            pairs = [(a[key], b[key]) for a, b in zip(found[first], found[other], strict=True)]
            print(f"{key}, {first} to {other}: {ratio_of(pairs, resolution)}")
    return 0


def figures(world: Workload, policy: Policy) -> dict[str, float]:
    """Return the shares of one policy in one world."""
    load, cores = utilization(simulate(world, policy))[:, world.fill_minutes :], world.capacity[CPU]
    hot, whole = load > HOT, (load * cores[:, None]).sum(axis=0) / cores.sum()
    sizes = {size: cores == size for size in MACHINE_CORES}
    return {
        "hot machine-minutes": float(hot.mean()),
        "hot core-minutes": float(cores @ hot.mean(axis=1) / cores.sum()),
        "of an even fleet": float((whole > HOT).mean()),
        **{f"mean of {size:.0f} cores": float(load[rows].mean()) for size, rows in sizes.items()},
        **{f"hot of {size:.0f} cores": float(hot[rows].mean()) for size, rows in sizes.items()},
    }


if __name__ == "__main__":
    raise SystemExit(main())
