"""Queries taken together: alike ones in a row are placed as one batch, and each gets its own answer.

Eight deployers that place the same kind of instance at once cost one script and at most one ranking, not eight. A batch
continues where the last one of its kind ended (`scorer.placement.choosing.reuse`). The machines are those that the
queries would get one after the other (`scorer.placement.choosing.plan`), and an id is reserved once, whichever query
asks for it. Only the terms in an answer differ: they are those of the ranking that the first of the batches began with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from schemas.rpc.envelope import Query
from schemas.rpc.request import Request
from schemas.rpc.results import RankResult
from scorer.placement.offers.placement import Placement
from scorer.ranking.explanation.explain import answer_for, tell_ahead, with_candidates_in_json


@dataclass(frozen=True)
class Asked:
    """One query for one instance."""

    query: Query
    request: Request
    digest: str


def runs(queries: Sequence[Query], read: Callable[[Query], Asked | None]) -> list[list[Asked]]:
    """Return the runs of at least two alike queries in a row.

    ``read`` gives None for a query that cannot go with others.
    """
    found: list[list[Asked]] = []
    for query in queries:
        asked = read(query)
        if asked is None:
            found.append([])
        elif found and found[-1] and _alike(found[-1], asked):
            found[-1].append(asked)
        else:
            found.append([asked])
    return [run for run in found if len(run) > 1]


def _alike(run: Sequence[Asked], asked: Asked) -> bool:
    first = msgspec.structs.replace(run[0].request, id=asked.request.id)
    return first == asked.request and all(asked.request.id != other.request.id for other in run)


def owns(placement: Placement) -> dict[int, Placement]:
    """Return the placement of each instance of a batch that has a machine, as if it had been asked for alone."""
    ranking, records = placement.ranking, placement.records
    index: Mapping[str, int] = {} if ranking is None else ranking.machines.roster.index
    rows = {
        position: index.get(record.machine)
        for position, record in enumerate(records)
        if record is not None and position not in placement.missing
    }
    if ranking is not None:
        tell_ahead(ranking, [row for row in rows.values() if row is not None])

    def own_answer(row: int | None) -> RankResult | None:
        if ranking is None or row is None:
            return placement.answer
        return with_candidates_in_json(ranking, answer_for(ranking, row))

    return {
        position: Placement(
            [placement.asked[position]],
            [records[position]],
            ranking=ranking,
            answer=own_answer(row),
            known={0} if position in placement.known else set(),
            lost=Counter({0: placement.lost[position]}),
        )
        for position, row in rows.items()
    }
