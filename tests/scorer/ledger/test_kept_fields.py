"""Fields that the ledger keeps of a request: each is declared once and is in every place that says or compares it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.rpc.parameters import Update
from schemas.rpc.request import CHANGEABLE_FIELDS, KEPT_FIELDS, Request
from scorer.ledger.record.as_request import as_request
from scorer.ledger.record.instance import read_record, record_tail
from scorer.ledger.store.reconcile import difference
from scorer.ledger.view.view import instance_of
from scorer.planning.wanted.differences import as_wanted, changes, fixed, restoring
from scorer.rpc.methods.changes import changed

SAMPLES: dict[type, Any] = {str: "x", int: 3, tuple: (7,), dict: {"a": "b"}}
PLAIN = Request(id="a", cpu=1.0)


@pytest.mark.parametrize("name", KEPT_FIELDS)
def test_a_kept_field_is_wherever_a_record_is_written_read_and_compared(name: str) -> None:
    """A request's value is in its record, comes back as a request, and differs from an inventory without it."""
    value = SAMPLES[type(getattr(PLAIN, name))]
    asked = msgspec.structs.replace(PLAIN, **{name: value})
    record = instance_of(asked, "m", 0.0)
    stored = read_record(b'{"machine":"m","state":"confirmed",' + record_tail(record) + b"}")
    assert getattr(stored, name) == value
    assert getattr(as_request(stored), name) == value
    (found,) = difference({"a": stored}, [instance_of(PLAIN, "m", 0.0)]).changed
    assert found[2].startswith(f"{name} ")
    assert fixed(stored, PLAIN) if name not in CHANGEABLE_FIELDS else not fixed(stored, PLAIN)


@pytest.mark.parametrize("name", CHANGEABLE_FIELDS)
def test_a_changeable_field_is_a_parameter_of_an_update(name: str) -> None:
    """What is wanted becomes the parameters of an update, which makes the record so; the way back restores it."""
    old = instance_of(PLAIN, "m", 0.0)
    value = SAMPLES[type(getattr(old, name))]
    new = as_wanted(old, msgspec.structs.replace(PLAIN, **{name: value}))
    assert changes(old, new) == {name: value}
    assert changed(old, Update(id="a", **changes(old, new))) == new
    assert changed(new, Update(id="a", **restoring(old, [name]))) == old
