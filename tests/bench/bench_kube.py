"""What a decision costs beside kube-scheduler's, in processor time of one run: both in turn, so that load hits both.

    cp -r tests/bench/kube_scheduler /tmp/kube && (cd /tmp/kube && go build -mod=mod -o kube-scheduler-bench .)
    python -m tests.bench.bench_kube /tmp/kube/kube-scheduler-bench [--pairs 6] [--machines 5000]

kube-scheduler 1.34 with its default plugins looks at its adaptive share of the nodes, by its own code on its own cache
(`kube_scheduler/main.go`): no API server, no binding, no heartbeats of nodes. Windward looks at all machines with the
default profile. *Ranking* is what corresponds: all machines ranked, with the share of reading flushes. *Alone* is a
whole decision of the service, from query to answer: it reserves and explains, too. *At work* is all that the scorer
does for a placement under the mixed load: threads, other calls, encoding, its loop (`tests.bench.bench_mixed`).

Prints for plain and for mixed requests both costs in us, and the ratio of kube-scheduler's to ours with its interval.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from statistics import median

from tests.bench.pairs import HERE, Side, ratio_of

PODS = 500
DECISIONS = 100
SECONDS = 3.0
KINDS = {"plain 64": (), "mixed": ("mixed",)}


def of_kube_scheduler(program: Path, nodes: int, *kind: str) -> float:
    """Return what a decision cost it."""
    command = [str(program), str(nodes), str(PODS), *kind]
    return float(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)


def main() -> int:
    """Measure in turn; print costs and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="tests/bench/kube_scheduler, built")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--machines", type=int, default=5_000)
    given = parser.parse_args()
    with (
        closing(Side(HERE, "tests.bench.bench_mixed:decisions_alone", machines=given.machines)) as alone,
        closing(Side(HERE, "tests.bench.bench_mixed:mixed_load", machines=given.machines)) as at_work,
    ):
        for kind, words in KINDS.items():
            theirs, ours = [], {"ranking": [], "alone": [], "at work": []}
            for turn in range(given.pairs + 1):
                cost = of_kube_scheduler(given.program, given.machines, *words)
                decided = alone.ask(kind=kind, decisions=DECISIONS)
                of_turn = {
                    "ranking": decided["ranking"],
                    "alone": decided["both"],
                    "at work": at_work.ask(kind=kind, seconds=SECONDS)["scorer"],
                }
                if turn:
                    theirs.append(cost)
                    for name, each in of_turn.items():
                        ours[name].append(each)
            print(f"{kind}: kube-scheduler {median(theirs):.0f}", end="")
            for name, costs in ours.items():
                ratio = ratio_of([their / our for their, our in zip(theirs, costs, strict=True)])
                print(f", {name} {median(costs):.0f} (kube-scheduler's is {ratio} of it)", end="")
            print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
