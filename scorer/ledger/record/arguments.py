"""Arguments of the scripts as they go over the wire, and the reasons that the scripts return, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import measures_in_script, mosts_in_script, scales_in_script
from scorer.ledger.record.transition import ALL_OR_NONE, CHANGED, Call, Candidate

_lines = msgspec.json.Encoder().encode_lines


def in_call(call: Call) -> tuple[str, str]:
    """Return the query's id and deadline."""
    return call.query, repr(float(call.deadline))


def given(generation: int | None) -> str:
    """Return a generation as the scripts read it: "" for None, which means the live one, whichever that is."""
    return "" if generation is None else str(generation)


def candidates_in_script(instance: Instance, candidates: Sequence[Candidate]) -> bytes:
    """Return the candidates for the scripts, one a line; before the first on some measures is a line with these."""
    lines: list[Any] = []
    on: list[Any] | None = None
    for machine, version, limits in candidates:
        here = [limit[0] for limit in limits]
        if here != on:
            on, measures = here, measures_in_script(instance, limits)
            lines.append([field for measure in measures for field in _in_script(measure)])
            scales = scales_in_script(measures)
        lines.append((machine, version, *mosts_in_script(limits, scales)))
    return _lines(lines)


def _in_script(measure: tuple[str | int, ...]) -> tuple[str | int, str | int, str | int]:
    """Return what an instance adds to a measure, its name, and over what it is: 0 all classes, 1 a count.

    >>> _in_script((500, "total", "cpu", "batch", "free")), _in_script((1, "count", "port 6379"))
    ((500, 'cpu', 'batch free'), (1, 'port 6379', 1))
    """
    added, kind, name, *classes = measure
    return added, name, 1 if kind == "count" else " ".join(map(str, classes)) or 0


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
