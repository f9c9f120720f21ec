"""A move in a record: the amounts of each machine, and what the record becomes."""

from __future__ import annotations

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, arrival, as_held, copy_with, read_record, with_arrival
from scorer.ledger.record.moving import CHANGED_BY_A_MOVE, Arrival, Moving
from scorer.ledger.record.rules import Rules

ONE = Instance(
    id="a", machine="m1", state="confirmed", amounts=Request(cpu=1.0, memory=2e9).given_amounts(), labels={"app": "x"}
)
NEW = Arrival(amounts=Request(cpu=4.0).given_amounts(), maxmemory=5.0, rules=Rules(selector="disk=ssd"))


def test_each_machine_has_its_own_amounts() -> None:
    """Where it is those it had, where it moves to the new ones; labels are one."""
    moves = copy_with(ONE, moving=Moving("m2", 1.0, 61.0, 7, NEW))
    assert as_held(moves, "m1") is moves
    there = as_held(moves, "m2")
    assert (there.machine, there.state, there.amounts, there.labels) == ("m2", "reserved", NEW.amounts, ONE.labels)
    assert arrival(with_arrival(moves)) == NEW
    assert with_arrival(ONE) is ONE
    assert as_held(copy_with(ONE, moving=Moving("m2", 1.0, 61.0)), "m2").amounts == ONE.amounts


def test_a_move_is_read_from_a_record() -> None:
    """The tail of what it becomes has fields that a move does not change: they are passed over."""
    raw = (
        b'{"id":"a","machine":"m1","state":"confirmed","amounts":{"cpu":1000000},"moving":{"to":"m2",'
        b'"since":1,"until":61,"number":7,"new":{"id":"a","amounts":{"cpu":4000000},"labels":{"app":"x"},"counts":[],'
        b'"maxmemory":5,"rules":{"selector":"disk=ssd"}}}}'
    )
    read = read_record(raw)
    assert read.moving is not None
    assert read.moving.new == NEW
    assert set(CHANGED_BY_A_MOVE) < set(Instance.__struct_fields__)
