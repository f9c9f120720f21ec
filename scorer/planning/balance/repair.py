"""Rule ``repair``: the fewest moves that mend broken rules, and of those the least memory. Pure.

    each broken rule in turn, until no move mends anything:
        of the members where there are too many, and of all machines that the filters allow, take the move
        that lowers the excess of all rules together the most

The excess of a rule is by how many members it is broken, over all machines or values of its label. Each move lowers the
sum, so the plan ends, and on its own result it is empty, also where rules contradict each other. Rejected: one rule
after the other by itself, as the descheduler does: what mends one breaks the next, and the same instances leave again.
An instance that others need near them stays.

With ``roles`` two members of a cluster exchange their roles first, where that mends a rule about a role or relieves an
overloaded machine: nothing is copied. What that changes of the load is the difference of two means, of the measured use
of the cluster's members in either role.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, inf
from operator import itemgetter

import numpy as np

from schemas.rpc.results import RebalanceResult
from scorer.ledger.record.facets import Avoids, avoids, facets, facets_of
from scorer.ledger.record.instance import Instance, copy_with
from scorer.planning.balance.by_overload import Balancing, rebalance
from scorer.planning.balance.rounds import NOTHING, Rounds, UnderWay
from scorer.planning.violations import broken, counted_by, in_words
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.snapshot.arrays import Bools, Floats, Integers

CANDIDATES = 32
"""Unlike instances that are tried for one move."""
TRIED_MAX = 2_000
"""Instances for which a plan looks for targets: 3 ms each with 5,000 machines."""
UNPLACED_MAX = 100
_Exchange = tuple[int, int, str]
"""The places of two instances that exchange their roles, and why."""


@quiet
def repair(inputs: RankingInputs, _rounds: Rounds | None = None, under_way: UnderWay = NOTHING) -> RebalanceResult:
    """Return the moves; a target is the machine that the profile chooses among the equally good ones.

    An exchange that only the moves make useful is made before them: all is planned again with it.
    """
    first = list[_Exchange]()
    while True:
        found = _Repair(Balancing(inputs, None, under_way))
        plan = found.plan(first)
        if found.late is None or found.late in first:
            return plan
        first.append(found.late)


def relieve(balancing: Balancing) -> None:
    """Let roles be exchanged before a move: on the hottest machine each time the pair that gains the most."""
    draft, settings = balancing.draft, balancing.scene.inputs.profile.rebalance
    if not settings.roles:
        return
    places, hot = _Repair(balancing), draft.open.copy()
    while len(balancing.swaps) < settings.moves_max and hot.any():
        source = int(np.where(hot, draft.overload, -1.0).argmax())
        if draft.overload[source] < settings.gain_min:
            return
        found = [
            (-draft.relief(n, other, balancing.handed(n, other)), n, other)
            for n in draft.candidates(source).tolist()
            for other in balancing.partners(n)
        ]
        for rise, n, other in sorted(found):
            if -rise >= settings.gain_min and max(places.rises(n, other), default=0) <= 0:
                uses = (f"{balancing.scene.instances[k].role} {balancing.used(k)[0]:.2f}" for k in (n, other))
                means = f"{balancing.scene.resources[0]} by role in the mean: {', '.join(uses)}"
                places.exchange(n, other, f"its machine is hot, {means}")
                break
        else:
            hot[source] = False


by_overload = partial(rebalance, first=relieve)


class _Excess:
    """One rule: members, instances that have the rule, and those that are both, by the number of a label's value."""

    def __init__(self, rule: Avoids, codes: Integers, counts: Floats, members: int, counted: Integers) -> None:
        """``counts`` [3, V + 1]; the last column is of machines without the label, whose code is -1."""
        self.rule, self.codes, self.counts, self._members, self._counted = rule, codes, counts, members, counted

    def most(self, counts: Floats) -> Floats:
        """Return [V + 1]: how many members are allowed."""
        here, having, both = counts
        rule, most = self.rule, np.full(here.size, inf)
        if rule.share:
            most[:] = ceil(rule.share * self._members - 1e-9)
        elif rule.skew:
            most[:] = here[self._counted].min(initial=inf) + rule.skew
        else:
            most[having > 0] = rule.others + (both[having > 0] > 0)
        most[-1] = inf
        return most

    def now(self) -> Floats:
        """Return [V + 1]: how many members are too many."""
        return self.with_change(np.zeros_like(self.counts))

    def with_change(self, change: Floats) -> Floats:
        """Return the same after a change of the counts [3, V + 1]."""
        after = self.counts + change
        found: Floats = np.maximum(after[0] - self.most(after), 0.0)
        return found

    def change(self, kind: Floats, source: int) -> Floats:
        """Return [V + 1]: by how much the sum would rise, at most, if an instance of a kind [3] went there."""
        left = self.counts.copy()
        left[:, source] -= kind
        came = left + kind[:, None]
        here = np.maximum(left[0] - self.most(left), 0.0)
        most = self.most(left if self.rule.skew else came)
        found: Floats = here.sum() - here + np.maximum(came[0] - most, 0.0) - self.now().sum()
        found[source] = 0.0
        return found

    def move(self, kind: Floats, source: int, target: int) -> None:
        """Count an instance at its target."""
        self.counts[:, source] -= kind
        self.counts[:, target] += kind


class _Repair:
    def __init__(self, balancing: Balancing) -> None:
        self.balancing, self.scene, self.draft = balancing, balancing.scene, balancing.draft
        self._ledger = balancing.scene.inputs.ledger
        self._place = balancing.place
        self._row = balancing.scene.placed.rows.copy()
        for instance, target in (*balancing.on_way, *balancing.leaving):
            self._row[instance] = -1 if target is None else target
        self._excess: dict[Avoids, _Excess] = {}
        self._left: dict[Avoids, Instance] = {}
        """An instance of each broken rule that no move mends."""
        self._settings, self._tried = self.scene.inputs.profile.rebalance, 0
        self._stay = self._needed()
        self.late: _Exchange | None = None
        """An exchange that mends something after the moves."""
        for pair in balancing.handing:
            self._count(*pair)
            balancing.take_roles(*pair)

    def plan(self, first: Sequence[_Exchange]) -> RebalanceResult:
        rules = sorted({one.rule for one in broken(self.scene.machines, self._ledger)}, key=in_words)
        steps, before = self.draft.steps, -1
        for swap in first:
            if max(self.rises(*swap[:2]), default=1) <= 0:
                self.exchange(*swap)
        for rule in rules:
            while found := self._swap(rule):
                self.exchange(*found)
        while before < len(steps):
            before = len(steps)
            self._left.clear()
            for rule in rules:
                while self._tried < TRIED_MAX:
                    if not self._mend(rule):
                        break
        self.late = next(filter(None, map(self._swap, rules)), None)
        unplaced = [(one, in_words(rule)) for rule, one in self._left.items()]
        why = "those of broken rules rest or stay (rest_s, cluster_max, from_machine_max)" if rules else ""
        return self.balancing.plan(unplaced[:UNPLACED_MAX], why or "no rule is broken")

    def _swap(self, rule: Avoids) -> _Exchange | None:
        """Return the exchange of two roles that mends the most; None where there is none."""
        left = len(self.balancing.swaps) < self._settings.moves_max if self._settings.roles else 0
        if not left or all(facet[0] != "role" for facet in rule.facets):
            return None
        pairs = [(n, other) for n in self._candidates(rule)[:CANDIDATES] for other in self.balancing.partners(n)]
        found = [(sum(rises), *pair) for pair in pairs if max(rises := self.rises(*pair), default=1) <= 0]
        if min(found, default=(0,))[0] >= 0:
            return None
        _, one, other = min(found)
        return one, other, in_words(rule)

    def rises(self, one: int, other: int) -> list[float]:
        """Return by how much the excess of each rule rises if two exchange their roles; infinite if anywhere."""
        pairs = [(excess.now(), excess.with_change(change)) for excess, change in self._exchange(one, other)]
        return [float((after - now).sum()) if (after <= now).all() else inf for now, after in pairs]

    def exchange(self, one: int, other: int, why: str) -> None:
        self._count(one, other)
        self.balancing.exchange(one, other, why)

    def _count(self, one: int, other: int) -> None:
        for excess, change in self._exchange(one, other):
            excess.counts += change

    def _exchange(self, one: int, other: int) -> list[tuple[_Excess, Floats]]:
        """Return the changes of counts [3, V + 1] of each rule if two instances exchange their roles."""
        changes = dict[Avoids, Floats]()
        for n, m in ((one, other), (other, one)):
            instance = self.scene.instances[n]
            for sign, role in ((-1, instance.role), (1, self.scene.instances[m].role)):
                for excess, kind in self._about(copy_with(instance, role=role)):
                    change = changes.setdefault(excess.rule, np.zeros_like(excess.counts))
                    change[:, excess.codes[self._row[n]]] += sign * kind
        return [(self._of(rule), change) for rule, change in changes.items() if change.any()]

    def _mend(self, rule: Avoids) -> bool:
        """Add the move that mends the most; return whether there is one."""
        if len(self.draft.steps) >= self.balancing.left:
            return False
        tried = self._candidates(rule)[:CANDIDATES]
        found = [(*targets, n) for n in tried if (targets := self._targets(n)) is not None]
        if not found:
            self._left.update((rule, self.scene.instances[n]) for n in tried[:1])
            return False
        _, among, n = min(found, key=lambda one: one[0])
        one = self.scene.instances[n]
        target = self.balancing.best(n, among)
        if target is None:
            return False
        for excess, kind in self._about(one):
            excess.move(kind, excess.codes[self._row[n]], excess.codes[target])
        self._row[n] = target
        self.draft.keep(replace(self.draft.step(n, target), reason=in_words(rule)))
        return True

    def _candidates(self, rule: Avoids) -> list[int]:
        """Return what may leave where a rule is broken, first where it is the most: of like ones the least memory."""
        excess = self._of(rule)
        over = excess.now()
        if not over.any():
            return []
        names = {*self._ledger.matching(rule.facets), *self._ledger.matching(frozenset([rule]))}
        places = [self._place[name] for name in names - self._stay if name in self._place]
        there = [n for n in places if self.draft.may_go(n) and over[excess.codes[self._row[n]]] > 0]
        there.sort(key=lambda n: (self.draft.movable.memory[n], self.scene.instances[n].id))
        unlike, found = dict[object, list[Floats]](), []
        for n in there:
            one, amounts = self.scene.instances[n], self.scene.placed.amounts[:, n]
            smaller = unlike.setdefault((self._row[n], one.role, one.kind, avoids(one)), [])
            if not any((each <= amounts).all() for each in smaller):  # it may fit where none of these does
                found.append((-over[excess.codes[self._row[n]]], len(smaller), n))
                smaller.append(amounts)
        return [n for *_, n in sorted(found, key=itemgetter(0, 1))]

    def _targets(self, n: int) -> tuple[float, Bools] | None:
        """Return by how much the best moves of an instance raise the excess, and their targets [M].

        Under a skew these are where the fewest are, so that none goes twice.
        """
        fits = self.draft.takes()
        rise, there = np.zeros((2, len(fits)))
        for excess, kind in self._about(self.scene.instances[n]):
            rise += excess.change(kind, excess.codes[self._row[n]])[excess.codes]
            if excess.rule.skew:
                there += excess.counts[0][excess.codes]
        fits &= rise < 0
        if not fits.any():
            return None
        self._tried += 1
        fits &= self.balancing.allowed(n)
        if not fits.any():
            return None
        fits &= rise == rise[fits].min()
        return float(rise[fits][0]), fits & (there == there[fits].min())

    def _about(self, one: Instance) -> list[tuple[_Excess, Floats]]:
        """Return the rules that count an instance, and as what: member, one that has the rule, both."""
        own, of = avoids(one), facets_of(one)
        kinds = ((rule, rule.facets <= of, rule in own) for rule in self.balancing.rules_about(one))
        return [(self._of(rule), np.array([is_, has, is_ and has], np.float64)) for rule, is_, has in kinds]

    def _of(self, rule: Avoids) -> _Excess:
        if rule not in self._excess:
            members, having = {*self._ledger.matching(rule.facets)}, {*self._ledger.matching(frozenset([rule]))}
            column = self.scene.machines.label(rule.topology)
            sides = (members, having, members & having)
            counts = np.zeros((3, len(column.values) + 1))
            for side, names in zip(counts, sides, strict=True):
                rows = self._row[[self._place[name] for name in names if name in self._place]]
                np.add.at(side, column.codes[rows[rows >= 0]], 1)
            counted = np.zeros(0, np.int64)
            if rule.skew:
                holder = self._ledger.instances[min(having)]
                counted = np.unique(column.codes[counted_by(holder, self.scene.machines)])
            self._excess[rule] = _Excess(rule, column.codes, counts, len(members), counted)
        return self._excess[rule]

    def _needed(self) -> set[str]:
        """Return the instances that another needs near it, as the only one there."""
        asked = [(one, term) for one in self.scene.instances if one.rules is not None for term in one.rules.affinity]
        found = set[str]()
        for one, term in asked:
            codes, row = self.scene.machines.label(term.topology).codes, self._row[self._place[one.id]]
            others = (name for name in self._ledger.matching(facets(term)) if name != one.id and name in self._place)
            near = [name for name in others if codes[self._row[self._place[name]]] == codes[row]]
            found.update(near if len(near) == 1 else ())
        return found
