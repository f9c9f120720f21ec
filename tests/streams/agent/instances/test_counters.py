"""Means between two moments: what is not known stays unknown, what went back is said."""

import pytest

from schemas.messages.sample import InstanceMeans
from streams.agent.collectors.disk import DiskLine
from streams.agent.instances.counters import NO_PROCESS, BusiestDisk, Counters, busiest_disk, means_of, together

DISK = BusiestDisk("8:0", 0.5, 1000)
A, B = (10, 100), (11, 200)
ROWS = [
    # name, before, now, means over 10 s
    ("a group's CPU", {"cpu_s": {NO_PROCESS: 5.0}}, {"cpu_s": {NO_PROCESS: 25.0}}, {"cpu": 2.0}),
    ("CPU of processes", {"cpu_s": {A: 5.0}}, {"cpu_s": {A: 6.0}}, {"cpu": 0.1}),
    ("a process that began", {"cpu_s": {A: 5.0}}, {"cpu_s": {A: 5.0, B: 3.0}}, {"cpu": 0.3}),
    ("a process that ended", {"cpu_s": {A: 5.0, B: 9.0}}, {"cpu_s": {A: 6.0}}, {"cpu": 0.1}),
    ("an id used again", {"cpu_s": {A: 50.0}}, {"cpu_s": {(10, 300): 1.0}}, {"cpu": 0.1}),
    ("CPU not known before", {}, {"cpu_s": {NO_PROCESS: 25.0}}, {}),
    ("memory is that of now", {"memory": 1.0}, {"memory": 3.0}, {"memory": 3.0}),
    ("memory gone", {"memory": 1.0}, {}, {}),
    ("the busier direction", {"net": (0, 0)}, {"net": (100, 250)}, {"nic": 25.0}),
    ("a disk by its bytes", {"io": {"8:0": 100}}, {"io": {"8:0": 300}}, {"disk": 0.1}),
    ("a disk first touched", {"io": {}}, {"io": {"8:0": 1000}}, {"disk": 0.5}),
    ("a disk torn off before", {"io": {"8:0": None}}, {"io": {"8:0": 300}}, {}),
    ("a disk torn off now", {"io": {"8:0": 100}}, {"io": {"8:0": None}}, {}),
    ("torn within a word before", {"io": {"8:0": 100, "": None}}, {"io": {"8:0": 300}}, {}),
    ("torn within a word now", {"io": {"8:0": 100}}, {"io": {"8:0": 300, "": None}}, {}),
    ("a disk that is gone", {"io": {"8:0": 100}}, {"io": {}}, {}),
    ("another disk", {"io": {"8:1": 0}}, {"io": {"8:1": 500}}, {"disk": 0.0}),
    ("more than the disk moved", {"io": {"8:0": 0}}, {"io": {"8:0": 5000}}, {"disk": 0.5}),
]


@pytest.mark.parametrize(("name", "before", "now", "means"), ROWS)
def test_means(name, before, now, means):
    """By resource; what the row does not say is None. The rows are made, by the states of `Counters`."""
    assert means_of(Counters(**before), Counters(**now), 10.0, DISK) == (InstanceMeans(**means), False), name


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("CPU", {"cpu_s": {NO_PROCESS: 5.0}}, {"cpu_s": {NO_PROCESS: 1.0}}),
        ("a process's CPU", {"cpu_s": {A: 5.0}}, {"cpu_s": {A: 1.0}}),
        ("traffic", {"net": (9, 9)}, {"net": (9, 1)}),
        ("disk", {"io": {"8:0": 100}}, {"io": {"8:0": 50}}),
        # page_counter.c: a counter that is uncharged once too often is 2^64 less some pages
        ("memory of 2^64 bytes", {}, {"memory": 2.0**64 - 8192}),
        ("CPU that leaps", {"cpu_s": {NO_PROCESS: 5.0}}, {"cpu_s": {NO_PROCESS: 9e9}}),
        ("traffic that leaps", {"net": (9, 9)}, {"net": (2**63, 9)}),
    ],
)
def test_a_counter_that_went_back_is_said(name, before, now):
    """It is never a negative mean, nor a mean of what was counted since."""
    found, went_back = means_of(Counters(**before), Counters(**now), 10.0, DISK)
    assert (found, went_back) == (InstanceMeans(), True)


WHOLE = {"cpu_s": {NO_PROCESS: 5.0}, "memory": 7.0, "io": {"8:0": 100}}
PARTS = [
    # name, what differs in the second of two parts, what differs in their sum
    ("both whole", {}, {}),
    ("CPU that is not known", {"cpu_s": None}, {"cpu_s": None}),
    ("memory that is not known", {"memory": None}, {"memory": None}),
    ("a disk that is torn off", {"io": {"8:0": None}}, {"io": {"8:0": None}}),
    ("torn within a word", {"io": {"8:0": 100, "": None}}, {"io": {"8:0": 200, "": None}}),
    ("no controller of disks", {"io": None}, {"io": {"8:0": 100}}),
]


@pytest.mark.parametrize(("name", "second", "sum_"), PARTS)
def test_what_a_part_does_not_know_is_not_known(name, second, sum_):
    """Neither less than it is now, nor all of it in the next interval. Made, by the table of units.py."""
    both = {"cpu_s": {NO_PROCESS: 10.0}, "memory": 14.0, "io": {"8:0": 200}}
    for order in (1, -1):
        parts = [Counters(**WHOLE), Counters(**(WHOLE | second))][::order]
        assert together(parts) == Counters(**(both | sum_)), name


def _disk(moved, busy_ms):
    return DiskLine("sda", "8:0", moved, busy_ms)


def test_a_counter_that_went_back_costs_its_own_figure():
    """The CPU of an instance is known, though its traffic was reset."""
    before, now = Counters({NO_PROCESS: 1.0}, 7.0, {"8:0": 0}, (9, 9)), Counters({NO_PROCESS: 3.0}, 7.0, {}, (9, 1))
    assert means_of(before, now, 10.0, DISK) == (InstanceMeans(cpu=0.2, memory=7.0, disk=0.0), True)


def test_an_instance_seen_first_has_memory_alone():
    assert means_of(None, Counters({NO_PROCESS: 9.0}, 7.0, {"8:0": 5}, (1, 1)), 10.0, DISK) == (
        InstanceMeans(memory=7.0),
        False,
    )


def test_the_busiest_disk():
    """By its share of time, at most 1; a disk seen once, or counters that went back or leapt, are none."""
    before = {"8:0": _disk(0, 0), "8:16": _disk(50, 1000)}
    now = {"8:0": _disk(500, 2000), "8:16": _disk(60, 9000), "8:32": _disk(0, 99_000)}
    assert busiest_disk(before, now, 10.0) == BusiestDisk("8:16", 0.8, 10)
    assert busiest_disk(before, now, 7.5) == BusiestDisk("8:16", 1.0, 10)
    assert busiest_disk({}, now, 10.0) is None
    assert busiest_disk(now, before, 10.0) is None
    assert busiest_disk(before, now | {"8:0": _disk(500, 2**64 - 1)}, 10.0) is None
    assert busiest_disk({"8:0": _disk(0, 2**32 - 5)}, {"8:0": _disk(7, 995)}, 10.0) == BusiestDisk("8:0", 0.1, 7)
