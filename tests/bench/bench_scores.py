"""What expected overload costs beside the global variance, alone and in a whole decision, in processor time.

    python -m tests.bench.bench_scores [--machines 5000] [--rounds 400]

The two scores take turns on the same machines and the same requests: one request again and again, then each time one
that no column is kept for. Then whole rankings by a profile with each, of both sorts, and
rankings that are placed: each changes one row of what is kept. Prints one JSON object; exit code 1 when expected
overload takes more than its bound of the time that the global variance takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from statistics import median

from schemas.rpc.request import Request, read_request
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from tests.bench.bench_decision import NOW_S, fleet_table

BOUNDS = {
    "alone, seen": 2.0, "ranking, seen": 1.3, "ranking and placing, seen": 1.3,
    "alone, new": 4.5, "ranking, new": 1.7, "ranking and placing, new": 1.8,
}  # fmt: skip
"""Of the ratios; the growth by a new request is computed for all machines."""
PROFILES = {"global_variance": "variance-and-risk", "expected_overload": "windward"}
"""A profile with each score; filters and preferences are alike."""
REQUESTS: dict[str, list[Request]] = {
    "seen": [read_request({"cpu": 2, "memory": "10G"})],
    "new": [read_request({"cpu": 1 + each / 4096, "memory": "10G"}) for each in range(4096)],
}
"""New: when one comes again, so many others have come that nothing is kept for it (5,000 machines)."""


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


def alone(snapshot: Snapshot, name: str, profile: Profile, requests: Iterator[Request]) -> Callable[[], object]:
    """Return the call of one score on all machines."""
    kept, ledger, calls = Kept(), LedgerView(), []
    for request in requests:
        ranking = rank(request, RankingInputs(snapshot, ledger, profile, NOW_S, kept))
        term = next(each for each in ranking.terms if each.weighted.score.name == name)
        calls.append((term.weighted.score, request, term.machines))
    turns = cycle(calls)

    def once() -> None:
        score, request, machines = next(turns)
        score(request, machines)

    return once


def ranked(snapshot: Snapshot, profile: Profile, requests: Iterator[Request], *, placing: bool) -> Callable[[], object]:
    """Return a whole ranking; ``placing``: its best machine takes the instance, so the next one sees another ledger."""
    ledger, kept, number = LedgerView(), Kept(), iter(range(10**9))

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
    whats = []
    for sort, requests in REQUESTS.items():
        for score, name in PROFILES.items():
            profile = catalogue.choose(name)
            actions |= {
                f"{score} alone, {sort}": alone(snapshot, score, profile, iter(requests)),
                f"{score} ranking, {sort}": ranked(snapshot, profile, cycle(requests), placing=False),
                f"{score} ranking and placing, {sort}": ranked(snapshot, profile, cycle(requests), placing=True),
            }
        whats += [f"{what}, {sort}" for what in ("alone", "ranking", "ranking and placing")]
    found = processor_times(actions, arguments.rounds)
    ratios = {what: found[f"expected_overload {what}"] / found[f"global_variance {what}"] for what in whats}
    missed = [what for what, bound in BOUNDS.items() if ratios[what] > bound]
    print(json.dumps({"us": found, "ratio": ratios, "bound": BOUNDS, "missed": missed}, indent=2))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
