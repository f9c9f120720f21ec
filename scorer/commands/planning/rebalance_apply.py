"""``windward rebalance --apply``: a scorer reserves the target of each move, one after the other.

Each step is a query `update` with ``move`` and the generation of the instance. The scorer checks the target again, and
the ledger's script refuses an instance of another generation. A refused step drops the later steps that depend on it:
those to its source, which would have got room, and those from its target, which would have got load. When the command
stops in between, the reservations expire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scorer.client import WindwardError

Reserve = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Given a move, reserves its target; returns the answer of ``update``, or raises WindwardError."""

NO_ANSWER = ("UNAVAILABLE", "DEADLINE_EXCEEDED")


def apply_moves(moves: Sequence[Mapping[str, Any]], reserve: Reserve) -> list[dict[str, Any]]:
    """Return the moves, each with its result in ``applied``: ``outcome`` and ``why``.

    The outcome is ``reserved`` (with ``until``, epoch s, and the ``number`` of the move), ``refused``, ``dropped``, or
    ``not tried`` after no scorer answered. A move without a target has none.
    """
    found: list[dict[str, Any]] = []
    undone: list[Mapping[str, Any]] = []
    silent = ""
    for move in moves:
        applied: dict[str, Any] | None = None
        if move["target"] is not None:
            applied = {"outcome": "not tried", "why": silent} if silent else _step(move, undone, reserve)
            if applied["outcome"] in ("refused", "dropped"):
                undone.append(move)
            silent = applied.pop("silent", silent)
        found.append({**move, "applied": applied})
    return found


def _step(move: Mapping[str, Any], undone: Sequence[Mapping[str, Any]], reserve: Reserve) -> dict[str, Any]:
    for other in undone:
        if other["source"] == move["target"]:
            why = f"{other['id']} does not leave {move['target']}"
        elif other["target"] == move["source"]:
            why = f"{other['id']} does not come to {move['source']}"
        else:
            continue
        return {"outcome": "dropped", "why": why}
    try:
        answer = reserve(move)
    except WindwardError as error:
        if error.code in NO_ANSWER:
            return {"outcome": "not tried", "why": str(error), "silent": str(error)}
        return {"outcome": "refused", "why": str(error)}
    moving = answer.get("moving")
    if moving is None or moving["to"] != move["target"]:
        return {"outcome": "refused", "why": f"{move['id']} is on {answer['machine']} and does not move"}
    return {"outcome": "reserved", "why": "", "until": moving["until"], "number": moving["number"]}
