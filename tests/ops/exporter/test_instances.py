"""What a page says of instances: sums by machine, reports that stopped, and single ones where they are asked for."""

import pytest

from ops.exporter import fleet
from ops.exporter.exposition import page
from ops.exporter.machines import MachineFamilies
from ops.exporter.settings import ExporterSettings
from ops.exporter.state import State
from scorer.ledger.record.instance import Moving, copy_with
from scorer.ranking.profiles.catalogue import load_profiles
from tests.ops.exporter.test_families import at, names_in, read
from tests.scorer.fleets import fleet as offline_fleet
from tests.scorer.fleets import machine

NOW_S = 1_700_000_000.0


def shown(offline, **selection):
    state = State(offline.snapshot, offline.ledger, load_profiles().choose(), offline.now_s)
    chosen = ExporterSettings(probe={"cpu": "1"}, **selection)
    return read(page([*fleet.families(state, chosen), *MachineFamilies(chosen).families(state)]))


def reporting(*more, age_s=0.0):
    """Two machines of 10 cores; on `a` there are two instances and half a core of the system's, on `b` one."""
    return offline_fleet(
        machine("a", usage={"cpu": 5, "memory": 50}, system={"cpu": 0.5}, age_s=age_s),
        machine("b", usage={"cpu": 5, "memory": 50}, system={"cpu": 1}),
        machine("none", usage={"cpu": 5, "memory": 50}),
        instances=[
            {"id": 'one"', "machine": "a", "cpu": 2, "usage": {"cpu": 3, "memory": 10}},
            {"id": "two", "machine": "a", "cpu": 2, "usage": {"cpu": 1}},
            {"id": "three", "machine": "b", "cpu": 2, "usage": {"cpu": 4}},
            {"id": "new", "machine": "b", "cpu": 2},
            *more,
        ],
    )


def test_the_sums_of_instances_and_systems():
    """Of allocatable, by machine and resource; nothing for a machine that reports none."""
    found = shown(reporting())
    usage, system = found["windward_machine_instances_usage_ratio"], found["windward_machine_system_usage_ratio"]
    assert at(usage, machine="a", resource="cpu") == pytest.approx(0.4)
    assert at(usage, machine="a", resource="memory") == pytest.approx(0.1)
    assert at(system, machine="a", resource="cpu") == pytest.approx(0.05)
    assert names_in(found, "windward_machine_instances_usage_ratio") == {"a", "b"}
    assert at(found["windward_instances_measured"]) == 3
    assert at(found["windward_fleet_machines_without_reports"]) == 0
    assert at(found["windward_machine_last_instance_report_timestamp_seconds"], machine="a") == NOW_S
    assert "windward_instance_usage_ratio" not in found


def test_single_instances_are_shown_as_many_as_are_asked_for():
    found = shown(reporting(), top_instances=2)["windward_instance_usage_ratio"]
    assert {dict(labels)["id"] for labels in found} == {"three", 'one"'}
    assert at(found, machine="b", id="three", resource="cpu") == pytest.approx(0.4)
    assert len(shown(reporting(), top_instances=100)["windward_instance_usage_ratio"]) == 4


def test_an_instance_is_shown_where_it_moves_to_once_it_is_measured_there():
    """It is reported there before its move is confirmed; it was there before, too, when it moves back."""
    offline = reporting()
    moving = Moving("b", offline.now_s - 5, offline.now_s + 600)
    offline.ledger.apply(copy_with(offline.ledger.instances["three"], machine="a", moving=moving))
    found = shown(offline, top_instances=9)["windward_instance_usage_ratio"]
    assert at(found, machine="b", id="three", resource="cpu") == pytest.approx(0.4)
    assert {dict(labels)["id"] for labels in found} == {'one"', "two", "three"}


def test_what_is_stale_has_no_load():
    found = shown(reporting(age_s=900.0), top_instances=9)
    assert names_in(found, "windward_machine_instances_usage_ratio") == {"b"}
    assert {dict(labels)["machine"] for labels in found["windward_instance_usage_ratio"]} == {"b"}
    assert at(found["windward_machine_last_instance_report_timestamp_seconds"], machine="a") == NOW_S - 900


@pytest.mark.parametrize(("late_s", "count"), [(299.0, 0), (301.0, 1), (86_000.0, 1)])
def test_reports_that_stopped_are_counted_while_samples_go_on(late_s, count):
    """Machines with instances alone: one that lost its last instance has nothing to report."""
    offline = reporting()
    columns = offline.snapshot.usages.columns
    rows = columns.index.rows(offline.snapshot.roster.systems[:1])
    columns.at[rows] -= late_s
    assert at(shown(offline)["windward_fleet_machines_without_reports"]) == count
    for name in ('one"', "two"):
        offline.ledger.forget(name)
    assert at(shown(offline)["windward_fleet_machines_without_reports"]) == 0


def test_a_fleet_without_reports_says_so():
    """Zero measured, none late, no series of machines."""
    found = shown(offline_fleet(machine("a", usage={"cpu": 5}), instances=[{"id": "i", "machine": "a", "cpu": 1}]))
    assert at(found["windward_instances_measured"]) == 0
    assert at(found["windward_fleet_machines_without_reports"]) == 0
    assert "windward_machine_instances_usage_ratio" not in found
