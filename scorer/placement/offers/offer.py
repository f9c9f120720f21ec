"""The arguments of the reserve script for an instance: its candidates, their limits."""

from collections.abc import Callable, Sequence

import numpy as np

from schemas.rpc.request import InvalidRequest, Request
from scorer.ledger.record.facets import facets_of, rule_of
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, adds, in_role
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.record.units import too_large
from scorer.ledger.view.view import LedgerView
from scorer.ranking.ranking import Ranking


def candidates(version: Callable[[str], int], ranking: Ranking, rows: list[int], request: Request) -> list[Candidate]:
    """Return these machines with the versions that the scorer read, and the limits for the script."""
    if rows and (large := too_large(request.amounts(), float(request.maxmemory))):
        raise InvalidRequest(large)
    names = ranking.machines.roster.names
    allowed = limits(ranking, rows, request)
    return [Candidate(names[row], version(names[row]), of) for row, of in zip(rows, allowed, strict=True)]


def expected_change(change: int, request: Request, ledger: LedgerView) -> int:
    """Return the ledger's change that must still be the last one, where a rule looks beyond one machine.

    The rules are the request's own, and those of instances that avoid it. Without any, a number below -1 encodes the
    change after which no instance with such a rule may have been added (``expect`` in ``ledger.lua``).
    """
    rules = list(map(rule_of, (*request.affinity, *request.anti_affinity)))
    for several in filter(None, ledger.avoiders):
        rules += several.of(facets_of(request))
    return change if any(rule.far for rule in rules) else -2 - change


def as_of(own: dict[str, int], wanted: Wanted) -> Wanted:
    """Return the instance with its candidates' versions updated by our own scripts since the plan."""
    if not own:
        return wanted
    candidates = [one._replace(version=own.get(one.machine, one.version)) for one in wanted.candidates]
    return wanted._replace(candidates=candidates)


def limits(ranking: Ranking, rows: Sequence[int], request: Request) -> list[tuple[Limit, ...]]:
    """Return, for each of some machines, the upper limits of its sums and counts with the request.

    Where one measure has two limits, both hold. Each port of a machine is used once, whatever the profile says.
    ``request`` may differ from the ranking's own.
    """
    columns = [_of_each(limit, len(rows)) for limit in ranking.limits_for(request, rows)]
    return list(zip(*columns, strict=True)) if columns else [()] * len(rows)


def _of_each(limit: Limit, count: int) -> list[Limit]:
    measure, most, reason = limit
    if not isinstance(most, np.ndarray):
        return [limit] * count
    return [Limit(measure, one, reason) for one in most.tolist()]


def of_growth(limits: Sequence[Limit], old: Instance, new: Instance) -> tuple[Limit, ...]:
    """Return the limits on the measures in which an instance that stays on its machine grows.

    Amounts that it holds already are not checked again, nor is its role.
    """
    role = in_role(new.cluster, new.role)
    return tuple(
        limit for limit in limits if limit.measure != role and adds(new, limit.measure) > adds(old, limit.measure)
    )
