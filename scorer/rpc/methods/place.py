"""Parameters and answers of `place`: parameters in, single requests out; a placement in, its answer out."""

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.parameters import BATCH_MAX
from schemas.rpc.request import InvalidRequest, Request, read_request
from schemas.rpc.results import Line, PlaceResult, RankResult
from scorer.ledger.record.instance import Instance, request_digest, why_not_a_deployers
from scorer.placement.choosing.plan import expand
from scorer.placement.choosing.steps import Steps
from scorer.placement.offers.placement import Placement

_MANY = 64
_READ_STEP = 200
"""Instances read in one step."""
_MISSING_SHOWN = 1000
"""Ids of instances without a machine in one answer."""
_SHARED = frozenset(Request.__struct_fields__) - {"id", "first_id", "count"}


class Batch(NamedTuple):
    """The instances that one query requests."""

    requests: list[Request]
    """Each has its id and stands for one instance."""
    digests: list[str]
    """`scorer.ledger.record.instance.request_digest` of each: two requests under one id differ by it."""
    single: bool
    """Whether the query asks for one instance, so that its answer has the line of that one at the top level."""


def asks_many(params: dict[str, Any]) -> bool:
    """Return whether a query may request so many instances that it is answered in several steps."""
    given, count = params.get("instances", ()), params.get("count", 1)
    return (isinstance(given, list) and len(given) > _MANY) or (isinstance(count, int) and count > _MANY)


def _read(params: dict[str, Any]) -> Request:
    request = read_request(params)
    if why := why_not_a_deployers(request.id, request.labels):
        raise InvalidRequest(why)
    return request


def read_batch(params: dict[str, Any], query_id: str) -> Steps[Batch]:
    """Return the single requests in the parameters of a query, in steps of a few instances.

    ``instances`` is a list of unlike requests; a field beside it holds for each of them that does not give it itself.
    An instance without an id gets the query's, so that a query sent twice reserves once.

    Raises InvalidRequest naming the field.
    """
    if "instances" not in params:
        request = _read(params)
        request = _with_id(request, query_id)
        requests = expand(request)
        return Batch(requests, [request_digest(request)] * len(requests), request.count == 1)
    shared = {name: value for name, value in params.items() if name != "instances"}
    for name in shared:
        if name not in _SHARED:
            raise InvalidRequest(f"{name}: does not go together with instances")
    given = params["instances"]
    if not isinstance(given, list) or not 1 <= len(given) <= BATCH_MAX:
        raise InvalidRequest(f"instances: expected a list of 1 to {BATCH_MAX} requests")
    requests, digests = [], []
    for position, one in enumerate(given):
        if not isinstance(one, dict):
            raise InvalidRequest(f"instances[{position}]: expected an object")
        try:
            request = _with_id(_read(shared | one), f"{query_id}-{position + 1}")
        except InvalidRequest as error:
            raise InvalidRequest(f"instances[{position}].{error}") from None
        expanded = expand(request)
        requests += expanded
        digests += [request_digest(request)] * len(expanded)
        if len(requests) > BATCH_MAX:
            raise InvalidRequest(f"instances: more than {BATCH_MAX}")
        if (position + 1) % _READ_STEP == 0:
            yield
    _check_alike(requests)
    return Batch(requests, digests, single=False)


def _check_alike(requests: list[Request]) -> None:
    """Refuse an id that is given twice, and a second profile."""
    seen: set[str] = set()
    for request in requests:
        if request.id in seen:
            raise InvalidRequest(f"instances: id {request.id!r} is listed twice")
        seen.add(request.id)
        if request.profile != requests[0].profile:
            first = requests[0].profile
            raise InvalidRequest(f"profile: {request.profile!r} in a query that began with {first!r}")


def _with_id(request: Request, own: str) -> Request:
    """Return the request with its own id, or with ``own``; raises InvalidRequest."""
    if request.first_id:
        if request.id:
            raise InvalidRequest("first_id: give an id or a first_id, not both")
        return request
    check_id(request.id)
    return request if request.id else msgspec.structs.replace(request, id=own)


def check_id(instance_id: str) -> None:
    """Refuse an id that is not printable."""
    if not instance_id.isprintable():
        raise InvalidRequest(f"id: {instance_id!r} holds characters that cannot be printed")


def place_answer(placement: Placement, single: bool, profile: str = "") -> PlaceResult:
    """Return the answer of `place`.

    ``placed`` holds a line for each live instance; ``missing`` is the number without a machine, ``reason`` why. With
    one instance its line is at the top level, too, with the ranking's terms; ``machine`` is None when none fits.
    """
    placed = [instance_line(record) for record in placement.records if record is not None]
    first, missing = placement.asked[0], placement.missing
    terms = msgspec.structs.asdict(
        placement.answer
        or RankResult(
            profile=profile,
            summary="known already: not ranked again",
            request=dict(zip(RESOURCES, first.amounts(), strict=True)),
        )
    )
    if not single:
        terms |= {"machine": placed[0].machine if placed else None, "score": None}
    elif placed:
        score = terms["score"] if placed[0].machine == terms["machine"] else _score(placement, placed[0].machine)
        terms |= msgspec.structs.asdict(placed[0]) | {"score": score}
    else:
        terms |= {"id": first.id, "machine": None, "score": None}
    return PlaceResult(
        **terms,
        placed=placed,
        asked=len(placement.asked),
        missing=len(missing),
        reason=next(iter(missing.values()), ""),
        missing_reasons=dict(Counter(missing.values())),
        missing_ids=[placement.asked[position].id for position in sorted(missing)][:_MISSING_SHOWN],
        repeated=placement.repeated,
        conflicts=placement.conflicts,
        dry_run=first.dry_run,
    )


def _score(placement: Placement, machine: str) -> float | None:
    """Return the score of a machine in the ranking; None without a ranking, or for an unknown machine."""
    ranking = placement.ranking
    row = None if ranking is None else ranking.machines.roster.index.get(machine)
    return None if ranking is None or row is None else float(ranking.total[row])


def instance_line(record: Instance) -> Line:
    return Line(
        id=record.id,
        machine=record.machine,
        state=record.state,
        reserved_at=record.reserved_at,
        expires_at=record.expires_at if record.state == "reserved" else None,
        started_at=record.started_at or None,
        ended_at=record.ended_at or None,
        version=record.version,
        generation=record.generation,
    )
