"""What a count of room costs: how many more instances of a kind fit, and what if a zone of a large fleet is lost.

    python -m tests.bench.bench_room [--machines 5000] [--instances 100000]

In processor time of one process, with the default profile and all filters. A fifth of the machines is lost, with its
instances of eight kinds. Compared with bare numpy passes (mean, std, argmax) in the same run. Prints one JSON object;
exit code 1 when one takes more than 2 s.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from statistics import median

from schemas.messages.sample import MachineFacts
from schemas.resources import RESOURCES
from schemas.rpc.request import read_request
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import LedgerView
from scorer.placement.choosing.trial import Trial
from scorer.planning.anew import place_anew
from scorer.planning.capacity.room import room
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.snapshot.builder import build_snapshot
from tests.bench.bench_decision import NOW_S, bare_pass, fleet_table

SECONDS_MAX = 2.0
ZONES = 5
KINDS = 8


def instances(names: tuple[str, ...], count: int) -> list[Instance]:
    """Return so many confirmed instances of a few kinds, spread over the machines."""
    amounts = [
        tuple({"cpu": 0.1 * (kind + 1), "memory": 2e8 * (kind + 1)}.get(name, 0.0) for name in RESOURCES)
        for kind in range(KINDS)
    ]
    return [
        Instance(
            id=f"i{n}", machine=names[n % len(names)], state="confirmed", amounts=amounts[n // len(names) % KINDS],
            started_at=NOW_S - 86_400, reserved_at=NOW_S - 86_400,
        )
        for n in range(count)
    ]  # fmt: skip


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=5_000)
    parser.add_argument("--instances", type=int, default=100_000)
    options = parser.parse_args()
    table = fleet_table(options.machines)
    facts = {
        name: MachineFacts(v=1, machine=name, boot=0, at=0.0, labels={"zone": f"z{n % ZONES}"})
        for n, name in enumerate(table.machines)
    }
    snapshot = build_snapshot([table], facts, {})
    ledger = LedgerView(instances(snapshot.names, options.instances))
    profile, bare = load_profiles().choose(), bare_pass(snapshot)
    request = read_request({"cpu": 0.5, "memory": "1G"})
    gone = [name for n, name in enumerate(table.machines) if n % ZONES == 0]
    times: dict[str, list[float]] = {"room": [], "loss": [], "bare": []}
    fit = placed = 0
    for _ in range(3):
        begin = time.process_time()
        fit = room(request, Trial(RankingInputs(snapshot, ledger, profile, NOW_S))).total
        counted = time.process_time()
        trial = Trial(RankingInputs(snapshot, ledger, profile, NOW_S))
        found = place_anew((one for name in gone for one in ledger.on_machine(name)), trial, gone=True, left="zone!=z0")
        placed = sum(one.target is not None for one in found)
        lost = time.process_time()
        for _ in range(100):
            bare()
        times["room"].append(counted - begin)
        times["loss"].append(lost - counted)
        times["bare"].append((time.process_time() - lost) / 100)
    middle = {name: median(each) for name, each in times.items()}
    found = {
        "copies that fit": fit,
        "room, s": middle["room"],
        "room in bare passes": middle["room"] / middle["bare"],
        "placed anew": placed,
        "loss, s": middle["loss"],
        "missed": [name for name in ("room", "loss") if middle[name] > SECONDS_MAX],
    }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
