"""What a decision costs, with nothing around it: ranking, placing, batches, a full ledger, a new snapshot.

    python -m tests.bench.bench_decision [--machines 5000 50000] [--seconds 2]

One process, one core, the default profile with all filters. A ranking is compared with one bare numpy pass (mean, std,
argmax) over the same columns in the same run: the mean and standard deviation of the three resources and what of them
is allocatable. Rounds of both alternate, so that a busy neighbour slows both. Prints one JSON object; exit code 1 when
a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import Request, read_request
from schemas.tables.window_table import Header, WindowTable, decode_table, encode_table
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing import plan as batch
from scorer.ranking.explanation.explain import answer
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from scorer.ranking.tables import Tables
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot

NOW_S = 1_700_000_000.0
WINDOWS_S = (300, 900, 3600)
RATIO_MAX = 8.0
"""A ranking takes at most so many bare passes."""
SECONDS_MAX = {5_000: 0.4e-3, 50_000: 4e-3}
BATCH_RATIO_MIN = 20.0
LEDGER_RATIO_MAX = 1.5
"""A decision beside 200,000 instances takes at most so much longer than beside none."""


def fleet_table(machines: int, seed: int = 0) -> WindowTable:
    """Return a table of machines of six sizes under random load."""
    rng = np.random.default_rng(seed)
    size = rng.integers(0, 3, machines)
    cpu = np.array([32.0, 64.0, 96.0])[size]
    capacity = np.array([cpu, cpu * rng.choice([4e9, 8e9], machines), np.full(machines, 1.25e9)])
    mean = (0.05 + 0.6 * rng.random((len(WINDOWS_S), 3, machines))) * capacity
    columns: dict[str, Any] = {
        "at": np.full(machines, NOW_S - 5), "skew": np.zeros(machines, "f4"), "end": np.full(machines, NOW_S - 5),
        "boot": np.zeros(machines), "interval_s": np.full(machines, 10, "f4"), "capacity": capacity, "mean": mean,
        "std": (0.2 * mean).astype("f4"), "max": (1.3 * mean).astype("f4"),
        "percentile": np.stack([mean, 1.1 * mean, 1.15 * mean, 1.2 * mean], 2).astype("f4"),
        "filled": np.broadcast_to((np.array(WINDOWS_S) // 10)[:, None, None], mean.shape).astype("u2"),
        "coverage": np.ones(mean.shape, "f4"), "peak_today": (1.3 * mean[0]).astype("f4"),
        "peak_yesterday": (1.2 * mean[0]).astype("f4"), "peak_since": np.zeros(machines),
    }  # fmt: skip
    names = "\n".join(f"machine-{number:06}" for number in range(machines)).encode()
    return decode_table(encode_table(Header(machines=machines, windows_s=WINDOWS_S, columns=[]), columns, names))


def rounds(actions: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the median time of each action; they take turns until the time is over."""
    for action in actions.values():
        for _ in range(3):
            action()
    times: dict[str, list[float]] = {name: [] for name in actions}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, action in actions.items():
            begin = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - begin)
    return {name: median(each) for name, each in times.items()}


def bare_pass(snapshot: Snapshot) -> Callable[[], object]:
    """Return a mean, std and argmax over the columns that the default scores read."""
    view = snapshot.windows()
    columns = np.concatenate([view.mean, view.std, snapshot.allocatable])
    return lambda: (columns.mean(axis=1), columns.std(axis=1), columns.argmax(axis=1))


def measure(machines: int, seconds: float) -> dict[str, float]:
    """Return the figures of one fleet size; times in microseconds."""
    table = fleet_table(machines)
    facts: dict[str, Any] = {}
    snapshot = build_snapshot([table], facts, {})
    empty, full = LedgerView(), LedgerView(_instances(snapshot, 200_000))
    kept, kept_of_full, kept_of_growing, kept_of_new = Tables(), Tables(), Tables(), Tables()
    profile = load_profiles().choose()
    request = read_request({"cpu": 2, "memory": "10G"})
    numbers = iter(range(10**9))

    def place() -> None:
        machine = rank(request, RankingInputs(snapshot, growing, profile, NOW_S, kept_of_growing)).chosen
        growing.apply(instance_of(request, str(machine), NOW_S, f"placed-{next(numbers)}"))

    def refresh() -> None:
        operator: dict[str, Any] = snapshot.sources.operator
        again = build_snapshot([table], facts, operator, previous=snapshot)
        rank(request, RankingInputs(again, LedgerView(), profile, NOW_S, kept_of_new))

    growing = LedgerView()
    found = rounds(
        {
            "bare pass": bare_pass(snapshot),
            "rank": lambda: rank(request, RankingInputs(snapshot, empty, profile, NOW_S, kept)).best(5),
            "rank beside 200000 instances": lambda: rank(
                request, RankingInputs(snapshot, full, profile, NOW_S, kept_of_full)
            ).best(5),
            "rank and place": place,
            "answer": lambda: answer(rank(request, RankingInputs(snapshot, empty, profile, NOW_S, kept))),
            "first rank on a new snapshot": refresh,
        },
        seconds,
    )
    return {
        **{f"{name}, us": 1e6 * value for name, value in found.items()},
        "rank in bare passes": found["rank"] / found["bare pass"],
        "full ledger to empty": found["rank beside 200000 instances"] / found["rank"],
    }


def _instances(snapshot: Snapshot, count: int) -> list[Instance]:
    names = snapshot.names
    amounts = tuple({"cpu": 0.1, "memory": 1e8}.get(resource, 0.0) for resource in RESOURCES)
    return [
        Instance(id=f"old-{n}", machine=names[n % len(names)], state="confirmed", amounts=amounts,
                 started_at=NOW_S - 86_400, reserved_at=NOW_S - 86_400, labels={"app": "redis"})
        for n in range(count)
    ]  # fmt: skip


def measure_batch(machines: int = 5_000, count: int = 1_000) -> dict[str, float]:
    """Return how long a batch and as many single placements take; they must choose the same machines."""
    snapshot = build_snapshot([fleet_table(machines)], {}, {})
    profile = load_profiles().choose()
    request = read_request({"cpu": 2, "memory": "10G"})
    together, singly = [], []
    for _ in range(3):
        begin = time.perf_counter()
        planned = batch.plan([request] * count, RankingInputs(snapshot, LedgerView(), profile, NOW_S)).machines
        together.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        placed = tuple(_one_by_one(request, count, snapshot))
        singly.append(time.perf_counter() - begin)
        assert planned == placed
    return {"batch, ms": 1e3 * min(together), "singles, ms": 1e3 * min(singly), "ratio": min(singly) / min(together)}


def _one_by_one(request: Request, count: int, snapshot: Snapshot) -> list[str | None]:
    ledger, profile, kept = LedgerView(), load_profiles().choose(), Tables()
    found = []
    for number in range(count):
        machine = rank(request, RankingInputs(snapshot, ledger, profile, NOW_S, kept)).chosen
        ledger.apply(instance_of(request, str(machine), NOW_S, f"single-{number}"))
        found.append(machine)
    return found


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    found: dict[str, Any] = {f"{n} machines": measure(n, arguments.seconds) for n in arguments.machines}
    found["1000 identical on 5000 machines"] = measure_batch()
    missed = [
        f"{name}: {figure}"
        for n in arguments.machines
        for name, figures in [(f"{n} machines", found[f"{n} machines"])]
        for figure, bad in {
            "rank in bare passes": figures["rank in bare passes"] > RATIO_MAX,
            "rank, us": figures["rank, us"] > 1e6 * SECONDS_MAX.get(n, float("inf")),
            "full ledger to empty": figures["full ledger to empty"] > LEDGER_RATIO_MAX,
        }.items()
        if bad
    ]
    if found["1000 identical on 5000 machines"]["ratio"] < BATCH_RATIO_MIN:
        missed.append("1000 identical on 5000 machines: ratio")
    print(json.dumps(found | {"missed": missed}, indent=2))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
