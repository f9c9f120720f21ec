"""Broken rules: groups that have more members on a machine, or near a label's value, than a rule of theirs allows.

No placement breaks a rule, so something else was changed. The records tell what it may have been:

| why | what happened | since |
|---|---|---|
| ``rule`` | the rule came with a member that is newer than those it is about | that member came |
| ``failover`` | a group that has a role: members took it, or a label was changed | not before the newest member came |
| ``left`` | a share or a skew: members elsewhere have left or are lost, or a label was changed | the same |
| ``relabel`` | a label of machines was changed, or the labels or rules of members | the same |

A moving member is where it runs. Pure. On 5,000 machines a group of 10⁵ members takes 0.1 s. 33,000 groups of six with
a rule each take 0.5 s, with a skew each 0.3 s while the skews hold.
"""

from collections.abc import Iterator, Sequence
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from schemas.rpc.request import Request
from schemas.rpc.results import Violation
from scorer.ledger.record.facets import Avoids, Facet
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import LedgerView
from scorer.ranking.formulas.topology import counted_for_skew
from scorer.ranking.machines import Machines
from scorer.snapshot.arrays import Bools

WHY = ("rule", "failover", "left", "relabel")
_ByDomain = dict[int, list[Instance]]


class Broken(NamedTuple):
    """A rule that is broken on the machines with one value of a label."""

    rule: Avoids
    domain: str
    most: float
    here: list[Instance]
    holders: Sequence[Instance]


def violations(machines: Machines, ledger: LedgerView) -> list[Violation]:
    """Return the broken rules of all instances, the longest broken first; ``machines``: all of the fleet."""
    return sorted(map(_violation, broken(machines, ledger)), key=lambda one: (one.since, one.rule, one.domain))


def broken(machines: Machines, ledger: LedgerView) -> list[Broken]:
    """Return the same in no order."""
    about: dict[tuple[str, frozenset[Facet]], list[Avoids]] = {}
    for rule in (rule for several in ledger.avoiders for rule in several.all()):
        about.setdefault((rule.topology, rule.facets), []).append(rule)
    fleet = _Fleet(machines, ledger)
    return [one for (topology, facets), rules in about.items() for one in _of_group(topology, facets, rules, fleet)]


class _Fleet:
    """Instances by the numbers of their machines' values of a label."""

    def __init__(self, machines: Machines, ledger: LedgerView) -> None:
        self.machines, self._ledger = machines, ledger
        self._domains: dict[str, dict[str, int]] = {}

    def having(self, facets: frozenset[Facet]) -> list[Instance]:
        return [self._ledger.instances[name] for name in self._ledger.matching(facets)]

    def by_domain(self, topology: str, instances: Sequence[Instance]) -> _ByDomain:
        """Return instances by the number of their machine's value; those without one are left out."""
        if topology not in self._domains:
            codes = self.machines.label(topology).codes.tolist()
            pairs = zip(self.machines.roster.names, codes, strict=True)
            self._domains[topology] = {name: code for name, code in pairs if code >= 0}
        domains, found = self._domains[topology], _ByDomain()
        for one in instances:
            domain = domains.get(one.machine)
            if domain is not None:
                found.setdefault(domain, []).append(one)
        return found


def _of_group(topology: str, facets: frozenset[Facet], rules: list[Avoids], fleet: _Fleet) -> Iterator[Broken]:
    members = fleet.having(facets)
    there = fleet.by_domain(topology, members)
    highest = max(map(len, there.values()), default=0)
    for rule in rules:
        if highest <= max(rule.others, rule.skew):
            continue
        holders = fleet.having(frozenset([rule]))
        ruled = fleet.by_domain(topology, holders)
        most: float = rule.others + 1
        if rule.share:
            most = ceil(rule.share * len(members) - 1e-9)
        elif rule.skew:
            codes = fleet.machines.label(topology).codes[counted_by(holders[0], fleet.machines)]
            most = rule.skew + min((len(there.get(one, ())) for one in np.unique(codes).tolist()), default=inf)
        for domain, here in there.items():
            allowed = most
            if not (rule.share or rule.skew):
                if domain not in ruled:
                    continue
                own = {one.id for one in here}
                allowed -= not any(one.id in own for one in ruled[domain])
            if len(here) > allowed:
                yield Broken(rule, fleet.machines.label(topology).values[domain], allowed, here, holders)


def counted_by(holder: Instance, machines: Machines) -> Bools:
    """Return [M]: the machines that are counted for a skew of a placed instance."""
    given = Request() if holder.rules is None else Request(
        selector=holder.rules.selector, anti_affinity=holder.rules.anti_affinity
    )  # fmt: skip
    return counted_for_skew(given, machines)


def _violation(one: Broken) -> Violation:
    rule, here = one.rule, sorted(one.here, key=_came_s, reverse=True)
    newest_s, ruled_s = _came_s(here[0]), min(map(_came_s, one.holders))
    if newest_s < ruled_s:
        why = "rule"
    elif any(facet[0] == "role" for facet in rule.facets):
        why = "failover"
    else:
        why = "left" if rule.share or rule.skew else "relabel"
    return Violation(
        rule=in_words(rule), topology=rule.topology, domain=one.domain, count=len(here), most=int(one.most),
        since=max(newest_s, ruled_s), why=why, instances=[one.id for one in here],
    )  # fmt: skip


def _came_s(one: Instance) -> float:
    return one.started_at or one.reserved_at


def in_words(rule: Avoids) -> str:
    """Return a rule as a violation names it."""
    whom = ",".join(sorted("=".join(facet[-2:]) for facet in rule.facets)) or "all"
    limit = f"share {rule.share:g}" if rule.share else f"skew {rule.skew}" if rule.skew else f"others {rule.others}"
    return f"{whom} by {rule.topology}: {limit}"
