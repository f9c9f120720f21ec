"""The follower's copy of the ledger, kept by the changes that its own process makes."""

import re
import weakref

import msgspec
import pytest

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.reconcile import InventoryError, difference, read_inventory
from scorer.ledger.store.scripts import SCRIPTS, script_text
from tests.scorer.ranking.test_threads import Log

ONE = (1.0, *[0.0] * (len(RESOURCES) - 1))


class _Lost(Log):
    """A ledger that is read as a whole each time."""

    def pages(self, torn):
        return [[Instance(id="i", machine="m", state="confirmed", amounts=ONE)]]


def test_what_a_reload_replaces_is_let_go():
    """Also what is in a cycle, as rows with their view are: of five lost connections one or two views are left."""
    follower = Follower(_Lost([]))
    views = []
    for _ in range(5):
        follower.forget()
        follower.accept([0])
        view = follower.view
        view.instances["cycle"] = view
        views.append(weakref.ref(view))
        del view
    assert sum(view() is not None for view in views) <= 2


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


def test_difference_tells_added_changed_gone_and_same():
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


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "line 1"), ('[{"id": "a"', "not JSON"), ('{"id": "a"}', "machine"), ('{"machine": "m"}', "id"),
        ('{"id": "a", "machine": "m m"}', "machine"), ('{"id": "a", "machine": "m", "cpu": -1}', "cpu"),
        ('{"id": "a", "machine": "m", "cpu": 1e300}', "cpu"), ("3", "line 1"),
        ('{"id": "a", "machine": "m"}\n{"id": "a", "machine": "m"}', "line 2"),
    ],
)  # fmt: skip
def test_a_wrong_inventory_names_the_line(text, word):
    with pytest.raises(InventoryError, match=word):
        read_inventory(text)


def test_a_list_and_lines_say_the_same():
    lines = [line for line in INVENTORY.splitlines() if line]
    assert read_inventory("[" + ",".join(lines) + "]") == read_inventory(INVENTORY)
    assert msgspec.structs.asdict(read_inventory(INVENTORY)[-1])["ports"] == (1,)


MADE = re.compile(r"^local function (\w+)", re.MULTILINE)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_the_functions_it_uses(name):
    """Each function of a script is used after it was made, and no name in capitals is left but those of the server."""
    text = script_text(name)
    for found in MADE.finditer(text):
        assert re.search(rf"\b{found[1]}\b", text[found.end() :]), found[1]
    assert not re.search(r"\b(HEAD|EXPIRY|SWEEP_MAX|FORMAT|CLOCK|SCRIPT|QUERY|FIRST|TAIL)\b|--", text)


def test_functions_of_other_scripts_are_left_out():
    lease, release, reserve = (set(MADE.findall(script_text(name))) for name in ("lease", "release", "reserve"))
    assert "misfit" in reserve - release
    assert not lease
    assert "arrive" in set(MADE.findall(script_text("confirm"))) - reserve


def test_a_constant_is_replaced():
    text = script_text("confirm", CLOCK="{'7', '0'}", LEAVERS_MOST="3")
    assert "local time = {'7', '0'}" in text
    assert "> 3 then" in text
    assert "redis.call('TIME')" not in text
