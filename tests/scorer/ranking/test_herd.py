"""A burst of placements does not run into one machine, whatever the age of the windows.

100 machines of unequal, noisy load of their own take one instance a second in bursts; lifetimes are exponential,
loads differ from what was asked and nobody knows them before. Every way to choose meets the very same machines,
instances and noise. Windward is the default profile (without its filter *fresh*), the code that answers live queries;
risk is the score load variation risk alone, without credits. One resource on purpose: where two pull apart, the fleet
and not the chooser sets the limit.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from schemas.rpc.request import read_request
from schemas.tables.window_table import PERCENTILES, Header, decode_table, encode_table
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing.plan import plan
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.snapshot.builder import build_snapshot
from tests.effort import effort

MACHINES = 100
CORES = 16.0
LOAD_CORES = 0.6
"""Mean load of an instance, and what a deployer asks for."""
LIFETIME_S = 900.0
EPOCH = 1_700_000_000
SLOT_S = 10

RISK = """
window = "longest-covered"
credits = "none"
[[scores]]
use = "load_variation_risk"
resources = ["cpu"]
"""


class World:
    """The true load: machines with a load of their own, and the instances that were put on them."""

    def __init__(self, seed, seconds):
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
        self.slots = []

    def run(self, second):
        """Let a second pass; return the utilization [M] of every machine."""
        live = np.flatnonzero(self.ends > second)
        rows = self.rows[live]
        usage = np.maximum(self.level * (1 + self.drift[second]), 0)
        busy = np.maximum(self.noise[second][live % 1024], 0)
        usage += np.bincount(rows, self.loads[live] * busy, MACHINES)
        self.readings[second % SLOT_S] = np.minimum(usage, CORES)
        if second % SLOT_S == SLOT_S - 1:
            self.slots.append((self.readings.mean(axis=0), self.readings.var(axis=0)))
        return usage / CORES

    def window(self, second, window_s, age_s):
        """Return mean and std [M] of the window that is seen at this second, and its end."""
        end = max((second - age_s) // SLOT_S, 1)
        seen = self.slots[max(end - window_s // SLOT_S, 0) : end]
        means = np.array([mean for mean, _ in seen])
        variance = np.mean([variance for _, variance in seen], axis=0) + means.var(axis=0)
        return means.mean(axis=0), np.sqrt(variance), end


class Scorer:
    """A profile on the windows of a world, with its ledger: what a live scorer does, without the servers."""

    def __init__(self, world, profile, window_s, age_s):
        self.world, self.profile, self.window_s, self.age_s = world, profile, window_s, age_s
        self.ledger = LedgerView()
        self.snapshot = None
        self.end = -1
        self.names = [f"m{row:03}" for row in range(MACHINES)]
        self.request = read_request({"cpu": LOAD_CORES})

    def choose(self, second, numbers):
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

    def release(self, numbers):
        for number in numbers:
            self.ledger.forget(str(number))

    def _see(self, second):
        mean, std, end = self.world.window(second, self.window_s, self.age_s)
        if self.snapshot is None or end != self.end:
            self.end = end
            self.snapshot = build_snapshot([decode_table(self._table(mean, std, end))], {}, {}, previous=self.snapshot)
        return self.snapshot

    def _table(self, mean, std, end):
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


def windward():
    profile = load_profiles().choose()
    kept = tuple(each for each in profile.filters if each.filter.name != "fresh")
    return dataclasses.replace(profile, filters=kept)


def simulate(way, window_s, age_s, burst, measured_s):
    """Return the mean std of true CPU utilization; the run warms up for three lifetimes and one window before."""
    warm_up_s = int(3 * LIFETIME_S) + window_s // 2
    seconds = warm_up_s + measured_s
    world = World(1, seconds)
    rng = np.random.default_rng(2)
    scorer = None
    choose: Callable[[int, Sequence[int]], list[int]]
    if way == "random":

        def choose(second, numbers):
            return [int(row) for row in rng.integers(MACHINES, size=len(numbers))]
    else:
        scorer = Scorer(world, windward() if way == "windward" else parse_profile(RISK, "risk"), window_s, age_s)
        choose = scorer.choose
    stds, live = [], np.zeros(0, np.int64)
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
    return float(np.mean(stds))


@pytest.mark.long
@pytest.mark.parametrize(
    ("window_s", "age_s", "burst", "most"),
    [
        pytest.param(60, 2, 25, 0.5, id="fresh and short"),
        pytest.param(3600, 900, 100, 1.0, id="an hour's mean, a quarter of an hour old", marks=pytest.mark.slow),
    ],
)
def test_bursts_spread_better_than_at_random(window_s, age_s, burst, most):
    """The std of utilization is at most so many times random's; without credits it would be a multiple of it."""
    measured_s = effort(150, 3600)
    random = simulate("random", window_s, age_s, burst, measured_s=measured_s)
    assert simulate("windward", window_s, age_s, burst, measured_s=measured_s) <= most * random
    assert simulate("risk", window_s, age_s, burst, measured_s=measured_s) > random
