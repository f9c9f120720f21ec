"""Mutated tables of usage by instance: ``python -m tests.scorer.fuzz_usage 100000 [seed]``.

Columns are left out, have other axes, other types and values that no machine has, and bytes are changed. A table is
refused by name, or everything that is made of it is made: what is reclaimed, the predicted peaks, who should leave.
"""

import json
import random
import sys
import warnings
from collections import Counter

import numpy as np

from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.window_table import Header, TableError, decode_table, encode_table
from scorer.classes.class_usage import LastReports, class_usage, prod_and_system, reported_at
from scorer.classes.prediction import Histograms, Peaks
from scorer.snapshot.usages import Usages, UsageTable
from tests.scorer.fleets import fleet, machine
from tests.scorer.fuzz_files import BY_CLASS, by_class
from tests.support.mutated import in_bytes

PAIRS = [pair_name("m0", ""), pair_name("m0", "i"), pair_name("m0", "j"), pair_name("m1", ""), pair_name("m9", "z")]
KINDS = ("f4", "f8", "u1", "u2", "i8", "S3", "?", "c8")
VALUES = (0.0, 1.0, -1.0, 1e-300, 1e300, np.nan, np.inf, -np.inf)


def mutated_table(rng, now_s):
    """A table of some pairs with other columns, axes, types, values or bytes."""
    pairs, columns = PAIRS[: rng.randint(0, len(PAIRS))], {}
    for name, (kind, axes, _) in COLUMNS.items():
        if rng.random() < 0.05:
            continue
        shape = [*axes, len(pairs)]
        if rng.random() < 0.02:
            shape.insert(rng.randint(0, len(shape)), rng.choice((0, 1, 2, 5)))
        values = np.random.default_rng(rng.randrange(1 << 30)).random(shape) * 10
        if name in ("at", "since") and rng.random() < 0.9:
            values = now_s - 20 * values
        if values.size and rng.random() < 0.2:
            values.flat[rng.randrange(values.size)] = rng.choice(VALUES)
        with np.errstate(all="ignore"):
            columns[name] = values.astype(rng.choice(KINDS) if rng.random() < 0.03 else kind)
    raw = encode_table(Header(machines=len(pairs), windows_s=(), columns=[]), columns, "\n".join(pairs).encode())
    return in_bytes(rng, raw) if rng.random() < 0.2 else raw


def fuzz(count, seed=1):
    """Read so many tables one after another; return the counts, or raise with the bytes that broke something."""
    rng, counts = random.Random(seed), Counter[str]()
    offline = fleet(
        *(machine(f"m{n}", cpu=16, memory=64e9, usage={"cpu": 4 * n, "memory": n}) for n in range(3)),
        instances=[{"id": "i", "machine": "m0", "cpu": 2, "memory": 1},
                   {"id": "j", "machine": "m0", "cpu": 1, "priority_class": "batch"}],
    )  # fmt: skip
    snapshot, reports, histograms, usages = offline.snapshot, LastReports(), Histograms(), Usages()
    for number in range(count):
        raw = mutated_table(rng, offline.now_s)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                usages = snapshot.usages = Usages([UsageTable(decode_table(raw))], usages)
                usages.columns.prepare()
                used = prod_and_system(class_usage(snapshot, offline.ledger, figures=reports.latest(usages.columns)))
                now_s = offline.now_s + 60 * number
                histograms.look(snapshot.names, used, snapshot.capacity, now_s, reported_at(snapshot))
                Peaks(Histograms.restored(histograms.stored()).peaks()).of(snapshot.roster, snapshot.seen_at)
                by_class(rng, offline, BY_CLASS)
            counts["read"] += 1
        except TableError as error:
            assert len(str(error)) < 500, str(error)
            counts["refused"] += 1
        except Exception as error:
            raise AssertionError(raw) from error
    return counts


if __name__ == "__main__":
    print(json.dumps(fuzz(*map(int, sys.argv[1:])), indent=1))
