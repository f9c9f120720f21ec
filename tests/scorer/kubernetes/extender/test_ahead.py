"""A ranking that was made beforehand is the one that would be made now, whatever has happened between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.rpc.request import Request
from scorer.kubernetes.extender import ahead as module
from scorer.kubernetes.extender.ahead import IDLE_S, Ahead
from scorer.kubernetes.extender.pending import LASTS_S, Pending
from scorer.kubernetes.pods_request import NAME
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.ranking.machines.kept import Kept
from scorer.ranking.rank import rank
from tests.scorer.kubernetes.extender.test_extender import NOW_S, inputs, request

STEPS = ("ask", "ask again", "prepare", "bound", "ended", "wait", "wait long", "windows")


def of_kind(kind: int, uid: str) -> Request:
    """Return the request of one pod of a ReplicaSet."""
    return request(uid, cpu=(0.5, 4.0)[kind], labels={NAME: uid, "app": f"app-{kind}"})


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1), st.integers(0, 3)), min_size=4, max_size=40))
def test_it_changes_no_answer(steps: list[tuple[str, int, int]]) -> None:
    """Every ranking is that of a fleet which keeps nothing, with the pods that count by a plain model."""
    fleet, pending, ahead, now_s = inputs(), Pending(), Ahead(), NOW_S
    model: dict[str, tuple[float, Instance]] = {}
    for number, (step, kind, which) in enumerate(steps):
        placed = list(fleet.ledger.instances.values())
        if step in ("ask", "ask again", "prepare"):  # what the ledger has is not on its way any more
            model = {uid: one for uid, one in model.items() if uid not in fleet.ledger.instances}
        if step in ("ask", "ask again"):
            uid = list(model)[which] if step == "ask again" and which < len(model) else f"u{number}"
            asked = of_kind(kind, uid)
            model.pop(uid, None)
            live = {one: instance for one, (until_s, instance) in model.items() if until_s >= now_s}
            overlay = Overlay(fleet.ledger, [uid])
            for instance in live.values():
                overlay.propose(instance)
            plain = rank(asked, replace(fleet, now_s=now_s, kept=Kept(), overlay=overlay))
            over = pending.over(fleet.ledger, uid, now_s)
            found = ahead.rank(asked, replace(fleet, now_s=now_s, overlay=over))
            np.testing.assert_array_equal(found.feasible, plain.feasible)
            np.testing.assert_allclose(found.total, plain.total, atol=1e-9)
            best = instance_of(asked, found.machines.roster.names[int(found.total.argmax())], now_s)
            pending.note(best, now_s)
            model[uid] = (np.ceil((now_s + LASTS_S) / 0.25) * 0.25, best)
        elif step == "prepare":
            ahead.prepare(replace(fleet, now_s=now_s, overlay=pending.over(fleet.ledger, "", now_s)))
        elif step == "bound" and which < len(model):
            bound = list(model.values())[which][1]
            fleet.ledger.apply(msgspec.structs.replace(bound, state="confirmed", version=number))
        elif step == "ended" and which < len(placed):
            fleet.ledger.apply(msgspec.structs.replace(placed[which], state="released", version=number))
        elif step == "windows":
            fleet = replace(
                inputs(load={f"n{place}": 0.08 * (place + kind) for place in range(8)}), ledger=fleet.ledger
            )
        elif step.startswith("wait"):
            now_s += 0.3 if step == "wait" else 2.2


A, B, C = (of_kind(0, uid) for uid in "abc")
ROWS: list[tuple[str, list[Request], bool, float, int]] = [
    # name, pods asked about before, whether one was bound since, seconds until the next, rankings made by its question
    ("the third of a ReplicaSet", [A, B], True, 0.01, 0),
    ("the second: more are not expected", [B], True, 0.01, 1),
    ("a pod asked about twice is one", [B, B], True, 0.01, 1),
    ("filter and prioritize of a pod", [C], False, 0.01, 0),
    ("another kind", [of_kind(1, "a"), of_kind(1, "b")], True, 0.01, 1),
    ("after a while", [A, B], True, 0.3, 1),
]


@pytest.mark.parametrize(
    ("before", "bound", "later_s", "made"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_is_made_beforehand(
    before: list[Request], bound: bool, later_s: float, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question after it makes no ranking where the last two pods were like its own, or nothing has changed."""
    calls: list[Any] = []
    monkeypatch.setattr(module, "rank", lambda asked, of: calls.append(asked) or rank(asked, of))
    fleet, ahead = inputs(), Ahead()
    for asked in before:
        ahead.rank(asked, fleet)
    if bound:
        fleet.ledger.apply(instance_of(before[-1], "n1", NOW_S))
    ahead.prepare(fleet)
    calls.clear()
    ahead.rank(C, replace(fleet, now_s=NOW_S + later_s))
    assert len(calls) == made


def test_nothing_is_made_for_a_scheduler_that_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows come each second for ever; rankings end soon after the last pod."""
    calls: list[Any] = []
    monkeypatch.setattr(module, "rank", lambda asked, of: calls.append(asked) or rank(asked, of))
    fleet, ahead = inputs(), Ahead()
    for uid in "ab":
        ahead.rank(of_kind(0, uid), fleet)
    for later_s, wanted in ((IDLE_S - 0.5, 1), (IDLE_S + 0.5, 0)):
        calls.clear()
        ahead.prepare(replace(fleet, now_s=NOW_S + later_s))
        assert len(calls) == wanted


def test_what_fails_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each sample of the fleet would end in the same error, for as long as pods come."""
    calls: list[Any] = []
    fleet, ahead = inputs(), Ahead()
    for asked in (A, B):
        ahead.rank(asked, fleet)
    fleet.ledger.apply(instance_of(B, "n1", NOW_S))
    with monkeypatch.context() as broken:
        broken.setattr(module, "rank", lambda asked, of: calls.append(asked) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ahead.prepare(fleet)
        ahead.prepare(fleet)
    assert len(calls) == 1
    np.testing.assert_array_equal(ahead.rank(C, fleet).total, rank(C, fleet).total)
