"""Whether a burst of placements runs into one machine: four ways to choose, on one simulated fleet.

    python -m tests.bench.bench_herd [--quick] [--processes 2]

100 machines of unequal, noisy load of their own take one instance a second in bursts of 1, 10 or 100; lifetimes are
exponential (900 s), loads differ from what was asked and nobody knows them before. The windows are 1 min to 1 h long
and 0 to 15 min old (the filter *fresh* off), as a slow or broken pipeline leaves them. Every way to choose meets the
very same machines, instances and noise. Windward is the default profile, the code that answers live queries. One
resource on purpose: where two pull apart, the fleet and not the chooser sets the limit (with unequal memory beside it,
one who knows the last seconds reaches 0.50 of random over both, Windward 0.54).

Prints the std of the machines' true CPU utilization, averaged over the measured hour, as a ratio to random's, and the
machine-seconds above 80 % CPU, for

- random: any machine;
- two choices: of two at random the one with less CPU in the window;
- risk: load variation risk, the best score wins, no credits;
- windward.

Fails when Windward is worse than random anywhere, or above half of random's std in the standard setting (bursts of 25
every 25 s, 60 s window, 2 s old).
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.rpc.request import read_request
from schemas.tables.window_table import PERCENTILES, Header, decode_table, encode_table
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing.plan import plan
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot

MACHINES = 100
CORES = 16.0
LOAD_CORES = 0.6
"""Mean load of an instance, and what a deployer asks for."""
LIFETIME_S = 900.0
HOT = 0.8
EPOCH = 1_700_000_000
SLOT_S = 10

WINDOWS_S = (60, 300, 900, 3600)
AGES_S = (0, 2, 60, 300, 900)
BURSTS = (1, 10, 100)
STANDARD = (60, 2, 25)
WAYS = ("random", "two choices", "risk", "windward")

RISK = """
window = "longest-covered"
credits = "none"
[[scores]]
use = "load_variation_risk"
resources = ["cpu"]
"""


@dataclass(frozen=True)
class Outcome:
    """What one way to choose led to over the measured time."""

    std: float
    """Std of true CPU utilization over the machines, averaged over time."""
    hot_s: int
    """Machine-seconds above `HOT`."""


class World:
    """The true load: machines with a load of their own, and the instances that were put on them."""

    def __init__(self, seed: int, seconds: int) -> None:
        rng = np.random.default_rng(seed)
        self.level = rng.uniform(0.05, 0.35, MACHINES) * CORES
        steps = rng.normal(0, 0.1, (seconds, MACHINES))
        self.drift = np.zeros_like(steps)
        for second in range(1, seconds):
            self.drift[second] = 0.98 * self.drift[second - 1] + 0.2 * steps[second]
        self.loads = LOAD_CORES * rng.lognormal(-0.18, 0.6, seconds)
        self.lifetimes_s = rng.exponential(LIFETIME_S, seconds)
        self.noise = rng.normal(1, 0.3, (seconds, 1024)).astype(np.float32)
        self.rows = np.full(seconds, -1)
        self.ends = np.zeros(seconds)
        self.readings = np.zeros((SLOT_S, MACHINES))
        self.slots: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []

    def run(self, second: int) -> NDArray[np.float64]:
        """Let a second pass; return the utilization [M] of every machine."""
        live = np.flatnonzero(self.ends > second)
        rows = self.rows[live]
        usage = np.maximum(self.level * (1 + self.drift[second]), 0)
        busy = np.maximum(self.noise[second][live % 1024], 0)
        usage += np.bincount(rows, self.loads[live] * busy, MACHINES)
        self.readings[second % SLOT_S] = np.minimum(usage, CORES)
        if second % SLOT_S == SLOT_S - 1:
            self.slots.append((self.readings.mean(axis=0), self.readings.var(axis=0)))
        utilization: NDArray[np.float64] = usage / CORES
        return utilization

    def window(self, second: int, window_s: int, age_s: int) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        """Return mean and std [M] of the window that is seen at this second, and its end."""
        end = max((second - age_s) // SLOT_S, 1)
        seen = self.slots[max(end - window_s // SLOT_S, 0) : end]
        means = np.array([mean for mean, _ in seen])
        variance = np.mean([variance for _, variance in seen], axis=0) + means.var(axis=0)
        return means.mean(axis=0), np.sqrt(variance), end


class Scorer:
    """A profile on the windows of a world, with its ledger: what a live scorer does, without the servers."""

    def __init__(self, world: World, profile: Profile, window_s: int, age_s: int) -> None:
        self.world, self.profile, self.window_s, self.age_s = world, profile, window_s, age_s
        self.ledger = LedgerView()
        self.snapshot: Snapshot | None = None
        self.end = -1
        self.names = [f"m{row:03}" for row in range(MACHINES)]
        self.request = read_request({"cpu": LOAD_CORES})

    def choose(self, second: int, numbers: Sequence[int]) -> list[int]:
        """Return the machines' rows for these instances, and note them in the ledger as started."""
        now_s = float(EPOCH + second)
        found = plan([self.request] * len(numbers), RankingInputs(self._see(second), self.ledger, self.profile, now_s))
        rows = []
        for number, machine in zip(numbers, found.machines, strict=True):
            if machine is None:
                raise RuntimeError(f"the fleet is full: {next(iter(found.reasons.values()))}")
            reserved = instance_of(self.request, machine, now_s, str(number))
            self.ledger.apply(copy_with(reserved, state="confirmed", started_at=now_s))
            rows.append(int(machine[1:]))
        return rows

    def release(self, numbers: Sequence[int]) -> None:
        """Take ended instances out of the ledger."""
        for number in numbers:
            self.ledger.forget(str(number))

    def _see(self, second: int) -> Snapshot:
        mean, std, end = self.world.window(second, self.window_s, self.age_s)
        if self.snapshot is None or end != self.end:
            self.end = end
            self.snapshot = build_snapshot([decode_table(self._table(mean, std, end))], {}, {}, previous=self.snapshot)
        return self.snapshot

    def _table(self, mean: NDArray[np.float64], std: NDArray[np.float64], end: int) -> bytes:
        unknown = np.full(MACHINES, np.nan)
        filled = min(self.window_s // SLOT_S, end)
        means = np.array([[mean, unknown, unknown]])
        return encode_table(
            Header(machines=MACHINES, windows_s=(self.window_s,), columns=[]),
            {
                "at": np.full(MACHINES, float(EPOCH + end * SLOT_S)),
                "end": np.full(MACHINES, float(EPOCH + end * SLOT_S)),
                "interval_s": np.full(MACHINES, 10, np.float32),
                "capacity": np.array([np.full(MACHINES, CORES), unknown, unknown]),
                "mean": means,
                "std": np.array([[std, unknown, unknown]], np.float32),
                "max": means.astype(np.float32),
                "percentile": np.repeat(means[:, :, None], len(PERCENTILES), axis=2).astype(np.float32),
                "filled": np.full((1, 3, MACHINES), filled, np.uint16),
                "coverage": np.full((1, 3, MACHINES), filled * SLOT_S / self.window_s, np.float32),
            },
            "\n".join(self.names).encode(),
        )


def windward() -> Profile:
    """Return the default profile without its freshness."""
    profile = load_profiles().choose()
    kept = tuple(each for each in profile.filters if each.filter.name != "fresh")
    return dataclasses.replace(profile, filters=kept)


def simulate(way: str, window_s: int, age_s: int, burst: int, seed: int = 1, measured_s: int = 3600) -> Outcome:
    """Return what one way to choose leads to; the run warms up for three lifetimes and one window before."""
    warm_up_s = int(3 * LIFETIME_S) + window_s // 2
    seconds = warm_up_s + measured_s
    world = World(seed, seconds)
    rng = np.random.default_rng(seed + 1)
    scorer: Scorer | None = None
    choose: Callable[[int, Sequence[int]], list[int]]
    if way == "random":

        def choose(second: int, numbers: Sequence[int]) -> list[int]:
            return [int(row) for row in rng.integers(MACHINES, size=len(numbers))]
    elif way == "two choices":

        def choose(second: int, numbers: Sequence[int]) -> list[int]:
            cpu = world.window(second, window_s, age_s)[0]
            return [int(pair[cpu[pair].argmin()]) for pair in rng.integers(MACHINES, size=(len(numbers), 2))]
    else:
        scorer = Scorer(world, windward() if way == "windward" else parse_profile(RISK, "risk"), window_s, age_s)
        choose = scorer.choose
    stds, hot_s, live = [], 0, np.zeros(0, np.int64)
    for second in range(seconds):
        if scorer:
            gone = world.ends[live] <= second
            scorer.release([int(number) for number in live[gone]])
            live = live[~gone]
        if second % burst == 0 and second >= SLOT_S:
            numbers = list(range(second, min(second + burst, seconds)))
            world.rows[numbers] = choose(second, numbers)
            world.ends[numbers] = second + np.maximum(world.lifetimes_s[numbers], 1)
            live = np.append(live, numbers)
        utilization = world.run(second)
        if second >= warm_up_s:
            stds.append(utilization.std())
            hot_s += int((utilization > HOT).sum())
    return Outcome(float(np.mean(stds)), hot_s)


def _simulate(cell: tuple[str, int, int, int]) -> Outcome:
    return simulate(*cell)


def main() -> int:
    """Run the grid and print it; 1 when a bound does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the standard setting and the corners of the grid")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    settings = [STANDARD] + [(w, a, b) for w in WINDOWS_S for a in AGES_S for b in BURSTS]
    if options.quick:
        settings = [STANDARD, *((w, a, 100) for w in (60, 3600) for a in (0, 900))]
    cells = [(way, *setting) for setting in settings for way in WAYS]
    print("std of CPU utilization as a ratio to random's | machine-seconds above 80 %, in the measured hour")
    print(f"{'window':>6} {'age':>5} {'burst':>5} " + " ".join(f"{way:>20}" for way in WAYS))
    failed = []
    with multiprocessing.Pool(options.processes) as pool:
        outcomes = pool.imap(_simulate, cells)
        for window_s, age_s, burst in settings:
            row = {way: next(outcomes) for way in WAYS}
            random = row["random"].std
            shown = " ".join(f"{row[way].std / random:>11.2f} |{row[way].hot_s:>7}" for way in WAYS)
            print(f"{window_s:>5}s {age_s:>4}s {burst:>5} {shown}  (random: {random:.3f})", flush=True)
            most = 0.5 if (window_s, age_s, burst) == STANDARD else 1.0
            if row["windward"].std > most * random:
                failed.append(f"window {window_s} s, age {age_s} s, bursts of {burst}: above {most} x random")
    for line in failed:
        print(f"FAILED: {line}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
