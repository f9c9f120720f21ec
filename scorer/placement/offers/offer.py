"""The arguments of the reserve script for an instance: its candidates, their limits."""

from __future__ import annotations

from collections.abc import Callable

from schemas.rpc.request import InvalidRequest, Request
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.record.units import too_large
from scorer.placement.offers.limits import limits
from scorer.ranking.ranking import Ranking


def candidates(version: Callable[[str], int], ranking: Ranking, rows: list[int], request: Request) -> list[Candidate]:
    """Return these machines at the versions that the scorer saw, with the limits that the script compares."""
    if rows and (large := too_large(request.amounts(), float(request.maxmemory))):
        raise InvalidRequest(large)
    names = ranking.machines.roster.names
    allowed = limits(ranking, rows, request)
    return [Candidate(names[row], version(names[row]), of) for row, of in zip(rows, allowed, strict=True)]


def expected_change(change: int, request: Request) -> int:
    """Return the change that the whole ledger must still have, for rules beyond one machine; -1: any."""
    if not (request.affinity or request.anti_affinity):
        return -1
    far = any(rule.topology != "machine" for rule in (*request.affinity, *request.anti_affinity))
    return change if far else -1


def as_of(own: dict[str, int], wanted: Wanted) -> Wanted:
    """Return the instance with candidates at the versions after our own scripts, where these came after the plan."""
    if not own:
        return wanted
    candidates = [one._replace(version=own.get(one.machine, one.version)) for one in wanted.candidates]
    return wanted._replace(candidates=candidates)
