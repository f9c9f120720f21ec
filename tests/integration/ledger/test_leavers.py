"""Leavers in the ledger: written by the scripts, bounded, and the same to a scorer that starts."""

from schemas.names import Names
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.record.transition import Candidate, Change, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.wire import Wire


def reserve(ledger: Ledger, instance_id: str, machine: str, ttl_s: float = 300.0) -> None:
    """Hold one core on a machine."""
    record = instance_of(Request(id=instance_id, cpu=1.0), "", 0.0)
    (outcome,) = ledger.reserve([Wanted(record, ttl_s, [Candidate(machine, -1)])]).outcomes
    assert outcome.kind == "placed"


def run(ledger: Ledger, instance_id: str, machine: str) -> Instance:
    """Start an instance of one core."""
    reserve(ledger, instance_id, machine)
    record = ledger.confirm(instance_id).outcomes[0].instance
    assert record is not None
    return record


def known(follower: Follower) -> set[tuple[str, float, float, float]]:
    """Return machine, start, end and cpu of every leaver that a scorer has."""
    leavers = follower.view.leavers
    slots, numbers = leavers.all()
    names = list(follower.view.numbers)
    placed = leavers.take(slots, numbers)
    return {
        (names[number], placed.started_at[k], placed.records["ended_at"][k], placed.amounts[0, k])
        for k, number in enumerate(numbers.tolist())
    }


def test_who_starts_later_knows_who_left(wire: Wire, names: Names) -> None:
    """Released and moved instances are left behind where they ran; what was never confirmed leaves nothing."""
    ledger = Ledger(wire, names)
    following = Follower(ledger)
    following.load()
    ended, moving = run(ledger, "ended", "m1"), run(ledger, "moving", "m1")
    run(ledger, "stays", "m1")
    reserve(ledger, "given back", "m1")
    reserve(ledger, "run out", "m1", ttl_s=0.001)
    released = ledger.release("ended").outcomes[0].instance
    ledger.release("given back")
    ledger.expire()
    moved = ledger.update([Change(moving, copy_with(moving, labels={"a": "b"}), [Candidate("m2", -1)])])
    assert moved.outcomes[0].instance is not None
    assert released is not None
    following.poll()
    starting = Follower(ledger)
    starting.load()
    assert known(following) == known(starting)
    assert known(starting) == {
        ("m1", ended.started_at, released.ended_at, 1.0),
        ("m1", moving.started_at, moved.outcomes[0].instance.started_at, 1.0),
    }


def test_who_starts_later_knows_where_starts_failed(wire: Wire, names: Names) -> None:
    """Of reservations and of what ran; a repeated release counts once. What never ran left nothing in the windows."""
    ledger = Ledger(wire, names)
    following = Follower(ledger)
    following.load()
    reserve(ledger, "a", "m1")
    reserve(ledger, "b", "m1")
    run(ledger, "c", "m2")
    for name in ("a", "a", "b", "c"):
        ledger.release(name, failed=True)
    reserve(ledger, "a", "m1")
    ledger.release("a")
    following.poll()
    starting = Follower(ledger)
    starting.load()
    assert following.view.failures == starting.view.failures
    assert {machine: round(count, 2) for machine, (count, _) in starting.view.failures.items()} == {"m1": 2, "m2": 1}
    assert {machine for machine, *_ in known(starting)} == {"m2"}


def test_leavers_are_bounded(wire: Wire, names: Names) -> None:
    """The setting bounds their number; a repeated release leaves nothing twice."""
    ledger = Ledger(wire, names, leavers_most=2)
    for number in range(4):
        run(ledger, f"i{number}", "m1")
        ledger.release(f"i{number}")
        ledger.release(f"i{number}")
    assert [one.id for one in ledger.leavers()] == ["i2", "i3"]
    follower = Follower(ledger)
    follower.load()
    assert len(known(follower)) == 2


def test_what_ended_two_hours_ago_is_forgotten(wire: Wire, names: Names) -> None:
    """With each that leaves, those that no window shows are taken out."""
    clock = names.key("clock")
    ledger = Ledger(wire, names, time_source=f"{{redis.call('GET', '{clock}'), '0'}}")
    for number, at in enumerate((1_800_000_000, 1_800_007_000, 1_800_007_300)):
        wire.ask([("SET", clock, at)])
        run(ledger, f"i{number}", "m1")
        ledger.release(f"i{number}")
    assert [one.id for one in ledger.leavers()] == ["i1", "i2"]
