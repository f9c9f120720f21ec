"""What becomes of the moves that were proposed, row by row."""

import msgspec
import pytest

from schemas.messages.proposal import MoveProposal, read_proposal, write_proposal
from scorer.ledger.record.instance import Instance, Moving
from scorer.planning.balance.proposals import OUTCOMES, Term

NOW_S = 1_000.0
PROPOSAL = MoveProposal(
    id="7-900-0", fence=7, at=900.0, expires_at=1_500.0, instance="i", generation=2, source="a", target="b", gain=0.1
)
ROLE = msgspec.structs.replace(
    PROPOSAL, v=2, kind="role", swap_role_with="other", role="replica", reason="its machine is hot"
)
OTHER = {"other": Instance(id="other", machine="b", state="confirmed", amounts=())}


def changed(**fields):
    return write_proposal(msgspec.structs.replace(PROPOSAL, **fields))


def instance(**fields):
    one = Instance(id="i", machine="a", state="confirmed", amounts=(), generation=2)
    return {"i": msgspec.structs.replace(one, **fields)}


def settled(waiting, taken, ledger, memory, now_s=NOW_S):
    return memory.settle(waiting, taken, ledger, now_s, 600.0)


@pytest.mark.parametrize(
    ("raw", "ledger", "outcome"),
    [
        pytest.param(changed(), instance(), "", id="open"),
        pytest.param(changed(), instance(machine="b"), "done", id="it is there"),
        pytest.param(changed(fence=6), instance(machine="b"), "done", id="it is there, by an older planner"),
        pytest.param(changed(fence=6), instance(), "overtaken", id="older fence"),
        pytest.param(changed(), instance(generation=3), "overtaken", id="another generation"),
        pytest.param(changed(), {}, "overtaken", id="ended"),
        pytest.param(changed(), instance(machine="c"), "overtaken", id="moved elsewhere"),
        pytest.param(changed(expires_at=NOW_S), instance(), "expired", id="expired"),
        pytest.param(changed(), instance(moving=Moving("c", 0.0, 0.0)), "overtaken", id="moving elsewhere"),
        pytest.param(write_proposal(ROLE), instance(role="master") | OTHER, "", id="a role, open"),
        pytest.param(write_proposal(ROLE), instance(role="replica") | OTHER, "done", id="a role, handed over"),
        pytest.param(write_proposal(ROLE), instance(role="master"), "overtaken", id="a role, the other has ended"),
        pytest.param(write_proposal(ROLE), instance(machine="c") | OTHER, "overtaken", id="a role, moved elsewhere"),
        pytest.param(write_proposal(ROLE), instance(machine="b") | OTHER, "overtaken", id="a role, moved to the other"),
        pytest.param(
            changed(kind="role", swap_role_with="other"), instance() | OTHER, "malformed", id="a role in version 1"
        ),
        pytest.param(b"{", instance(), "malformed", id="not JSON"),
        pytest.param(changed(v=2), instance(), "malformed", id="of a newer version"),
        pytest.param(b"[" * 100_000, instance(), "malformed", id="too deep"),
        pytest.param(b'{"id":"\xff"}', instance(), "malformed", id="not UTF-8"),
    ],
)
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_proposal(raw, ledger, outcome, is_taken):
    """One that ended is withdrawn from either list; one that is open is pending."""
    found = settled([] if is_taken else [raw], [raw] if is_taken else [], ledger, Term(7, 60.0))
    assert found.outcomes == ((outcome,) if outcome else ())
    assert found.withdrawn == ((raw,) if outcome else ())
    is_role = raw == write_proposal(ROLE)
    assert (found.pending, found.handing) == (
        {} if outcome or is_role else {"i": "b"},
        {} if outcome or not is_role else {"i": "other"},
    )
    assert {*found.outcomes} <= {*OUTCOMES}


def test_what_is_not_acknowledged_in_time_is_delivered_again():
    """Counted from when it was first seen taken, and anew from the next delivery."""
    memory, raw = Term(7, 60.0), changed()
    assert settled([raw], [], instance(), memory, NOW_S - 100).returned == ()
    assert settled([], [raw], instance(), memory, NOW_S).returned == ()
    assert settled([], [raw], instance(), memory, NOW_S + 59).returned == ()
    found = settled([], [raw], instance(), memory, NOW_S + 60)
    ((before, after),) = found.returned
    assert (before, read_proposal(after)) == (raw, msgspec.structs.replace(PROPOSAL, attempt=2))
    assert (found.outcomes, found.pending) == (("redelivered",), {"i": "b"})
    assert settled([], [after], instance(), memory, NOW_S + 61).returned == ()
    assert settled([], [after], instance(), memory, NOW_S + 121).returned != ()


def test_what_is_moving_is_left_alone():
    """The ledger has the move: neither expired nor delivered again, and no pending move for the plan."""
    memory, raw = Term(7, 60.0), changed()
    ledger = instance(moving=Moving("b", 0.0, 0.0))
    for now_s in (NOW_S, NOW_S + 61, NOW_S + 10_000):
        found = settled([], [raw], ledger, memory, now_s)
        assert (found.returned, found.withdrawn, found.pending, found.outcomes) == ((), (), {}, ())
    assert settled([], [], ledger, memory).outcomes == ("done",)


def test_what_was_acknowledged_is_done_or_declined():
    """Gone from the lists: the ledger says which; an instance that was declined rests for a while."""
    master = instance(role="master") | OTHER
    for raw, before, ledger, outcome in (
        (changed(), instance(), instance(machine="b"), "done"),
        (changed(), instance(), instance(), "declined"),
        (changed(), instance(), {}, "overtaken"),
        (write_proposal(ROLE), master, instance(role="replica") | OTHER, "done"),
        (write_proposal(ROLE), master, master, "declined"),
    ):
        memory = Term(7, 60.0)
        settled([raw], [], before, memory)
        found = settled([], [], ledger, memory, NOW_S + 1)
        assert found.outcomes == (outcome,)
        assert list(memory.resting) == (["i"] if outcome == "declined" else [])
        assert settled([], [], ledger, memory, NOW_S + 602).outcomes == ()
        assert memory.resting == {}


def test_what_was_withdrawn_is_counted_once():
    memory = Term(7, 60.0)
    settled([changed()], [], instance(), memory)
    assert settled([changed()], [], instance(generation=3), memory).outcomes == ("overtaken",)
    assert settled([], [], instance(generation=3), memory).outcomes == ()
