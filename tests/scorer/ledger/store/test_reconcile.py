"""An inventory against the ledger."""

from __future__ import annotations

import msgspec
import pytest

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.store.reconcile import InventoryError, difference, read_inventory
from tests.rows import each_row

ONE = (1.0, *[0.0] * (len(RESOURCES) - 1))
LEDGER = {
    one.id: one
    for one in (
        Instance(id="same", machine="m1", state="confirmed", amounts=ONE, request="d"),
        Instance(id="moved", machine="m1", state="confirmed", amounts=ONE),
        Instance(id="grown", machine="m1", state="confirmed", amounts=ONE),
        Instance(id="held", machine="m1", state="reserved", amounts=ONE),
        Instance(id="coming", machine="m1", state="reserved", amounts=ONE),
        Instance(id="dead", machine="m1", state="confirmed", amounts=ONE),
    )
}
INVENTORY = """
{"id": "same", "machine": "m1", "cpu": 1}
{"id": "moved", "machine": "m2", "cpu": 1}
{"id": "grown", "machine": "m1", "cpu": "1500m"}
{"id": "held", "machine": "m1", "cpu": 1}
{"id": "new", "machine": "m3", "memory": "1G", "ports": [1]}
"""


def test_difference_tells_added_changed_gone_and_same() -> None:
    """Each instance is in one of four groups; a reservation not yet there is left to its expiry."""
    diff = difference(LEDGER, read_inventory(INVENTORY))
    assert [one.id for one in diff.added] == ["new"]
    assert {old.id: what for old, _, what in diff.changed} == {
        "moved": "machine 'm1' is 'm2'",
        "grown": f"amounts {ONE} is {(1.5, *ONE[1:])}",
        "held": "reserved is confirmed",
    }
    assert [one.id for one in diff.gone] == ["dead"]
    assert diff.same == 1
    everything = difference(LEDGER, read_inventory(INVENTORY), reservations=True)
    assert [one.id for one in everything.gone] == ["coming", "dead"]


@each_row(
    ("text", "word"),
    [
        ("{", "line 1"), ('[{"id": "a"', "not JSON"), ('{"id": "a"}', "machine"), ('{"machine": "m"}', "id"),
        ('{"id": "a", "machine": "m m"}', "machine"), ('{"id": "a", "machine": "m", "cpu": -1}', "cpu"),
        ('{"id": "a", "machine": "m", "cpu": 1e300}', "cpu"), ("3", "line 1"),
        ('{"id": "a", "machine": "m"}\n{"id": "a", "machine": "m"}', "line 2"),
    ],
)  # fmt: skip
def test_a_wrong_inventory_names_the_line(text: str, word: str) -> None:
    """Nothing is imported from a file with a mistake; the message says where it is."""
    with pytest.raises(InventoryError, match=word):
        read_inventory(text)


def test_a_list_and_lines_say_the_same() -> None:
    """JSON lines and one JSON list are read alike."""
    lines = [line for line in INVENTORY.splitlines() if line]
    assert read_inventory("[" + ",".join(lines) + "]") == read_inventory(INVENTORY)
    assert msgspec.structs.asdict(read_inventory(INVENTORY)[-1])["ports"] == (1,)
