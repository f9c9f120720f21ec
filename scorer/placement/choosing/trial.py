"""The what-if: the ledger with proposed changes, and a profile's choices on it.

A batch of unlike instances, a drain, a consolidation, a plan of wanted instances and a count of capacity are each made
on one. A step reads it (`best`, `allowed`, `together`) and records the decision (`propose`, `move`, `leave`) for the
steps after it. The ledger itself stays as it is, and must not change meanwhile.

Its rows are patches: the fleet's own rows stay as they are (`scorer.ranking.machines.what_if`). Chosen: one value that
owns the overlay. Rejected: seven classes with these parts, each with its own way to put back. It is here and not beside
the plans that commands make, since a batch of a query is a what-if, too.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, moved_to
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.ranking.explanation.explain import summary
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.looked_at import why_ignored
from scorer.ranking.rank import Decision, allowed
from scorer.ranking.ranking import Ranking
from scorer.ranking.survive import near, ranked
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.snapshot import Snapshot

Among = Bools | Callable[[Machines], Bools]
"""[M] Which machines may be chosen besides what the filters say; as a function, of the machines that a score sees."""


@dataclass(frozen=True)
class Found:
    """The best machine for a request, or the reason why there is none."""

    machine: str | None
    why: str = ""


class Trial:
    """A ledger with proposed changes; each step adds to the overlay of its inputs, or to a new one."""

    def __init__(self, inputs: RankingInputs) -> None:
        self._open = inputs.snapshot
        self.overlay = Overlay(inputs.ledger) if inputs.overlay is None else inputs.overlay
        self.inputs = inputs.on(self.overlay)
        """The inputs of its rankings."""

    @property
    def snapshot(self) -> Snapshot:
        return self.inputs.snapshot

    # ---- asking

    def best(self, request: Request, among: Among | None = None, otherwise: str = "") -> Found:
        """Return the best feasible machine, of all or ``among`` some; raises InvalidRequest where `rank` does.

        ``otherwise``: the condition in words, the end of "3/5 feasible, none of them ...".
        """
        if why := why_ignored(request, self.inputs.profile):
            return Found(None, why)
        return best_in(ranked(request, self.inputs), among, otherwise)

    def allowed(self, request: Request) -> Bools:
        """Return [M]: the machines that all filters allow; no score is computed."""
        if why_ignored(request, self.inputs.profile):
            return np.zeros(len(self.snapshot), np.bool_)
        return allowed(request, self.inputs)

    def together(self, request: Request, count: int) -> list[str | None] | None:
        """Return the machines of identical instances, None for the last ones where no more is feasible.

        Nothing is proposed. Return None where they must be placed one by one: where ties are drawn for each, or one
        more instance changes other machines' figures. The latter holds for spread over a topology, affinity, a score by
        rank, plugins of other packages, and near the limit of ``survive``.
        """
        if self.inputs.profile.ties != "name":
            return None
        if why_ignored(request, self.inputs.profile):
            return [None] * count
        if self.inputs.profile.survive and near(request, self.inputs, count) is not None:
            return None
        decision = Decision(request, self.inputs)
        if decision.far:
            return None
        decision.evaluate()
        names, chosen = self.snapshot.names, decision.place(count).tolist()
        return [*(names[row] for row in chosen), *[None] * (count - len(chosen))]

    def counts(self) -> Floats:
        """Return [M]: the number of instances that hold each machine, including the moves so far."""
        return self.inputs.tables.residents(self.snapshot, self.inputs.ledger).tally(frozenset(), self.overlay)

    def sharing(self, machine: str, labels: Iterable[str]) -> Bools:
        """Return [M]: the machines that share a machine's values of all these labels."""
        row = self.snapshot.roster.index.get(machine)
        shared = np.ones(len(self.snapshot), np.bool_)
        for label in labels:
            codes = np.arange(shared.size) if label == "machine" else self.snapshot.rules.label(label).codes
            shared &= codes == (-1 if row is None else codes[row])
        return shared

    # ---- changing

    def propose(self, request: Request, machine: str, instance_id: str | None = None) -> None:
        """Add a new instance for a request."""
        self.overlay.propose(instance_of(request, machine, self.inputs.now_s, instance_id))

    def leave(self, instance_id: str) -> None:
        """Remove an instance from its machine; without effect if it is not there."""
        if instance_id in self.overlay:
            self.overlay.leave(instance_id)

    def move(self, instance: Instance, machine: str) -> None:
        """Put an instance on a machine, as reserved there now."""
        self.put(moved_to(instance, machine, self.inputs.now_s))

    def put(self, instance: Instance) -> None:
        """Put an instance on the machine in its record, wherever it is now."""
        self.leave(instance.id)
        self.overlay.propose(instance)

    def cordon(self, machines: Collection[str]) -> None:
        """Treat these machines as cordoned, too, in place of those of an earlier call."""
        self.inputs = replace(self.inputs, snapshot=self._open.with_cordon(machines))


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
