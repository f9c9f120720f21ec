"""The live instances as columns by slot."""

from __future__ import annotations

import numpy as np

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import LedgerView


def instance(name: str, limits: tuple[float, ...] = ()) -> Instance:
    """Return a record."""
    return Instance(id=name, machine="m", state="confirmed", amounts=(0.0,) * len(RESOURCES), limits=limits)


def test_a_slot_shows_what_its_own_instance_declares() -> None:
    """Also beyond the columns' first length, and in a slot that another instance had before."""
    rest = (-1.0,) * (len(RESOURCES) - 1)
    view = LedgerView(instance(f"i{number}", (float(number), *rest) if number % 2 else ()) for number in range(600))
    view.forget("i1")
    view.apply(instance("next"))
    found = {name: view.take(np.array([view.slot_of(name)]), np.array([0])).limits[0, 0] for name in view.instances}
    odd = {f"i{number}": float(number) for number in range(3, 600, 2)}
    assert {name: limit for name, limit in found.items() if not np.isnan(limit)} == odd
