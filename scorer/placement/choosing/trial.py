"""The what-if: the ledger with proposed changes, and what a profile chooses on it.

A batch of unlike instances, a drain, a consolidation, a plan of wanted instances and a count of capacity are each made
on one. A step asks it (`best`, `allowed`, `together`) and notes the decision (`propose`, `move`, `leave`) for the steps
after it. The ledger itself stays as it is, and must not change meanwhile.

Chosen: one value that owns the overlay and the kept columns. It gives no ranking away: one that is held makes the next
change copy the fleet's columns. Rejected: seven classes with these parts, each with its own way to put back.
It is here and not beside the plans that commands make, since a batch of a query is a what-if, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing.copies import identical_steps
from scorer.placement.choosing.steps import Steps, drain
from scorer.ranking.explanation.explain import summary
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.machines.machines import NOTHING, Machines
from scorer.ranking.profiles.profile import LoadModel
from scorer.ranking.rank import rank, run_filters
from scorer.ranking.ranking import Ranking
from scorer.ranking.seen import Seen, fleet_of
from scorer.snapshot.arrays import Bools, Integers
from scorer.snapshot.snapshot import Snapshot

Among = Bools | Callable[[Machines], Bools]
"""[M] Which machines may be chosen besides what the filters say; as a function, of the machines that a score sees."""


_LIKELY = Request(cpu=1.0, memory=1.0, nic=1.0)
_ROWS = 500
"""Machines whose columns are made in one step: 6 ms with 20 instances each."""


@dataclass(frozen=True)
class Found:
    """The best machine for a request, or the reason why there is none."""

    machine: str | None
    why: str = ""


class Trial:
    """A ledger with proposed changes, which each step adds to: to the overlay of the inputs, or to a new one."""

    def __init__(self, inputs: RankingInputs) -> None:
        self._open = inputs.snapshot
        self.overlay = Overlay(inputs.ledger) if inputs.overlay is None else inputs.overlay
        self.inputs = inputs.on(self.overlay)
        """What its rankings are made from."""

    @property
    def snapshot(self) -> Snapshot:
        """The machines."""
        return self.inputs.snapshot

    # ---- asking

    def best(self, request: Request, among: Among | None = None, otherwise: str = "") -> Found:
        """Return the best feasible machine, of all or ``among`` some; raises InvalidRequest where `rank` does.

        ``otherwise``: the condition in words, the end of "3/5 feasible, none of them ...".
        """
        return best_in(rank(request, self.inputs), among, otherwise)

    @quiet
    def allowed(self, request: Request) -> Bools:
        """Return [M]: the machines that all filters allow; no score is asked."""
        feasible, _ = run_filters(request, Seen(request, self.inputs), self.inputs.profile)
        return feasible

    def together(self, request: Request, count: int) -> list[str | None] | None:
        """Return the machines of identical instances, None for the last ones where no more is feasible.

        Nothing is proposed. None where they must be placed one by one (`scorer.placement.choosing.copies`).
        """
        return drain(self.together_steps(request, count))

    def together_steps(self, request: Request, count: int) -> Steps[list[str | None] | None]:
        """Return the result of `together` in steps of a few instances."""
        return identical_steps(rank(request, self.inputs), count)

    def sharing(self, machine: str, labels: Iterable[str]) -> Bools:
        """Return [M]: the machines whose value of each of these labels is that of a machine."""
        row = self.snapshot.roster.index.get(machine)
        shared = np.ones(len(self.snapshot), np.bool_)
        for label in labels:
            codes = np.arange(shared.size) if label == "machine" else self.snapshot.rules.label(label).codes
            shared &= codes == (-1 if row is None else codes[row])
        return shared

    # ---- changing

    def propose(self, request: Request, machine: str, instance_id: str | None = None) -> None:
        """Add a new instance of a request."""
        self.overlay.propose(instance_of(request, machine, self.inputs.now_s, instance_id))

    def leave(self, instance_id: str) -> None:
        """Take an instance out, wherever it is; one that is not there stays out."""
        if instance_id in self.overlay:
            self.overlay.leave(instance_id)

    def move(self, instance: Instance, machine: str) -> None:
        """Put an instance on a machine, as reserved there now."""
        self.put(moved_to(instance, machine, self.inputs.now_s))

    def put(self, instance: Instance) -> None:
        """Put an instance where its record says, wherever it is now."""
        self.leave(instance.id)
        self.overlay.propose(instance)

    def cordon(self, machines: Collection[str]) -> None:
        """Count these machines as cordoned, besides those that are; what was named before no longer holds."""
        self.inputs = replace(self.inputs, snapshot=self._open.with_cordon(machines))


@quiet
def _begin(inputs: RankingInputs, load_model: LoadModel, without: RankingInputs) -> None:
    """Put what was made without instances in place of the columns of one load model."""
    derived = fleet_of(without, load_model).shelf.derived
    fleet_of(inputs, load_model).shelf.derived.update(
        {key: (values.copy(), compute) for key, (values, compute) in derived.items()}
    )


@quiet
def _make(inputs: RankingInputs, load_model: LoadModel, rows: Integers) -> None:
    fleet = fleet_of(inputs, load_model)
    fleet.shelf.outdated = rows  # what is there now is of no instances: nothing can be added to it
    fleet.shelf.renew(Machines(fleet, NOTHING, inputs.now_s, rows=rows))


def prepare(inputs: RankingInputs) -> Steps[None]:
    """Make the columns of a ledger that nothing is kept of, in steps of some machines.

    At once, as in a first ranking, they take up to 70 ms with 5,000 machines and 100,000 instances.
    """
    cold = [one for one in inputs.profile.load_models if not fleet_of(inputs, one).shelf.derived]
    if not cold or not len(inputs.ledger):
        return
    without = replace(inputs, ledger=LedgerView(), kept=inputs.kept.beside())
    yield from settle(without)
    for load_model in cold:
        _begin(inputs, load_model, without)
        yield
        machines = len(inputs.snapshot)
        for first in range(0, machines, _ROWS):
            _make(inputs, load_model, np.arange(first, min(first + _ROWS, machines)))
            yield


def settle(inputs: RankingInputs) -> Steps[None]:
    """Make what rankings keep of a ledger, in steps of a filter or a score."""
    profile = inputs.profile
    for each in profile.filters:
        rank(_LIKELY, inputs.by(replace(profile, filters=(each,), scores=())))
        yield
    for score in profile.scores:
        rank(_LIKELY, inputs.by(replace(profile, filters=(), scores=(score,))))
        yield


def best_in(ranking: Ranking, among: Among | None = None, otherwise: str = "") -> Found:
    """Return the best machine of a ranking, as `Trial.best` does."""
    if among is None:
        rows = ranking.best(1)
    else:
        rows = ranking.best_among(among(ranking.machines) if callable(among) else among, 1)
    if rows.size:
        return Found(ranking.machines.name(int(rows[0])))
    beside = f", none of them {otherwise}" if otherwise and ranking.feasible_count else ""
    return Found(None, summary(ranking) + beside)


def moved_to(instance: Instance, machine: str, now_s: float) -> Instance:
    """Return the instance as reserved on another machine."""
    return copy_with(instance, machine=machine, state="reserved", reserved_at=now_s, started_at=0.0)
