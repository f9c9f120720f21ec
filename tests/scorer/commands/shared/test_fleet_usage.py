"""What a fleet file says of the usage by instance is read as a scorer would read it from Redis."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.commands.shared.fleet_file import InvalidFleet, read_fleet
from tests.rows import each_row
from tests.scorer.fleets import fleet, machine


def test_usage_of_instances_and_systems() -> None:
    """Amounts with suffixes, the time of the report by the machine's sample; a machine measured has a system."""
    offline = fleet(
        machine("a", usage={"cpu": 9}, age_s=10),
        machine("b", usage={"cpu": 9}, system={"memory": "2G"}),
        instances=[{"id": "i", "machine": "a", "usage": {"cpu": "500m"}, "usage_since_s": 600, "usage_age_s": 30}],
        now=10_000,
    )
    found = offline.snapshot.usages.find("a", "i")
    assert found is not None
    assert (found.recent, found.daily, found.at, found.since) == ({"cpu": 0.5}, {"cpu": 0.5}, 9_960.0, 9_360.0)
    systems = [offline.snapshot.usages.find(name, "") for name in "ab"]
    assert [one.recent for one in systems if one] == [{}, {"memory": 2e9}]
    assert not fleet(machine(usage={"cpu": 9})).snapshot.usages


@each_row(
    ("entry", "said"),
    [
        ({"usage": 3}, "instances[i].usage: expected an object"),
        ({"usage": {"tape": 3}}, "instances[i].usage: no resource 'tape'"),
        ({"usage": {"cpu": "much"}}, "instances[i].usage.cpu: "),
        ({"usage": {"cpu": [1]}}, "instances[i].usage.cpu: "),
        ({"usage": {"cpu": -1}}, "instances[i].usage.cpu: "),
        ({"usage": {"cpu": 1e300}}, "instances[i].usage.cpu: expected 0 to 1e+16"),
        ({"usage": {"cpu": 1}, "usage_age_s": "x"}, "instances[i].usage_age_s: expected a number, got text"),
        ({"usage": {"cpu": 1}, "usage_since_s": -1}, "instances[i].usage_since_s: expected a number of 0 or more"),
        ({"usage": {"cpu": 1}, "machine": "a\nb"}, "instances[i].machine: expected a machine's name"),
    ],
)
def test_what_cannot_be_usage_is_named(entry: dict[str, Any], said: str) -> None:
    """The instance and the field are in the message."""
    with pytest.raises(InvalidFleet) as error:
        read_fleet({"machines": [machine("m")], "instances": [{"id": "i", "machine": "m"} | entry]})
    assert str(error.value).startswith(said)


def test_a_machines_system_and_name_are_checked_too() -> None:
    """Amounts of resources; a name of one line."""
    with pytest.raises(InvalidFleet, match=r"^m\.system: no resource 'tape'"):
        read_fleet({"machines": [machine("m", system={"tape": 1})]})
    with pytest.raises(InvalidFleet, match="more than one line"):
        read_fleet({"machines": [machine("a\nb", usage={"cpu": 1})]})
