"""Arguments of the scripts as they go over the wire, and the reasons that the scripts return, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from scorer.ledger.instance import Instance
from scorer.ledger.limits import measures_in_script, mosts_in_script, scales_in_script
from scorer.ledger.transition import ALL_OR_NONE, CHANGED, Call, Candidate

_encode = msgspec.json.Encoder().encode


def in_call(call: Call) -> tuple[str, str]:
    """Return the query's id and deadline."""
    return call.query, repr(float(call.deadline))


def given(generation: int | None) -> str:
    """Return a generation as the scripts read it: "" for None, which means the live one, whichever that is."""
    return "" if generation is None else str(generation)


def candidates_in_script(instance: Instance, candidates: Sequence[Candidate]) -> bytes:
    """Return the candidates as JSON for the scripts; candidates with limits on the same measures share a header."""
    headers: list[Any] = []
    rows: list[Any] = [headers]
    on: list[Any] | None = None
    for machine, version, limits in candidates:
        here = [limit[0] for limit in limits]
        if here != on:
            on, measures = here, measures_in_script(instance, limits)
            headers.append(measures)
            scales = scales_in_script(measures)
        rows.append((machine, version, len(headers), *mosts_in_script(limits, scales)))
    return _encode(rows)


def reasons_in_words(words: str, candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the script's reasons in words: one for each candidate that the script tried, in order."""
    if not words:
        return ()
    if words == ALL_OR_NONE:
        return (ALL_OR_NONE,)
    return tuple(
        reason if reason == CHANGED else one.limits[int(reason) - 1].reason
        for reason, one in zip(words.split(","), candidates, strict=False)
    )
