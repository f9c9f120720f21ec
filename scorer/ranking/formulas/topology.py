"""How many matching instances are near a machine: on it, or on machines with the same value of a topology label.

A rule's ``skew`` is that of Kubernetes' PodTopologySpread with its defaults: the instances of a label's value, one more
for the requested one, less those of the value with the fewest. Machines are counted that the request's selector matches
and that have the labels of all its rules with a skew, with or without instances, cordoned or not. A rule's ``share`` is
of all members with the requested one, rounded up, so that the first of a group can start.

A moving instance is on both machines where there may be too many, and near neither where the fewest are. It is one
member of all. So the rule also holds when it arrives, or stays.
"""

import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.record.facets import Avoids, Facet, facets_of
from scorer.ledger.record.instance import machines_of
from scorer.ranking.formulas.selectors import select
from scorer.ranking.machines import Machines
from scorer.snapshot.arrays import Bools, Floats


def instances_near(facets: frozenset[Facet], topology: str, machines: Machines) -> Floats:
    """Return [n]: instances with these facets on the machines that share its topology value; 0 without the label."""
    if topology == "machine":
        return machines.tally(facets)
    column = machines.whole.label(topology)
    present = column.codes >= 0
    total = np.bincount(column.codes[present], machines.whole.tally(facets)[present], len(column.values))
    here = machines.label(topology).codes
    return np.where(here >= 0, np.append(total, 0.0)[here], 0.0)


def excess(rule: Avoids, machines: Machines) -> Floats:
    """Return [n]: by how many instances a rule would be broken near a machine with the requested one there; 0: kept."""
    own = float(rule.facets <= machines.facets)
    if rule.skew:
        return _skew_beyond(rule, own, machines)
    most = rule.others
    if rule.share:
        twice = sum(len(rows) > 1 for rows in _moving(rule.facets, machines))
        most = np.ceil(rule.share * (machines.whole.tally(rule.facets).sum() - twice + own) - 1e-9) - own
    return np.maximum(instances_near(rule.facets, rule.topology, machines) - most, 0.0)


def _skew_beyond(rule: Avoids, own: float, machines: Machines) -> Floats:
    whole = machines.whole
    column = whole.label(rule.topology)
    counted = counted_for_skew(machines.request, whole) & (column.codes >= 0)
    codes, values = column.codes[counted], len(column.values)
    tally = whole.tally(rule.facets)
    held = np.bincount(codes, tally[counted], values)
    for rows in _moving(rule.facets, machines):
        elsewhere = len({int(column.codes[row]) for row in rows}) > 1
        tally[rows if elsewhere else rows[1:]] -= 1
    staying = np.where(np.bincount(codes, minlength=values) > 0, np.bincount(codes, tally[counted], values), np.inf)
    fewest = np.full(values + 1, staying.min(initial=np.inf))
    if values:  # compared with the others: whatever arrives there, arrives in its own count, too
        first = int(staying.argmin())
        fewest[first] = np.delete(staying, first).min(initial=np.inf)
    here = machines.label(rule.topology).codes
    return np.where(here >= 0, np.maximum(np.append(held, 0.0)[here] + own - fewest[here] - rule.skew, 0.0), 0.0)


def _moving(facets: frozenset[Facet], machines: Machines) -> list[list[int]]:
    """Return the rows of each moving instance with these facets, known ones of its two."""
    ledger, index, overlay = machines.table.residents.ledger, machines.roster.index, machines.what_if.overlay
    there = [ledger.instances[name] for name in ledger.moving if overlay is None or name in overlay]
    return [[index[at] for at in machines_of(one) if at in index] for one in there if facets <= facets_of(one)]


def counted_for_skew(request: Request, machines: Machines) -> Bools:
    """Return [n]: the machines that are counted for a skew of a request."""
    counted = select(request.selector, machines)
    for term in request.anti_affinity:
        counted &= machines.label(term.topology).codes >= 0 if term.skew else True
    return counted


def avoiding(machines: Machines) -> list[Avoids]:
    """Return the rules of placed instances that keep the requested one away."""
    overlay = machines.what_if.overlay
    ledger = machines.table.residents.ledger if overlay is None else overlay
    return [rule for several in ledger.avoiders if several for rule in several.of(machines.facets)]
