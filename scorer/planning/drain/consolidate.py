"""Consolidation: the machines that are the cheapest to empty, and the targets of their instances. Pure.

The cost to empty a machine is the memory to copy, and `MOVE_BYTES` more for each instance. From the cheapest on,
machines are emptied onto the others, wholly or not at all. A move is kept only if

- every filter of the profile takes the instance there, on the ledger with the moves before it;
- the target stays at or below the limit in the mean, on every resource that the instance uses, and its expected
  overload at or below `OVERLOAD_MAX`: `windward rebalance` would not move anything away from there again;
- instances of a cluster that were on different machines stay so (`scorer.placement.choosing.trial.Apart`).

An instance moves once. Machines without fresh data, cordoned ones and those with an instance that may not move are left
as they are.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.results import DrainResult, Emptied, Emptying
from scorer.ledger.record.instance import DAEMON, as_request
from scorer.placement.choosing.trial import Anew, Apart, Trial, goes_first, stranded
from scorer.planning.balance.scene import Scene, scene_of
from scorer.planning.drain.drain import drain_result, why_it_stays
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.machines import Machines
from scorer.ranking.survive import with_cordon
from scorer.snapshot.arrays import Bools, Floats, by_row, known_or

MOVE_BYTES = 1e9
"""The cost of a move besides its memory, as bytes to copy: a small instance costs something, too."""
OVERLOAD_MAX = 0.002
"""The highest expected overload of a target, in machines of mean size: `windward rebalance` moves none from below."""
TRIES_MAX = 4
"""Machines tried at most: this many for each to be emptied, plus `TRIES_MORE`."""
TRIES_MORE = 20


@quiet
def consolidate(count: int, inputs: RankingInputs, *, same: Collection[str] = (), force: bool = False) -> DrainResult:
    """Return the moves that empty ``count`` machines; fewer when no more can be emptied.

    ``same``, ``force``: as for `scorer.planning.drain.drain.drain`.
    """
    snapshot = inputs.snapshot
    scene = scene_of(inputs)
    leaves = np.flatnonzero(np.array([one.labels.get(DAEMON) != "true" for one in scene.instances], np.bool_))
    rows = scene.placed.rows[leaves]
    memory = np.bincount(rows, known_or(scene.usage[RESOURCES.index("memory")], 0.0)[leaves], minlength=len(snapshot))
    counts = np.bincount(rows, minlength=len(snapshot))
    cost = memory + MOVE_BYTES * counts
    stuck = _stuck(scene, force=force)
    open_, left = np.ones(len(snapshot), np.bool_), dict[str, int]()
    for why, kept_out in (
        ("without instances", counts == 0), ("cordoned", snapshot.rules.cordon), ("with old data", ~scene.fresh),
        ("with an instance that may not move", stuck),
    ):  # fmt: skip
        if number := int((open_ & kept_out).sum()):
            left[why] = number
        open_ &= ~kept_out
    order = np.lexsort((snapshot.roster.name_order, cost))
    emptying = _Emptying(scene, Trial(inputs.by(with_cordon(inputs.profile))), same)
    emptying.run([row for row in order.tolist() if open_[row]], count)
    machines = [
        Emptied(machine=snapshot.names[row], memory=float(memory[row]), instances=int(counts[row]))
        for row in emptying.chosen
    ]
    chosen = Emptying(wanted=count, tried=emptying.tried, left=left, machines=machines)
    return drain_result([one.machine for one in machines], emptying.moves, inputs, emptying=chosen)


def _stuck(scene: Scene, *, force: bool) -> Bools:
    """Return [M]: whether a machine has an instance that must not move, or is the target of a move."""
    stuck = np.zeros(len(scene.snapshot), np.bool_)
    index = scene.snapshot.roster.index
    for one in scene.instances:
        if one.labels.get(DAEMON) == "true" or not (one.moving or why_it_stays(one, force=force)):
            continue
        stuck[index[one.machine]] = True
        if one.moving is not None and (to := index.get(one.moving.to)) is not None:
            stuck[to] = True
    return stuck


@dataclass
class _Emptying:
    """The machines emptied so far."""

    scene: Scene
    trial: Trial
    same: Collection[str]
    chosen: list[int] = field(default_factory=list)
    moves: list[Anew] = field(default_factory=list)
    tried: int = 0

    def __post_init__(self) -> None:
        self.loads = self.scene.loads.copy()
        self.targets: set[int] = set()
        self._on = by_row(self.scene.placed.rows, len(self.scene.snapshot))
        self._apart = Apart(self.trial, self.same)

    def run(self, candidates: list[int], count: int) -> None:
        """Empty machines, cheapest first; machines that are tried together are no targets of each other."""
        left = iter(candidates)
        while len(self.chosen) < count and self.tried < TRIES_MAX * count + TRIES_MORE:
            some: list[int] = []
            for row in left:
                if row not in self.targets:
                    some.append(row)
                if len(some) == count - len(self.chosen):
                    break
            if not some:
                return
            names = self.scene.snapshot.names
            self.trial.cordon([names[row] for row in (*self.chosen, *some)])
            for row in some:
                self.tried += 1
                if self._empty(row):
                    self.chosen.append(row)

    def _empty(self, row: int) -> bool:
        """Move all instances of a machine, or none; return whether it is empty."""
        before, moves = self.loads.copy(), list[Anew]()
        instances, index = self.scene.instances, self.scene.snapshot.roster.index
        there = [place for place in self._on(row).tolist() if instances[place].labels.get(DAEMON) != "true"]
        leaving = sorted(there, key=lambda place: goes_first(instances[place]), reverse=True)
        for place in leaving:  # all of them leave, or none: who is left there counts for nobody
            self.trial.leave(instances[place].id)
        for place in leaving:
            target = self._target(place, row)
            if target is None:
                break
            self.trial.move(instances[place], target)
            self.loads.move(row, index[target], *self._use(place))
            moves.append(Anew(instances[place], target))
        if len(moves) < len(leaving) or stranded(self.moves, self.trial):
            self.loads = before
            for each in leaving:
                self.trial.put(instances[each])
            return False
        self.targets.update(index[str(one.target)] for one in moves)
        self.moves += moves
        return True

    def _target(self, place: int, row: int) -> str | None:
        instance = self.scene.instances[place]
        after, below = self.loads.with_one(*self._use(place))
        cool = below & (after <= OVERLOAD_MAX) & self.scene.fresh
        cool[row] = False
        cool &= self.trial.takes_pod(instance)

        def among(machines: Machines) -> Bools:
            return cool & self._apart.allowed(instance, machines) if self._apart.concerns(instance) else cool

        return self.trial.best(msgspec.structs.replace(as_request(instance), id=""), among).machine

    def _use(self, place: int) -> tuple[Floats, Floats]:
        rows = self.scene.rows
        return self.scene.usage[rows, place], self.scene.variance[rows, place]
