"""Room: how many more instances of a kind fit on each machine, and what then limits it. Pure.

A machine takes copies until a filter refuses the next one; the number is found by doubling and halving (``room`` in
``kernel/evaluate.h``). The result is that of placing them one by one. Where one more copy changes what other machines
may take (anti-affinity over a topology), the copies are placed one by one.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from schemas.rpc.request import Request
from schemas.rpc.results import Refusal
from scorer.placement.choosing.trial import Trial, ranked
from scorer.ranking.explain import in_words, refusals
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.profiles.profile import check_looked_at
from scorer.ranking.rank import Decision
from scorer.snapshot.arrays import Integers
from scorer.snapshot.snapshot import Snapshot

MACHINE_MAX = 4_096
"""The most copies counted on one machine."""
ONE_BY_ONE_MAX = 10_000
"""The most copies that are placed one by one."""


@dataclass(frozen=True)
class Room:
    machines: tuple[str, ...]
    copies: Integers
    """[M] On each machine."""
    limits: tuple[Refusal, ...]
    """How many machines each filter keeps from one more copy, most first."""
    at_least: bool = False
    """Whether counting ended at a bound before a filter refused."""

    @property
    def total(self) -> int:
        return int(self.copies.sum())


def room(request: Request, trial: Trial) -> Room:
    """Return how many copies of the requested instance fit, and what limits them.

    Copies that are placed one by one stay in the trial. Raises InvalidRequest where `rank` does.
    """
    return room_of_each(request, trial.inputs) or _one_by_one(request, trial)


@quiet
def room_of_each(request: Request, inputs: RankingInputs) -> Room | None:
    """Return how many copies fit on each machine alone; None where one more copy matters to other machines.

    Nothing is placed.
    """
    check_looked_at([request], inputs.profile)
    decision = Decision(request, inputs, scores=False)
    if decision.far or inputs.profile.survive:
        return None
    decision.evaluate()
    copies = decision.room(MACHINE_MAX)
    limits = tuple(in_words(decision.verdicts, decision.counts()))
    return Room(inputs.snapshot.names, copies, limits, bool((copies >= MACHINE_MAX).any()))


def _one_by_one(request: Request, trial: Trial) -> Room:
    """Place copies until none fits; the trial keeps them."""
    names, index = trial.snapshot.names, trial.snapshot.roster.index
    copies = np.zeros(len(names), np.int64)
    for number in range(ONE_BY_ONE_MAX):
        machine = trial.best(request).machine
        if machine is None:
            return Room(names, copies, tuple(refusals(ranked(request, trial.inputs))))
        copies[index[machine]] += 1
        trial.propose(request, machine, f"\0copy-{number}")
    return Room(names, copies, (), at_least=True)


def counts_by(key: str, copies: Mapping[str, int], snapshot: Snapshot) -> dict[str, int]:
    """Return the copies by the values of a label, or by ``machine``, most first; "" for machines without the label."""
    counts: Counter[str] = Counter()
    for row, name in enumerate(snapshot.names):
        counts[name if key == "machine" else snapshot.rules.labels(row).get(key, "")] += copies.get(name, 0)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
