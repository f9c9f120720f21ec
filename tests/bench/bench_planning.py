"""What plans over a large fleet cost: moves off hot machines, draining, emptying the cheapest, wanted instances.

    python -m tests.bench.bench_planning [--machines 5000] [--instances 100000] [--moves 500]
    python -m tests.bench.bench_planning --survive machine    # a decision's time with it by that without, and no plans

In processor time of one process, with the default profile and all filters, each from a snapshot and a ledger of which
nothing is kept; and the sums by class of `docs/examples/classes.toml`, each instance measured. Compared with bare numpy
passes (mean, std, argmax) in the same run. Prints one JSON object; exit code 1 when one takes more than 2 s.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import read_request
from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.window_table import Header, decode_table, encode_table
from scorer.ledger.record.instance import Instance, as_request
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing.trial import ranked
from scorer.planning.balance.by_overload import rebalance
from scorer.planning.drain.consolidate import consolidate
from scorer.planning.drain.drain import drain
from scorer.planning.wanted.wanted import compare
from scorer.ranking.inputs import RankingInputs, Tables, class_sums
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.usages import Usages, UsageTable
from tests.bench.fleet_tables import NOW_S, WINDOWS_S, bare_s, fleet_table
from tests.bench.pairs import read_options

SECONDS_MAX = 2.0
CLASSES = Path(__file__).parents[2] / "docs/examples/classes.toml"


def hot_table(machines, hot=0.05):
    """Return the fleet of the other benches, with one machine in twenty near its limit."""
    table = fleet_table(machines)
    columns = dict(table.columns)
    near = np.random.default_rng(1).random(machines) < hot
    for name in ("mean", "std", "max", "percentile"):
        columns[name] = columns[name].copy()
    columns["mean"][..., near] = 0.93 * columns["capacity"][:, near]
    columns["std"][..., near] = 0.05 * columns["capacity"][:, near]
    header = Header(machines=machines, windows_s=WINDOWS_S, columns=[])
    return decode_table(encode_table(header, columns, "\n".join(table.machines).encode()))


def instances(names, count):
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


def measured(snapshot, there):
    """Return the fleet with usage of each machine and each instance, as the stream app writes it."""
    pairs = [pair_name(name, "") for name in snapshot.names] + [pair_name(one.machine, one.id) for one in there]
    columns = {name: np.full((*axes, len(pairs)), absent, kind) for name, (kind, axes, absent) in COLUMNS.items()}
    columns["at"][:], columns["since"][:], columns["count"][:] = NOW_S, int(NOW_S - 86_400), 100
    most = np.array([{"cpu": 0.5, "memory": 5e8}.get(name, 0.0) for name in RESOURCES])
    columns["recent"] = columns["daily"] = np.random.default_rng(3).random((len(RESOURCES), len(pairs))) * most[:, None]
    raw = encode_table(Header(machines=len(pairs), windows_s=(), columns=[]), columns, "\n".join(pairs).encode())
    return snapshot.with_use(usages=Usages([UsageTable(decode_table(raw), None)], None))


def wanted(there, count):
    """Return so many wanted instances: of ten, six are there as they are, two are resized and two are new."""
    found = []
    for n, one in enumerate(there[:count]):
        request = as_request(one)
        if n % 10 in (6, 7):
            request = read_request(
                {"id": one.id, "cpu": (request.cpu or 0.0) + (1.0 if n % 2 else -0.1), "memory": 1e9}
            )
        elif n % 10 in (8, 9):
            request = read_request({"id": f"new-{n}", "cpu": 0.1 + n / count, "memory": 1e9})
        found.append(request)
    return found


def with_survive(domain, snapshot, ledger, profile):
    """Place instances in turn with and without survive, 100 a second; return the ratios of median and mean times."""
    sides, times = (profile, replace(profile, name="survive", survive=domain)), ([], [])
    tables = Tables()
    for number in range(4_000):
        request = read_request({"id": f"new-{number}", "cpu": 0.5, "memory": 1e9})
        inputs = RankingInputs(snapshot, ledger, sides[number % 2], NOW_S + number / 100, tables)
        begin = time.process_time()
        chosen = ranked(request, inputs).chosen
        times[number % 2].append(time.process_time() - begin)
        ledger.apply(instance_of(request, chosen, inputs.now_s))
    return {name: of(times[1][1:]) / of(times[0][1:]) for name, of in (("median", median), ("mean", fmean))}


def main():
    options = read_options(__doc__, machines=5_000, instances=100_000, moves=500, survive="")
    hot = build_snapshot([hot_table(options.machines)], {}, {})
    snapshot = build_snapshot([fleet_table(options.machines)], {}, {})
    there = instances(snapshot.names, options.instances)
    ledger, profile = LedgerView(there), load_profiles().choose()
    if options.survive:
        sys.stdout.write(json.dumps(with_survive(options.survive, snapshot, ledger, profile)) + "\n")
        return 0
    moving = replace(profile.rebalance, moves_max=options.moves, gain_min=1e-4, hour_max=0.0)
    rebalanced = replace(profile, rebalance=moving)
    names, requests = snapshot.names, wanted(there, 1000)
    by_class, used = parse_profile(CLASSES.read_text(), "classes"), measured(snapshot, there)
    actions = {
        "rebalance": lambda: len(rebalance(RankingInputs(hot, ledger, rebalanced, NOW_S, Tables())).moves),
        "drain 1 machine": lambda: len(drain(names[:1], RankingInputs(snapshot, ledger, profile, NOW_S)).moves),
        "drain 50 machines": lambda: len(drain(names[:50], RankingInputs(snapshot, ledger, profile, NOW_S)).moves),
        "consolidate 10": lambda: len(consolidate(10, RankingInputs(snapshot, ledger, profile, NOW_S)).moves),
        "sums by class": lambda: len(class_sums(RankingInputs(used, ledger, by_class, NOW_S)).old),
        "plan of 1,000": lambda: len(compare(requests, RankingInputs(snapshot, ledger, profile, NOW_S)).steps),
    }
    found = {}
    missed = []
    for name, action in actions.items():
        times, bares, count = [], [], action()
        for _ in range(3):
            begin = time.process_time()
            action()
            times.append(time.process_time() - begin)
            bares.append(bare_s(snapshot))
        found[name] = {"s": median(times), "in bare passes": median(times) / median(bares), "found": count}
        missed += [name] if median(times) > SECONDS_MAX else []
    sys.stdout.write(json.dumps({**found, "missed": missed}, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
