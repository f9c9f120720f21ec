"""What expected overload costs beside the global variance, alone and in a whole decision, in processor time.

    python -m tests.bench.bench_scores [--machines 5000] [--rounds 400]

Rankings by a profile take turns on the same machines and the same requests: with each score alone and no filter, then
by whole profiles with each, then rankings that are placed: each changes the row of one machine. Prints one JSON object;
exit code 1 when expected overload takes more than its bound of the time that the global variance takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from statistics import median

from schemas.rpc.request import Request, read_request
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.tables import Tables
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from tests.bench.bench_decision import NOW_S, fleet_table

BOUNDS = {"alone": 2.0, "ranking": 1.3, "ranking and placing": 1.3}
"""Of the ratios; the growth by the request is computed for all machines each time."""
PROFILES = {"global_variance": "variance-and-risk", "expected_overload": "windward"}
"""A profile with each score; filters and preferences are alike."""
REQUESTS: list[Request] = [read_request({"cpu": 1 + each / 4096, "memory": "10G"}) for each in range(4096)]


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


def alone(profile: Profile, name: str) -> Profile:
    """Return the profile with one of its scores alone, and no filter."""
    score = next(each for each in profile.scores if each.score.name == name)
    return replace(profile, filters=(), scores=(score,))


def ranked(snapshot: Snapshot, profile: Profile, requests: Iterator[Request], *, placing: bool) -> Callable[[], object]:
    """Return a whole ranking; ``placing``: its best machine takes the instance, so the next one sees another ledger."""
    ledger, kept, number = LedgerView(), Tables(), iter(range(10**9))

    def once() -> None:
        request = next(requests)
        chosen = rank(request, RankingInputs(snapshot, ledger, profile, NOW_S, kept)).chosen
        if placing:
            ledger.apply(instance_of(request, str(chosen), NOW_S, f"placed-{next(number)}"))

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
        actions |= {
            f"{score} alone": ranked(snapshot, alone(profile, score), cycle(REQUESTS), placing=False),
            f"{score} ranking": ranked(snapshot, profile, cycle(REQUESTS), placing=False),
            f"{score} ranking and placing": ranked(snapshot, profile, cycle(REQUESTS), placing=True),
        }
    found = processor_times(actions, arguments.rounds)
    ratios = {what: found[f"expected_overload {what}"] / found[f"global_variance {what}"] for what in BOUNDS}
    missed = [what for what, bound in BOUNDS.items() if ratios[what] > bound]
    print(json.dumps({"us": found, "ratio": ratios, "bound": BOUNDS, "missed": missed}, indent=2))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
