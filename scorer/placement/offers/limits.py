"""The limits that the ledger must uphold for a request: those of the profile's filters, and one instance a port."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, adds, in_role
from scorer.placement.choosing.continuation import without_id
from scorer.ranking.machines.machines import Machines
from scorer.ranking.ranking import ContinuedRanking, Ranking


def limits(ranking: Ranking, rows: Sequence[int], request: Request) -> list[tuple[Limit, ...]]:
    """Return, for each of some machines, the upper limits of its sums and counts with the request.

    Of two limits on one measure both hold. Each port of a machine is used once, whatever the profile says. The filters
    are asked once for all placements that a ranking serves; ``request`` may differ from the ranking's own.
    """
    made = ranking.base if isinstance(ranking, ContinuedRanking) else ranking
    asked = without_id(request)
    if asked != without_id(made.request):
        found = made.limits_for(asked, Machines(made.machines.fleet, asked, made.machines.now_s))
    else:
        found = made.limits
    columns = [_at(limit, rows) for limit in found]
    return list(zip(*columns, strict=True)) if columns else [()] * len(rows)


def _at(limit: Limit, rows: Sequence[int]) -> list[Limit]:
    measure, most, reason = limit
    if not isinstance(most, np.ndarray):
        return [limit] * len(rows)
    return [Limit(measure, one, reason) for one in most[rows].tolist()]


def of_growth(limits: Sequence[Limit], old: Instance, new: Instance) -> tuple[Limit, ...]:
    """Return the limits on the measures in which an instance that stays on its machine grows.

    Amounts that it holds already are not checked again, nor is its role.
    """
    role = in_role(new.cluster, new.role)
    return tuple(
        limit for limit in limits if limit.measure != role and adds(new, limit.measure) > adds(old, limit.measure)
    )
