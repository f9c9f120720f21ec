"""Refusals: how many machines each filter refused, and why."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec
import numpy as np

from schemas.rpc.request import Request
from schemas.rpc.results import Refusal
from scorer.ledger.view.overlay import Readable
from scorer.ranking.machines.owner import Owner
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.ranking import Ranking

_LAST = (Owner("refusals"), "last")
"""The key under which the refusals of the last decision are kept."""


def refusals(ranking: Ranking) -> list[Refusal]:
    """Return the refused machines by filter and reason, most first; each counts for the first filter that refused it.

    From one decision to the next mostly the same machines are refused for the same reasons. The last result is used
    again while request, second and refused machines are the same and nothing was placed on them.
    """
    if ranking.feasible_count == len(ranking.machines):
        return []
    if (said := ranking.said.get(_LAST)) is not None:
        return list(said)
    shelf, request = ranking.machines.fleet.shelf, msgspec.structs.replace(ranking.request, id="")
    ledger = shelf.seats.ledger
    told = (request, int(ranking.machines.now_s), ranking.feasible.tobytes())
    last: _Told | None = shelf.fixed.get(_LAST)
    again = last is not None and last.profile is ranking.profile and last.ledger is ledger and last.told == told
    if last is None or not again or _touched(ranking, last.position):
        last = _Told(ranking.profile, told, ledger, 0, _refusals(ranking))
    shelf.fixed[_LAST] = last._replace(position=shelf.seats.position)
    ranking.said[_LAST] = last.found
    return last.found


class _Told(NamedTuple):
    """The refusals of the last decision."""

    profile: Profile
    told: tuple[Request, int, bytes]
    """The request, second and feasible machines that they hold for."""
    ledger: Readable
    position: int
    """The ledger's position at that decision."""
    found: list[Refusal]


def _touched(ranking: Ranking, position: int) -> bool:
    """Return whether a refused machine changed since a position, or a filter depends on other machines."""
    changed = ranking.machines.fleet.seats.changed_since(position)
    if any(plugins.looks_at_fleet(verdict.filter) for verdict in ranking.verdicts):
        return True
    return not bool(ranking.feasible[changed].all())


def _refusals(ranking: Ranking) -> list[Refusal]:
    left = ranking.machines.all_true
    found: Counter[tuple[str, str]] = Counter()
    for verdict in ranking.verdicts:
        each, allowed = verdict.filter, verdict.allowed
        if np.count_nonzero(allowed) == allowed.size:
            continue
        rows = np.flatnonzero(left > allowed)  # a truth is more than no truth: left so far, and not allowed
        if not rows.size:
            continue
        left = left & allowed
        if not plugins.has_reasons(each):
            found[each.name, each.reason] += rows.size
            continue
        why = plugins.reasons(each, ranking.request, verdict.machines.take(rows), allowed[rows])
        refused = np.ones(rows.size, np.bool_)
        for reason, mask in why.items():
            count = int(np.count_nonzero(refused & mask))
            refused &= ~mask
            if count:
                found[each.name, reason] += count
        if rest := int(np.count_nonzero(refused)):
            found[each.name, each.reason] += rest
    order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Refusal(filter=name, reason=reason, machines=count) for (name, reason), count in order]
