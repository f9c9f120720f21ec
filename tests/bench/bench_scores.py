"""What expected overload costs beside the global variance, alone and in a whole decision, in processor time.

    python -m tests.bench.bench_scores [--machines 5000] [--rounds 400]

The two scores take turns on the same machines and the same request, then whole rankings by a profile with each, then
rankings that are placed: each changes one row of what is kept. Prints one JSON object; exit code 1 when a whole ranking
with expected overload takes more than `RATIO_MAX` of one with the global variance, or the score alone `ALONE_MAX`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median

from schemas.request import read_request
from scorer.ledger.view import LedgerView, instance_of
from scorer.ranking.catalogue import load_profiles
from scorer.ranking.kept import Kept
from scorer.ranking.profile import Profile
from scorer.ranking.rank import rank
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from tests.bench.bench_decision import NOW_S, fleet_table

RATIO_MAX, ALONE_MAX = 1.3, 2.0
PROFILES = {"global_variance": "windward-0.1", "expected_overload": "windward"}
"""A profile with each score; filters and preferences are alike."""
REQUEST = read_request({"cpu": 2, "memory": "10G"})


def processor_times(actions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median processor time of each action in microseconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds + 5):
        for name, action in actions.items():
            begin = time.thread_time()
            action()
            if number >= 5:
                times[name].append(time.thread_time() - begin)
    return {name: 1e6 * median(each) for name, each in times.items()}


def alone(snapshot: Snapshot, name: str, profile: Profile) -> Callable[[], object]:
    """Return the call of one score on all machines."""
    ranking = rank(REQUEST, snapshot, LedgerView(), profile, NOW_S, Kept())
    term = next(each for each in ranking.terms if each.weighted.score.name == name)
    machines = term.machines
    return lambda: term.weighted.score(REQUEST, machines)


def ranked(snapshot: Snapshot, profile: Profile, *, placing: bool) -> Callable[[], object]:
    """Return a whole ranking; ``placing``: its best machine takes the instance, so the next one sees another ledger."""
    ledger, kept, number = LedgerView(), Kept(), iter(range(10**9))

    def once() -> None:
        chosen = rank(REQUEST, snapshot, ledger, profile, NOW_S, kept).chosen
        if placing:
            ledger.apply(instance_of(REQUEST, str(chosen), NOW_S, f"placed-{next(number)}"))

    return once


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=400)
    arguments = parser.parse_args()
    snapshot, catalogue = build_snapshot([fleet_table(arguments.machines)], {}, {}), load_profiles()
    actions: dict[str, Callable[[], object]] = {}
    for score, name in PROFILES.items():
        profile = catalogue.choose(name)
        actions[f"{score} alone"] = alone(snapshot, score, profile)
        actions[f"{score} ranking"] = ranked(snapshot, profile, placing=False)
        actions[f"{score} ranking and placing"] = ranked(snapshot, profile, placing=True)
    found = processor_times(actions, arguments.rounds)
    ratios = {
        what: found[f"expected_overload {what}"] / found[f"global_variance {what}"]
        for what in ("alone", "ranking", "ranking and placing")
    }
    print(json.dumps({"us": found, "ratio": ratios, "ratio_max": RATIO_MAX, "alone_max": ALONE_MAX}, indent=2))
    whole = max(ratios["ranking"], ratios["ranking and placing"])
    return 1 if whole > RATIO_MAX or ratios["alone"] > ALONE_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
