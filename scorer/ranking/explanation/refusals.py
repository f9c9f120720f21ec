"""Refusals: how many machines each filter refused, and why."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from schemas.rpc.request import Request
from schemas.rpc.results import Refusal
from scorer.ledger.view.overlay import Readable
from scorer.ranking.machines.machines import Machines
from scorer.ranking.machines.owner import Owner
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.plugins import Filter
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.ranking import Ranking
from scorer.snapshot.arrays import Bools

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
    last: _Told | None = shelf.fixed.values.get(_LAST)
    same = last is not None and last.profile is ranking.profile and last.ledger is ledger and last.told == told
    again = last is not None and same and not _touched(ranking, last.position)
    found = last.found if last is not None and again else _refusals(ranking)
    shelf.fixed.values[_LAST] = _Told(ranking.profile, told, ledger, shelf.seats.position, found)
    ranking.said[_LAST] = found
    return found


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
    left, count = ranking.machines.all_true, len(ranking.machines)
    found: dict[tuple[str, str], int] = {}
    for verdict in ranking.verdicts:
        if count == ranking.feasible_count:
            break  # the filters that follow refuse no other machine
        before, now = count, left & verdict.allowed
        count = int(np.count_nonzero(now))
        if count < before:
            each = verdict.filter
            if plugins.has_reasons(each):
                (rows,) = (left > now).nonzero()  # a truth is more than no truth: left so far, and not allowed
                why = by_reason(each, ranking.request, verdict.take(rows), verdict.allowed[rows])
            else:
                why = {each.reason: before - count}
            for reason, machines in why.items():
                found[each.name, reason] = found.get((each.name, reason), 0) + machines
            left = now
    order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Refusal(filter=name, reason=reason, machines=count) for (name, reason), count in order]


def by_reason(each: Filter, request: Request, machines: Machines, allowed: Bools) -> dict[str, int]:
    """Return how many machines a filter refuses for each reason; each counts for the first that holds."""
    found: dict[str, int] = {}
    refused, count = ~allowed, allowed.size - int(np.count_nonzero(allowed))
    for reason, mask in plugins.reasons(each, request, machines, allowed).items():
        before, refused = count, refused > mask
        count = int(np.count_nonzero(refused))
        if count < before:
            found[reason] = before - count
        if not count:
            return found
    if count:
        found[each.reason] = found.get(each.reason, 0) + count
    return found
