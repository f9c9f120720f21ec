"""Rule ``repair``: the fewest moves that mend broken rules, and of those the least memory. Pure.

    each broken rule in turn, until no move mends anything:
        of the members where there are too many, and of all machines that the filters allow, take the move
        that lowers the excess of all rules together the most

The excess of a rule is by how many members it is broken, over all machines or values of its label. Each move lowers the
sum, so the plan ends, and on its own result it is empty, also where rules contradict each other. Rejected: one rule
after the other by itself, as the descheduler does: what mends one breaks the next, and the same instances leave again.
An instance that others need near them stays.

With ``roles`` two members of a cluster exchange their roles first, where that mends a rule about a role: nothing is
copied. The rounds of a planner do not, since movers only move.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import ceil, inf

import numpy as np

from scorer.ledger.record.facets import Avoids, avoids, facets, facets_of
from scorer.ledger.record.instance import Instance, copy_with
from scorer.planning.balance.by_overload import Balancing, Plan
from scorer.planning.balance.rounds import Rounds
from scorer.planning.violations import broken, counted_by, in_words
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.snapshot.arrays import Bools, Floats, Integers

CANDIDATES = 32
"""Unlike instances that are tried for one move."""
TRIED_MAX = 2_000
"""Instances for which a plan looks for targets: 3 ms each with 5,000 machines."""
UNPLACED_MAX = 100


@quiet
def repair(
    inputs: RankingInputs, rounds: Rounds | None = None, pending: Mapping[str, str] | None = None,
    stay: Collection[str] = (),
) -> Plan:  # fmt: skip
    """Return the moves; a target is the machine that the profile chooses among the equally good ones."""
    roles = inputs.profile.rebalance.roles and rounds is None
    return _Repair(Balancing.of(inputs, None, pending, stay), roles=roles).plan()


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
    def __init__(self, balancing: Balancing, *, roles: bool) -> None:
        self.balancing, self.scene, self.draft = balancing, balancing.scene, balancing.draft
        self._ledger = balancing.scene.inputs.ledger
        self._place = {one.id: n for n, one in enumerate(self.scene.instances)}
        self._row = balancing.scene.placed.rows.copy()
        for instance, target in (*balancing.on_way, *balancing.leaving):
            self._row[instance] = -1 if target is None else target
        self._excess: dict[Avoids, _Excess] = {}
        self._left: dict[Avoids, Instance] = {}
        """An instance of each broken rule that no move mends."""
        self._roles = roles
        self._swaps: list[tuple[Instance, str, str]] = []
        self._tried = 0
        self._stay = self._needed()

    def plan(self) -> Plan:
        rules = sorted({one.rule for one in broken(self.scene.machines, self._ledger)}, key=in_words)
        steps, before = self.draft.steps, -1
        while before < len(steps):
            before = len(steps)
            self._left.clear()
            for rule in rules:
                while len(steps) + len(self._swaps) < self.balancing.left and self._tried < TRIED_MAX:
                    if not self._swap(rule) and not self._mend(rule):
                        break
        unplaced = [(one, in_words(rule)) for rule, one in self._left.items()]
        why = "those of broken rules rest or stay (rest_s, cluster_max, from_machine_max)" if rules else ""
        found = self.balancing.plan(unplaced[:UNPLACED_MAX], why or "no rule is broken")
        return replace(found, swaps=tuple(self._swaps), why="" if self._swaps else found.why)

    def _swap(self, rule: Avoids) -> bool:
        """Add the exchange of two roles that mends the most; return whether there is one."""
        if not self._roles or all(facet[0] != "role" for facet in rule.facets):
            return False
        found = list[tuple[float, int, int]]()
        for n in self._candidates(rule)[:CANDIDATES]:
            one = self.scene.instances[n]
            others = self._ledger.matching(frozenset([("cluster", one.cluster)])) if one.cluster else ()
            for other in sorted(self._place[name] for name in others if name in self._place):
                role = self.scene.instances[other].role
                if role and one.role and role != one.role and self.draft.free[other]:
                    rises = [
                        float(excess.with_change(change).sum() - excess.now().sum())
                        for excess, change in self._exchange(n, other)
                    ]
                    if sum(rises) < 0 and max(rises) <= 0:
                        found.append((sum(rises), n, other))
        if not found:
            return False
        _, n, m = min(found)
        for excess, change in self._exchange(n, m):
            excess.counts += change
        giver, taker = self.scene.instances[n], self.scene.instances[m]
        for place, instance, role in ((n, giver, taker.role), (m, taker, giver.role)):
            self.scene.instances[place] = copy_with(instance, role=role)
            self.balancing.trial.put(self.scene.instances[place])
            self.draft.free[place] = False
        self._swaps.append((giver, taker.id, f"{in_words(rule)}; hand its role to {taker.id}: nothing is copied"))
        return True

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
        unlike = dict[object, int]()
        for n in there:
            one = self.scene.instances[n]
            unlike.setdefault((self._row[n], one.role, one.kind, avoids(one)), n)
        return sorted(unlike.values(), key=lambda n: -over[excess.codes[self._row[n]]])

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
