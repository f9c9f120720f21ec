"""The log of decisions: bounded by entries and by bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.names import Names
from schemas.rpc.envelope import Query
from scorer.rpc.methods.decisions import ENTRY_BYTES_MAX, DecisionLog, shortened

QUERY = Query(id="q", method="place")
MACHINE = {"machine": "m", "score": 1.0, "scores": {"a": {"value": 1.0}}, "text": "x" * 3000}


def answer(machines: int, **more: Any) -> bytes:
    """Return an answer that tells of so many machines."""
    return msgspec.json.encode({"machine": "m", "feasible": machines, "candidates": [MACHINE] * machines, **more})


def lengths(log: DecisionLog) -> list[int]:
    """Return to how many entries each pending command cuts the stream."""
    return [int(command[4]) for command in log.take()]


def test_a_small_answer_is_kept_whole() -> None:
    """Nothing is left out while it fits."""
    assert shortened(answer(2)) == answer(2)


def test_a_large_answer_keeps_the_chosen_machine() -> None:
    """Its terms and the counts stay; the other machines go, and that is said."""
    short = msgspec.json.decode(shortened(answer(1000, placed=[])))
    assert short == {
        "machine": "m",
        "feasible": 1000,
        "candidates": [MACHINE],
        "machines": None,
        "placed": [],
        "shortened": True,
    }


def test_an_answer_that_the_caller_has_is_not_decoded() -> None:
    """What is left out is the same, and the caller's answer stays as it is."""
    whole = answer(1000, placed=[{"id": "x" * 100}] * 1000)
    decoded = msgspec.json.decode(whole)
    assert shortened(whole, decoded=decoded) == shortened(whole)
    assert decoded == msgspec.json.decode(whole)


def test_no_entry_is_larger_than_the_limit() -> None:
    """Whatever is in it."""
    placed = [{"id": f"i{number}" * 50} for number in range(10_000)]
    reasons = {f"reason {number}" * 200: number for number in range(100)}
    for found in (answer(1, placed=placed), answer(1, missing_reasons=reasons), answer(1, refusals=[MACHINE] * 1000)):
        assert len(shortened(found)) <= ENTRY_BYTES_MAX


def test_large_entries_make_their_number_smaller() -> None:
    """The stream as a whole keeps to its bytes, and grows again when entries are small again."""
    log = DecisionLog(Names(), "s", 100_000, bytes_max=2**20)
    log.note(QUERY, ["i"], answer(0))
    (small,) = lengths(log)
    for _ in range(1000):
        log.note(QUERY, ["i"], answer(5))
    large = lengths(log)[-1]
    assert small * len(answer(0)) <= 2**20
    assert large * len(shortened(answer(5))) <= 1.01 * 2**20
    for _ in range(1000):
        log.note(QUERY, ["i"], answer(0))
    assert lengths(log)[-1] > 2 * large


def test_ids_count_as_bytes() -> None:
    """A batch of 10,000 has its ids in the entry."""
    log = DecisionLog(Names(), "s", 100_000, bytes_max=2**20)
    log.note(QUERY, [f"{number:0200}" for number in range(1000)], answer(0))
    assert lengths(log) == [5]
