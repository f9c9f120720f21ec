"""Which machines will soon be hot? The chance of `scorer.planning.soon_hot` beside simpler rankings, on public traces.

    python -m tests.bench.bench_soon_hot FOLDER [--half later] [--limit 0.7] [--first 3]

FOLDER has the traces `bitbrains_rnd_week.npz`, `gcd2011_vms.npz` and `planetlab_cpu.npz`: the CPU of machines every
five minutes. A fleet is all machines of a trace. Every 15 minutes each ranking sees the last hour and names the first
machines. The figure is the share of them that are above the limit in the next hour, in any five minutes. The second
figure leaves out the machines that are above the limit already. *Ahead* is the difference to a ranking, with the 95 %
interval over blocks of four hours.

The parameters were chosen on the earlier half of each trace, so the later one (the default) judges them. The last table
is the reliability: the stated chance, and how often it came true.
"""

import argparse
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scorer.planning.soon_hot import chances, margins
from scorer.snapshot.arrays import Bools, Floats

HOUR, STEP, BLOCK = 12, 3, 16
"""Cells of five minutes in an hour and between two moments; moments in a block."""
BINS = (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)


class Moment(NamedTuple):
    """What is known of the machines at one moment, [N] each, and whether they are hot in the next hour."""

    recent: Floats
    mean: Floats
    std: Floats
    p95: Floats
    hot: Bools


def traces(folder):
    """Yield each trace: its name, and the load of [N, T] machines and cells in each unbroken time."""
    yield "Bitbrains", [np.load(folder / "bitbrains_rnd_week.npz")["cpu_pct"] / 100.0]
    yield "GCD", [np.load(folder / "gcd2011_vms.npz")["cpu_pct"] / 100.0]
    with np.load(folder / "planetlab_cpu.npz") as found:
        yield "PlanetLab", [found[f"cpu_{day}"] / 100.0 for day in found["days"]]


def moments(load, limit):
    """Yield the moments of one unbroken time, without the machines that have no reading on either side."""
    for now in range(HOUR, load.shape[1] - HOUR + 1, STEP):
        before, after = load[:, now - HOUR : now], load[:, now : now + HOUR]
        known = np.isfinite(before).all(axis=1) & np.isfinite(after).all(axis=1)
        before = before[known]
        p95 = np.percentile(before, 95, axis=1)
        hot = after[known].max(axis=1) > limit
        yield Moment(before[:, -1], before.mean(axis=1), before.std(axis=1), p95, hot)


def half(load, limit, which):
    """Return the moments of one half of a trace; no hour is in both."""
    found = [each for part in load for each in moments(part, limit)]
    middle = len(found) // 2
    return found[middle:] if which == "later" else found[: middle - HOUR // STEP]


def rankings(limit):
    """Return by name what each ranking puts first where it is highest."""
    return {
        "soon hot": lambda at: -margins(at.recent, at.mean, at.std, limit),
        "mean": lambda at: at.mean,
        "p95": lambda at: at.p95,
        "mean + 2 std": lambda at: at.mean + 2 * at.std,
        "last five minutes": lambda at: at.recent,
    }


def came_true(found, ranking, first, below):
    """Return [moments]: the share of the first machines that became hot, of those now at most at ``below``."""
    shares = []
    for at in found:
        rows = np.flatnonzero(at.recent <= below)
        named = rows[np.lexsort((-at.mean[rows], -ranking(at)[rows]))[:first]]  # of equal ones the higher mean
        shares.append(at.hot[named].mean())
    return np.array(shares)


def interval(difference):
    """Return the 95 % interval of a mean over moments: blocks of four hours are drawn again."""
    blocks = [difference[at : at + BLOCK] for at in range(0, len(difference), BLOCK)]
    draw = np.random.default_rng(1)
    sums, sizes = np.array([each.sum() for each in blocks]), np.array([len(each) for each in blocks])
    chosen = draw.integers(0, len(blocks), (2_000, len(blocks)))
    low, high = np.percentile(sums[chosen].sum(axis=1) / sizes[chosen].sum(axis=1), [2.5, 97.5])
    return float(low), float(high)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("earlier", "later"), default="later")
    parser.add_argument("--limit", type=float, default=0.7)
    parser.add_argument("--first", type=int, default=3)
    args = parser.parse_args()
    for name, load in traces(args.folder):
        found = half(load, args.limit, args.half)
        everything = np.concatenate([at.hot for at in found])
        print(f"\n{name}: {len(found)} moments, {everything.mean():.1%} of the machines hot within the hour")
        print(f"{'':18} {'first ' + str(args.first):>8}  ahead{'':10} {'not hot yet':>12}  ahead")
        own = []
        for title, ranking in rankings(args.limit).items():
            line = f"{title:18}"
            for place, below in enumerate((np.inf, args.limit)):
                shares = came_true(found, ranking, args.first, below)
                own += [shares] * (title == "soon hot")
                low, high = interval(own[place] - shares)
                line += f" {shares.mean():{8 if not place else 12}.3f}  [{low:+.3f}, {high:+.3f}]"
            print(line)
        said = np.concatenate([chances(margins(at.recent, at.mean, at.std, args.limit)) for at in found])
        for low, high in pairwise(BINS):
            here = (said >= low) & ((said < high) | (high == 1.0))
            if here.any():
                true = everything[here].mean()
                print(f"  stated {said[here].mean():6.3f}  came true {true:6.3f}  {here.sum():9,} cases")


if __name__ == "__main__":
    main()
