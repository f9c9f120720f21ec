"""The log of decisions: bounded by entries and by bytes."""

import msgspec

from schemas.names import Names
from schemas.rpc.envelope import Query
from schemas.rpc.results import Candidate, Line, PlaceResult, Refusal
from scorer.rpc.methods.placements import ENTRY_BYTES_MAX, DecisionLog, shortened

QUERY = Query(id="q", method="place")
MACHINE = Candidate(
    machine="m", score=1.0, scores={"a": {"text": "x" * 3000}}, resources={}, window_s=None, coverage=None,
    warming=False, age_s=None, instances=0,
)  # fmt: skip


def answer(machines, **more):
    return PlaceResult(machine="m", feasible=machines, candidates=[MACHINE] * machines, **more)


def size(found):
    return len(msgspec.json.encode(found))


def lengths(log):
    return [int(command[4]) for command in log.take()]


def test_a_small_answer_is_kept_whole():
    assert shortened(answer(2)) == msgspec.json.encode(answer(2))


def test_a_large_answer_keeps_the_chosen_machine():
    short = msgspec.json.decode(shortened(answer(1000)))
    assert short.pop("shortened") is True
    assert short == msgspec.to_builtins(answer(1)) | {"feasible": 1000}


def test_no_entry_is_larger_than_the_limit():
    placed = [
        Line(id=f"i{number}" * 50, machine="m", state="reserved", reserved_at=1.0, version=1)
        for number in range(10_000)
    ]
    reasons = {f"reason {number}" * 200: number for number in range(100)}
    for found in (
        answer(1, placed=placed),
        answer(1, missing_reasons=reasons),
        answer(1, refusals=[Refusal(filter="x" * 3000, reason="", machines=1)] * 1000),
    ):
        assert len(shortened(found)) <= ENTRY_BYTES_MAX


def test_large_entries_make_their_number_smaller():
    """The stream as a whole keeps to its bytes, and grows again when entries are small again."""
    log = DecisionLog(Names(), "s", 100_000, bytes_max=2**20)
    log.note(QUERY, ["i"], answer(0))
    (small,) = lengths(log)
    for _ in range(1000):
        log.note(QUERY, ["i"], answer(5))
    large = lengths(log)[-1]
    assert small * size(answer(0)) <= 2**20
    assert large * len(shortened(answer(5))) <= 1.01 * 2**20
    for _ in range(1000):
        log.note(QUERY, ["i"], answer(0))
    assert lengths(log)[-1] > 2 * large


def test_ids_count_as_bytes():
    log = DecisionLog(Names(), "s", 100_000, bytes_max=2**20)
    log.note(QUERY, [f"{number:0200}" for number in range(1000)], answer(0))
    assert lengths(log) == [5]
