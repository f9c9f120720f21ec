"""Instances on simulated machines add to the load, are reported, and never use more than their machine has."""

import numpy as np
import pytest

from schemas.messages.instance_report import InstanceReport
from schemas.resources import CPU, RESOURCES
from streams.load_generator.source.instances import PART_LEAST, PART_MOST, SWING, Instances, Reports, Running
from streams.load_generator.source.source import Columns, Machines

NAMES = ["m1", "m2", "m3"]
CAPACITY = np.full((len(RESOURCES), 3), 10.0)
MACHINES = Machines(names=NAMES, labels=[{}] * 3, capacity=CAPACITY)
ROWS = np.array([2, 0])
"""The places of the block: m3, then m1."""
AT = np.array([1000.0, 1003.0])


def running(name: str, machine: str = "m1", cpu: float = 4.0, started_at: float = 0.0) -> Running:
    """An instance that asked for cores."""
    return Running(name, machine, started_at, {"cpu": cpu})


def added(
    reports: Reports, number: int, *found: Running, mean: float = 1.0
) -> tuple[Columns, dict[int, InstanceReport]]:
    """What comes out of an interval in which each machine used ``mean`` of everything, and 2 at most."""
    shape = (len(RESOURCES), 2)
    plain = Columns(np.full(shape, 10), np.full(shape, mean), np.full(shape, 0.5), np.full(shape, max(mean, 2.0)))
    return reports.added(Instances(MACHINES, found), CAPACITY, number, ROWS, AT, plain)


def test_an_instance_uses_a_part_of_what_it_asked_where_it_is() -> None:
    """Added to the mean and the maximum of its machine alone; the report has it and, as the system, the rest."""
    columns, reports = added(Reports(6, 10.0), 12, running("a"), running("elsewhere", "m9"))
    used = columns.mean[CPU] - 1.0
    assert used[0] == 0.0
    assert 4 * PART_LEAST * (1 - SWING) <= used[1] <= 4 * PART_MOST * (1 + SWING)
    assert columns.max[CPU].tolist() == [2.0, pytest.approx(2.0 + used[1])]
    assert (columns.mean[1:] == 1.0).all()
    assert columns.m2.tolist() == np.full(columns.m2.shape, 0.5).tolist()
    assert list(reports) == [1]
    report = reports[1]
    assert (report.at, report.interval_s, list(report.entries)) == (1003.0, 60.0, ["a"])
    assert report.entries["a"].cpu == pytest.approx(used[1])
    assert report.system is not None
    assert report.system.cpu == 1.0


def test_a_machine_uses_no_more_than_it_has() -> None:
    """Each of its instances gets less, and what is reported adds up to the machine's load."""
    columns, reports = added(Reports(1, 10.0), 1, *(running(name, cpu=9.0) for name in "abcd"), mean=3.0)
    assert columns.mean[CPU].tolist() == [3.0, pytest.approx(10.0)]
    assert columns.max[CPU, 1] == pytest.approx(10.0)
    assert sum(one.cpu for one in reports[1].entries.values()) == pytest.approx(7.0)


def test_it_runs_from_its_start_and_is_reported_at_the_pace_of_reports() -> None:
    """Not before, and nothing of a machine without any; every sixth interval."""
    assert (added(Reports(6, 10.0), 12, running("later", started_at=1003.5))[0].mean == 1.0).all()
    paced = Reports(6, 10.0)
    assert [bool(added(paced, number, running("a"))[1]) for number in range(6, 13)] == [True] + [False] * 5 + [True]
    assert not added(Reports(6, 10.0), 6)[1]


def test_many_instances_are_reported_in_parts() -> None:
    """One part a sample; together they have each instance once."""
    found = [running(f"instance-{number}", cpu=0.01) for number in range(400)]
    paced, parts = Reports(6, 10.0), list[InstanceReport]()
    for number in range(6, 12):
        parts += added(paced, number, *found)[1].values()
    assert len(parts) > 1
    assert [one.part for one in parts] == list(range(1, len(parts) + 1))
    assert {one.parts for one in parts} == {len(parts)}
    names = [name for one in parts for name in one.entries]
    assert sorted(names) == sorted(one.id for one in found)
