"""What is known of each instance: its own usage, less what an overloaded machine could not give."""

import numpy as np
import pytest

from ops.replay.simulator.reports import Reports
from ops.replay.simulator.true_fleet import Fleet
from ops.replay.workload import Workload
from schemas.rpc.results import InstanceUsage
from tests.ops.replay.small_worlds import world


def known(fleet: Fleet, minute: int, instance: int, row: int = 0) -> InstanceUsage | None:
    """What a scorer knows of one instance at a minute."""
    return Reports(fleet).usages(minute).find(f"m{row}", f"i{instance}")


def placed(small: Workload, rows: list[int]) -> Fleet:
    """A fleet with all instances placed at their start."""
    fleet = Fleet(small)
    for instance, row in enumerate(rows):
        fleet.place(instance, row, int(small.start[instance]))
    return fleet


def test_each_instance_has_its_own_mean() -> None:
    """After an hour both means are what it used, from sixty reports."""
    fleet = placed(world([10.0, 10.0], [(2.0, 3.0, 0, 180), (2.0, 0.5, 0, 180)]), [0, 1])
    for instance, used in ((0, 3.0), (1, 0.5)):
        usage = known(fleet, 60, instance, row=instance)
        assert usage is not None
        assert (usage.count, usage.recent["cpu"], usage.daily["cpu"]) == (60, used, used)


def test_an_overloaded_machine_gives_each_its_part() -> None:
    """Ten cores for a demand of fifteen: two thirds each, and no more than the machine has in sum."""
    fleet = placed(world([10.0], [(2.0, 12.0, 0, 180), (2.0, 3.0, 0, 180)]), [0, 0])
    used = [usage.recent["cpu"] for n in (0, 1) if (usage := known(fleet, 30, n)) is not None]
    assert used == pytest.approx([8.0, 2.0])


def test_the_copying_of_a_move_is_the_systems() -> None:
    """What the source carries after a move belongs to no instance of it."""
    fleet = placed(world([10.0, 10.0], [(2.0, 3.0, 0, 180)]), [0])
    reports = Reports(fleet)
    reports.usages(60)
    fleet.move(0, 1, 60)
    fleet.copying(0, 0, 60, 30.0, 1.0)
    found = reports.usages(90)
    system, moved = found.find("m0", ""), found.find("m1", "i0")
    assert system is not None
    assert system.recent["cpu"] == pytest.approx(4.0 * -np.expm1(-1.0), rel=1e-3)
    assert moved is not None
    assert (moved.count, moved.recent["cpu"]) == (30, 3.0)


def test_what_has_ended_is_dropped() -> None:
    """A day after its last report, as by a stream worker."""
    fleet = placed(world([10.0], [(2.0, 3.0, 0, 30), (2.0, 3.0, 0, 1_500)], minutes=1_500), [0, 0])
    reports = Reports(fleet)
    assert reports.usages(1_440).find("m0", "i0") is not None
    later = reports.usages(1_490)
    assert later.find("m0", "i0") is None
    assert later.find("m0", "i1") is not None
