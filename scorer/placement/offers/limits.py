"""The limits that the ledger must uphold for a request: those of the profile's filters, and one instance a port."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, adds, in_role
from scorer.ranking.ranking import Ranking


def limits(ranking: Ranking, rows: Sequence[int], request: Request) -> list[tuple[Limit, ...]]:
    """Return, for each of some machines, the upper limits of its sums and counts with the request.

    Of two limits on one measure both hold. Each port of a machine is used once, whatever the profile says. ``request``
    may differ from the ranking's own.
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
