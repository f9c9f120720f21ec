"""What the sums by class of a large fleet cost, on the first snapshot and on those after it.

    python -m tests.bench.bench_classes [--machines 5000] [--instances 100000]

In processor time of one process, with `docs/examples/classes.toml`; every instance is measured. Compared with bare
numpy passes (mean, std, argmax) in the same run. Prints one JSON object; exit code 1 when a new snapshot costs more
passes than `PASSES_MAX`. What the thread of the refresher makes before is timed apart, as ``refresher``.

| case            | what is new                                                                       |
|-----------------|-----------------------------------------------------------------------------------|
| first           | all of it                                                                         |
| new figures     | every figure of every instance; which instances are reported is as before         |
| new pairs       | the same, and one partition of eight reports other instances                      |
| after a placing | nothing but one more instance of batch                                            |
"""

import json
import sys
import time
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.window_table import Header, decode_table, encode_table
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import LedgerView
from scorer.ranking.inputs import RankingInputs, class_sums
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.tables import Tables
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.usages import Usages, UsageTable
from tests.bench.fleet_tables import NOW_S, bare_s, fleet_table
from tests.bench.pairs import read_options

PASSES_MAX = 1_000
PARTITIONS = 8
ROUNDS = 7
PROFILE = Path(__file__).parents[2] / "docs/examples/classes.toml"
USES = {"cpu": 0.5, "memory": 5e8}


def instances(names, count):
    """Return so many instances of all classes, spread over the machines."""
    amounts = tuple({"cpu": 1.0, "memory": 1e9}.get(name) for name in RESOURCES)
    at = NOW_S - 86_400
    return [
        Instance(
            id=f"i{n}", machine=names[n % len(names)], state="confirmed", amounts=amounts, started_at=at,
            reserved_at=at, priority_class=PRIORITY_CLASSES[n // len(names) % len(PRIORITY_CLASSES)],
        )
        for n in range(count)
    ]  # fmt: skip


class Fleet:
    """Snapshots of one fleet, one after another."""

    def __init__(self, machines, count):
        self._table = fleet_table(machines)
        self.names = tuple(self._table.machines)
        self.placed = instances(self.names, count)
        self._dice = np.random.default_rng(1)
        self._pairs = [self._pairs_of(part) for part in range(PARTITIONS)]
        self._usages = None
        self._snapshot = None

    def _pairs_of(self, part):
        pairs = [pair_name(name, "") for name in self.names[part::PARTITIONS]]
        mine = set(self.names[part::PARTITIONS])
        return pairs + [pair_name(one.machine, one.id) for one in self.placed if one.machine in mine]

    def next(self, new_pairs=False):
        """Return a snapshot with new figures; ``new_pairs``: one partition's first instance has another id."""
        if new_pairs:
            self._pairs[0] = [*self._pairs[0][:-1], self._pairs[0][-1] + "x"]
        before = self._usages
        tables = [UsageTable(self._usage(pairs), before.tables[k] if before else None)
                  for k, pairs in enumerate(self._pairs)]  # fmt: skip
        self._usages = Usages(tables, before)
        snapshot = build_snapshot([self._table], {}, {}, previous=self._snapshot)
        self._snapshot = snapshot.with_use(usages=self._usages)
        return self._snapshot

    def _usage(self, pairs):
        columns = {name: np.full((*axes, len(pairs)), absent, kind) for name, (kind, axes, absent) in COLUMNS.items()}
        columns["at"][:], columns["since"][:], columns["count"][:] = NOW_S, int(NOW_S - 86_400), 100
        for row, name in enumerate(RESOURCES):
            columns["recent"][row] = columns["daily"][row] = self._dice.random(len(pairs)) * USES.get(name, 0.0)
        header = Header(machines=len(pairs), windows_s=(), columns=[])
        return decode_table(encode_table(header, columns, "\n".join(pairs).encode()))


def main():
    options = read_options(__doc__, machines=5_000, instances=100_000)
    fleet, kept = Fleet(options.machines, options.instances), Tables()
    profile = parse_profile(PROFILE.read_text(), "classes")
    ledger = LedgerView(fleet.placed)
    cases = ("first", "new figures", "new pairs", "after a placing", "refresher", "bare")
    times = {case: [] for case in cases}

    def sums(case, snapshot):
        begin = time.process_time()
        snapshot.usages.columns.prepare()
        times["refresher"].append(time.process_time() - begin)
        begin = time.process_time()
        class_sums(RankingInputs(snapshot, ledger, profile, NOW_S, kept))
        times[case].append(time.process_time() - begin)

    sums("first", fleet.next())
    for number in range(ROUNDS):
        sums("new figures", fleet.next())
        snapshot = fleet.next(new_pairs=True)
        sums("new pairs", snapshot)
        ledger.apply(msgspec.structs.replace(fleet.placed[2 * options.machines], id=f"new{number}"))
        sums("after a placing", snapshot)
        times["bare"].append(bare_s(snapshot))
    middle = {case: median(each) for case, each in times.items()}
    found = {f"{case}, bare passes": round(value / middle["bare"]) for case, value in middle.items()}
    found |= {f"{case}, ms": round(1000 * value, 2) for case, value in middle.items()}
    found["missed"] = [case for case in ("new figures", "new pairs") if middle[case] > PASSES_MAX * middle["bare"]]
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
