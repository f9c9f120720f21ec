"""What it costs to keep the members of a cluster apart: hot machines with and without the score `apart`, in replays.

    python -m tests.bench.apart TRACE... --lifetimes FILE [--machines 40] [--members 6] [--seeds 2] [--part held-out]

Each instance of a world belongs to a cluster, so many that ``--members`` of each run at a time. The profile `windward`
is run as it is and without the score. Prints for each world hot90 of both, their ratio, and of how many pairs of a
cluster, in the mean over the minutes, both are on one machine.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from ops.replay.report.measures import measure
from ops.replay.simulator.policies import ProfilePolicy
from ops.replay.simulator.simulation import simulate
from ops.replay.traces.formats import read_lives, read_trace
from ops.replay.traces.trace import part_of
from ops.replay.worlds.worlds import Shape, build_world
from scorer.ranking.profiles.catalogue import built_in_profiles
from scorer.ranking.scores.apart import Apart

EVERY_MINUTES = 60


def in_clusters(world, members, per_machine):
    """Return the world with clusters of which so many members run at a time, and the cluster of each instance."""
    clusters = max(1, len(world.machines) * per_machine // members)
    of = np.random.default_rng([world.seed, 6]).integers(clusters, size=len(world.instances)).tolist()
    requests = [
        msgspec.structs.replace(world.request(instance), cluster=f"c{cluster}") for instance, cluster in enumerate(of)
    ]
    return replace(world, requests=requests), of


def together(outcome, of):
    """Return of how many pairs of a cluster, in the mean over the minutes after the fill, both are on one machine."""
    fleet, clusters, pairs, same = outcome.fleet, np.array(of), 0, 0
    for minute in range(outcome.workload.fill_minutes, outcome.workload.minutes, EVERY_MINUTES):
        running = fleet.running(minute)
        sizes = np.unique(clusters[running], return_counts=True)[1]
        both = np.stack([clusters[running], fleet.machine_of[running]])
        here = np.unique(both, axis=1, return_counts=True)[1]
        pairs += int((sizes * (sizes - 1)).sum())
        same += int((here * (here - 1)).sum())
    return same / max(pairs, 1)


def without_apart(profile):
    return replace(
        profile, name="without", scores=tuple(one for one in profile.scores if not isinstance(one.score, Apart))
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--lifetimes", type=Path)
    parser.add_argument("--part", default="held-out", choices=("all", "tuning", "held-out"))
    for name, default in (("machines", 40), ("members", 6), ("seeds", 2), ("days", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    lives, shape = read_lives(asked.lifetimes), Shape(machines=asked.machines, days=asked.days)
    profile, ratios = built_in_profiles()["windward"], []
    for path in asked.traces:
        trace = part_of(read_trace(path), asked.part)
        for seed in range(1, asked.seeds + 1):
            world, of = in_clusters(build_world(trace, lives, shape, seed), asked.members, shape.per_machine)
            outcomes = [simulate(world, ProfilePolicy(one)) for one in (profile, without_apart(profile))]
            hot = [measure(outcome)["steady"]["hot90"] for outcome in outcomes]
            pairs = [together(outcome, of) for outcome in outcomes]
            ratios.append(hot[0] / hot[1] if hot[1] else 1.0)
            print(
                f"{world.name} {seed}: hot90 {hot[0]:.2%}, {hot[1]:.2%} without, ratio {ratios[-1]:.2f}; pairs of a "
                f"cluster on one machine {pairs[0]:.2%}, {pairs[1]:.2%} without",
                flush=True,
            )
    print(f"geometric mean of the ratios {np.exp(np.mean(np.log(ratios))):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
