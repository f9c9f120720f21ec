"""The replay lab: how long one profile takes for a day of a fleet, and where the time goes.

python -m tests.bench.bench_replay [--machines 200] [--profile windward] [--trace FILE --lifetimes FILE]

Without a trace the series are daily waves with noise. About 55 placements a machine and day: 11,000 on 200 machines,
with readings of one minute. The budget is 60 s a profile on one core; CPU time is what counts on a shared machine.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from ops.replay.report.measures import measure
from ops.replay.simulator.policies import ProfilePolicy
from ops.replay.simulator.simulation import simulate
from ops.replay.traces.formats import read_lives, read_trace
from ops.replay.worlds.worlds import Shape, build_world
from scorer.ranking.profiles.catalogue import load_profiles
from tests.ops.replay.small_worlds import waves

BUDGET_S = 60.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=200)
    parser.add_argument("--profile", action="append")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--lifetimes", type=Path)
    arguments = parser.parse_args()
    trace = read_trace(arguments.trace) if arguments.trace else waves(400)
    began_s = time.process_time()
    world = build_world(trace, read_lives(arguments.lifetimes), Shape(machines=arguments.machines, days=1), 1)
    print(f"world of {len(world.machines)} machines, {len(world.instances):,} instances: "
          f"{time.process_time() - began_s:.1f} s of CPU")  # fmt: skip
    slowest_s = 0.0
    for name in arguments.profile or ["windward"]:
        began_s, wall_s = time.process_time(), time.perf_counter()
        outcome = simulate(world, ProfilePolicy(load_profiles(()).choose(name)))
        used_s, wall_s = time.process_time() - began_s, time.perf_counter() - wall_s
        slowest_s = max(slowest_s, used_s)
        decisions = float(np.sum(outcome.decision_s))
        figures = measure(outcome)["steady"]
        print(f"{name}: {used_s:.1f} s of CPU ({wall_s:.1f} s passed), decisions {decisions / wall_s:.0%} of it, "
              f"{outcome.tries.sum():,} tries, std {figures['std']:.3f}, hot90 {figures['hot90']:.2%}")  # fmt: skip
    print(f"{slowest_s:.1f} s of {BUDGET_S:.0f} s")
    return int(slowest_s > BUDGET_S)


if __name__ == "__main__":
    raise SystemExit(main())
