"""What a request said of its machines, in the record of its instance."""

from __future__ import annotations

import msgspec
import pytest

from schemas.rpc.request import Request, read_request
from scorer.ledger.record.as_request import as_request
from scorer.ledger.record.instance import Instance, read_record, record_tail
from scorer.ledger.record.rules import as_fields, rules_of
from scorer.ledger.store.reconcile import difference
from scorer.ledger.view.view import instance_of

FIRST = b'{"machine":"m","state":"reserved",'
ASKED = {
    "selector": {"selector": "disk=ssd"},
    "affinity": {"affinity": [{"instances": {"app": "a"}, "topology": "rack"}]},
    "anti_affinity": {"anti_affinity": [{"instances": {"app": 'a"\\'}}]},
    "tolerations": {"tolerations": [{"key": "gpu"}, {"effect": "avoid", "value": ""}]},
    "prefer": {"prefer": [{"selector": "rack=r1", "weight": 2}]},
}


def stored(**asked: object) -> Instance:
    """Return the instance of a request as it is read from its record."""
    return read_record(FIRST + record_tail(instance_of(read_request({"id": "a", "cpu": 1, **asked}), "m", 0.0)) + b"}")


@pytest.mark.parametrize(
    "asked", [*ASKED.values(), {name: value for one in ASKED.values() for name, value in one.items()}]
)
def test_the_request_of_an_instance_has_its_rules(asked: dict[str, object]) -> None:
    """They are those of its first request, as JSON says them."""
    first, again = read_request({"id": "a", "cpu": 1, **asked}), as_request(stored(**asked))
    for name in as_fields(rules_of(first)):
        assert msgspec.to_builtins(getattr(again, name)) == msgspec.to_builtins(getattr(first, name)), name


def test_a_request_without_rules_leaves_none_in_the_record() -> None:
    """Nothing is stored then."""
    assert b"rules" not in record_tail(instance_of(Request(id="a", cpu=1.0), "m", 0.0))
    assert stored().rules is None
    assert as_request(stored()) == Request(id="a", cpu=1.0)


def test_rules_of_a_newer_release_are_read() -> None:
    """A field that is not known is passed over, inside a rule, too."""
    text = b'"rules":{"selector":"a","affinity":[{"instances":{"b":"c"},"newer":1}],"newer":{}}}'
    rules = read_record(FIRST + b'"id":"a","amounts":{},' + text).rules
    assert rules is not None
    assert (rules.selector, rules.affinity[0].instances) == ("a", {"b": "c"})


@pytest.mark.parametrize(
    ("listed", "what"),
    [({}, None), (ASKED["selector"], None), (ASKED["affinity"], "rules differ")],
    ids=["says nothing", "the same", "others"],
)
def test_an_inventory_that_says_no_rules_leaves_them(listed: dict[str, object], what: str | None) -> None:
    """What it does say is compared."""
    old = msgspec.structs.replace(stored(**ASKED["selector"]), state="confirmed")
    found = difference({"a": old}, [stored(**listed)])
    assert [words for _, _, words in found.changed] == ([what] if what else [])
