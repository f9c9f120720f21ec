"""The checker of histories names each kind of violation, and nothing in a history without one."""

import re
from collections.abc import Sequence

import pytest

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import LIVE, Amounts, Instance, Moving
from tests.support.history import Told, effect, judge, steps, told

CORES = 4.0
A_MOVE = Moving("m2", 1.0, 50.0, 77)


def one(version, state="reserved", name="a", **more):
    given = {"generation": 900, "machine": "m1", "expires_at": 40.0, "cores": 1.0, **more}
    amounts = Amounts([given.pop("cores"), *[0.0] * (len(RESOURCES) - 1)])
    return Instance(id=name, state=state, version=version, amounts=amounts, **given)


def said(step, record, **changes):
    moving = record.moving
    move = None if moving is None else (moving.to, moving.number)
    answer = Told(step, record.id, "", record.state, record.machine, record.generation, record.version, move)
    return answer._replace(**changes)


HISTORY = [
    one(1),
    one(2, name="b", generation=901, machine="m2", ports=(80,)),
    one(3, "confirmed"),
    one(4, "confirmed", cores=2.0),
    one(5, "confirmed", cores=2.0, moving=A_MOVE),
    one(6, "expired", name="b", generation=901, machine="m2", ports=(80,)),
    one(7, "confirmed", cores=2.0, machine="m2"),
    one(8, name="c", generation=902, ports=(80,)),
    one(9, "released", cores=2.0, machine="m2"),
]
CALLS = ["place", "place", "confirm", "update", "update", "", "confirm", "place", "release"]
SAID = [said(step, record) for step, record in zip(CALLS, HISTORY, strict=True) if step]


def verdict(history=HISTORY, answers=SAID, now_s=30.0, **more):
    """Judge with the ledger that the history ends with, unless another one is given."""
    live = {after.id: after for _, after in steps(history)}
    live = {name: record for name, record in live.items() if record.state in LIVE}
    return judge(history, answers, more.pop("live", live), (CORES,), now_s=now_s, **more)


def test_a_history_without_a_violation():
    """Every step of a life, a reservation that expires, a call without an answer, one repeated, one that found none."""
    more = [Told("release", "c", error="UNAVAILABLE"), said("confirm", HISTORY[2]), Told("place", "d")]
    found = verdict(answers=[*SAID, *more])
    assert found.faults == []
    assert (found.changes, found.acknowledged, found.fullest) == (9, 9, 0.75)
    assert [effect(before, after) for before, after in steps(HISTORY)] == CALLS


BOTH_MOVE = [*HISTORY[:4], one(5, name="d", machine="m2", cores=2.5), one(6, "confirmed", cores=2.0, moving=A_MOVE)]
CHANGED = [
    ("lost", "release a on m2.* change 9: the log ends with 8", HISTORY[:8], SAID),
    ("lost", "place c .*that change is d on m1", [*HISTORY[:7], one(8, name="d")], SAID[:-1]),
    ("lost", "place a on m9", HISTORY, [*SAID, said("place", HISTORY[0], machine="m9")]),
    ("lost", "generation 7,", HISTORY, [said("place", HISTORY[0], generation=7), *SAID]),
    ("lost", "a on m2, confirmed", HISTORY, [*SAID[:-1], said("release", HISTORY[8], state="confirmed")]),
    ("lost", "update a on m1", HISTORY, [*SAID, said("update", HISTORY[4], move=("m2", 78))]),
    ("doubled", "place a: asked for 1 times, done 2", [*HISTORY, one(10, generation=903)], SAID),
    ("doubled", "update a: asked for 1 times, done 2", [*HISTORY[:4], one(5, "confirmed")], SAID[:4]),
    ("doubled", "release a: asked for 0 times, done 1", HISTORY, SAID[:-1]),
    ("over", "change 2: m1 over its cpu", [one(1), one(2, name="b", cores=3.5)], []),
    ("over", "change 6: m2 over its cpu", BOTH_MOVE, []),
    ("over", "port 80 of m1 taken twice", [one(1, ports=(80,)), one(2, name="b", ports=(80,))], []),
    ("wrong", "change 2 is missing", [HISTORY[0], HISTORY[2]], []),
    ("wrong", "a began as confirmed", [one(1, "confirmed")], []),
    ("wrong", "a went from released to confirmed", [one(1), one(2, "released"), one(3, "confirmed")], []),
    ("wrong", "a has another generation", [one(1), one(2, "confirmed", generation=7)], []),
    ("wrong", "moving to m2 and came to m3", [*HISTORY[:5], one(6, "confirmed", machine="m3")], []),
    ("wrong", "elsewhere at once", [*HISTORY[:3], one(4, "confirmed", machine="m3", moving=A_MOVE)], []),
]


@pytest.mark.parametrize(("kind", "words", "history", "answers"), CHANGED, ids=[words for _, words, *_ in CHANGED])
def test_each_violation_is_named(kind, words, history, answers):
    faults = verdict(history, answers).faults
    assert re.search(words, faults[0])
    assert {fault.partition(":")[0] for fault in faults} == {kind}


def test_the_ledger_and_its_sums():
    """They are what the log adds up to, and what is due has ended."""
    last = HISTORY[7]
    assert verdict(live={}).faults == ["wrong: c: the log ends with change 8, the ledger has None"]
    assert verdict(live={"c": last, "b": HISTORY[1]}).wrong == ["b: the log ends with change None, the ledger has 2"]
    assert verdict(differences=["m1: cpu=2 is cpu=1"]).faults == ["wrong: the ledger's sums: m1: cpu=2 is cpu=1"]
    assert verdict(now_s=41.0).faults == ["wrong: c should have ended by itself"]
    assert verdict(HISTORY[:5], now_s=60.0).wrong[-1] == "a should have ended by itself"


def test_what_an_answer_says():
    class Answer:
        placed: Sequence[Instance] = ()
        id = "a"

    answer = Answer()
    assert told("place", answer, 5.0) == [Told("place", "a", at_s=5.0)]
    answer.placed = HISTORY[:2]
    assert told("place", answer) == SAID[:2]
    assert told("update", HISTORY[4]) == [SAID[4]]
