"""A copy of the view: the same instances in the same columns, which later changes of the other leave alone."""

from __future__ import annotations

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.snapshot.roster import Roster


def instance(name: str, machine: str, cpu: float = 1.0) -> Instance:
    """A running instance."""
    request = Request(id=name, cpu=cpu, cluster="c", labels={"app": name})
    return copy_with(instance_of(request, machine, 100.0), state="confirmed", started_at=100.0)


def shown(view: LedgerView) -> tuple[object, ...]:
    """What a ranking reads of a view."""
    placed = Residents(view, Roster(("m1", "m2", "m3"))).placed()
    seated = sorted(zip(placed.rows.tolist(), placed.amounts[0].tolist(), strict=True))
    held = {machine: sorted(one.id for one in view.held_on(machine)) for machine in ("m1", "m2", "m3")}
    leavers = view.leavers.all()[0].tolist()
    cluster = sorted(view.holders(frozenset([("cluster", "c")])))
    return held, cluster, seated, len(view), view.machine_names, leavers


def test_changes_of_either_leave_the_other_alone() -> None:
    """Placed, moved and ended instances, slots used again, and leavers."""
    view = LedgerView([instance(f"i{n}", f"m{1 + n % 2}") for n in range(6)])
    before, copy = shown(view), view.copy()
    assert shown(copy) == before
    assert copy.changes_since(copy.position) == []
    assert copy.changes_since(copy.position - 1) is None, "it remembers no changes"
    view.apply(copy_with(view.instances["i0"], state="released", ended_at=200.0))
    view.apply(instance("new", "m3", 5.0))
    view.apply(copy_with(view.instances["i1"], machine="m3", started_at=300.0))
    after = shown(view)
    assert shown(copy) == before != after
    copy.apply(copy_with(copy.instances["i2"], state="released", ended_at=400.0))
    copy.apply(instance("other", "m1", 9.0))
    assert shown(view) == after
