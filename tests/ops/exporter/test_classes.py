"""The figures by class: those of the sums that a decision compares, and none where all classes are one sum."""

from pathlib import Path

import msgspec
import pytest

from ops.exporter.state import State
from scorer.client import MachineRow
from scorer.commands.machines.machine_table import page
from scorer.commands.shared.fleet_file import read_fleet
from scorer.ranking.profiles.catalogue import load_profiles, read_profile
from scorer.rpc.methods.listings import machines
from tests.ops.exporter.test_families import at, of_fleet, of_machines

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
BY_CLASS = read_profile(EXAMPLES / "classes.toml")


def seen(by_class=True):
    offline = read_fleet(msgspec.json.decode((EXAMPLES / "classes.json").read_bytes()))
    profile = BY_CLASS if by_class else load_profiles().choose()
    return State(offline.snapshot, offline.ledger, profile, offline.now_s)


def of(found, metric, **labels):
    return at(found[metric], resource="cpu", **labels) * 16


def test_the_fleet_has_what_each_class_may_have_was_promised_and_uses():
    found = of_fleet(seen())
    room, promised, used = (f"windward_fleet_class_{name}_ratio" for name in ("room", "promised", "used"))
    assert [2 * of(found, promised, **{"class": name}) for name in ("prod", "mid", "batch", "free")] == [16, 0, 8, 2]
    assert 2 * of(found, used, **{"class": "prod"}) == pytest.approx(8)
    assert 2 * of(found, room, **{"class": "prod"}) == 32
    assert 2 * of(found, room, **{"class": "batch"}) == pytest.approx(7.6 + 2.6)


def test_a_machine_has_what_is_reclaimable():
    state = seen()
    found = of_machines(state)
    name = "windward_machine_reclaimable_ratio"
    assert of(found, name, machine="calm", **{"class": "batch"}) == pytest.approx(7.6, abs=0.01)
    rows = msgspec.json.decode(msgspec.json.encode(machines({}, state).machines))
    for row in rows:
        for one in ("mid", "batch"):
            most = row["classes"][one]["cpu"]["most"]
            assert of(found, name, machine=row["machine"], **{"class": one}) == pytest.approx(most, abs=0.01)
    assert rows[0]["classes"]["free"]["cpu"]["counted"] == 6.0


def test_with_one_sum_there_is_none():
    state = seen(by_class=False)
    assert not [name for name in {**of_fleet(state), **of_machines(state)} if "class" in name or "reclaim" in name]
    answer = machines({}, state)
    assert msgspec.json.decode(msgspec.json.encode(answer.machines))[0]["classes"] == {}


def test_the_page_of_a_machine_shows_the_sums():
    """``windward machines show`` has a line for each class and resource, and none where all classes are one sum."""
    state = seen()
    answer = machines({"names": ["busy"]}, state)
    row = msgspec.json.decode(msgspec.json.encode(answer.machines[0]), type=MachineRow)
    assert "free   cpu        0.50       2.00   6.00     2.60" in page(row)
    assert "at most" not in page(msgspec.structs.replace(row, classes={}))
