"""What the golden files of a partition's state hold."""

import numpy as np

from schemas.messages.sample import InstanceMeans, InstanceReport, Moments, Usage, encode
from streams.fold.batch import Arrived
from streams.fold.instance_usage import InstanceUsage
from streams.fold.peaks import Zone
from streams.fold.ring import HOURS, S
from streams.fold.table import Table
from streams.state.checkpoint import decode_vitals, restore_minutes, restore_place
from streams.state.manifest import Manifest
from streams.state.partition import Partition
from tests.streams.batches import START, sample

POSITION = START // 10 % S
HOUR = START // 3600 % HOURS


def state():
    """Two machines, one with its host's id; two slots of one position, one of them a ring later; hours with peaks."""
    partition = Partition(0, Table((300, 900, 3600), Zone()))
    disk = Moments(10, 0.25, 0.5, 0.75, 1.0)
    samples = [
        sample("db1.example.org", 0, seq=3, boot=7, disk=disk, host_id="a"),
        sample("db2", 0, nic=Moments(9, 125.5, 2.0, 130.0, 1.25e9)),
        sample("db1.example.org", 900, seq=4, boot=7, disk=disk, host_id="a"),
        sample("db2", 720, seq=9, disk=disk, classes={"prod": Usage(cpu=0.75, memory=64.0)}),
    ]
    for number, one in enumerate(samples):
        partition.fold([Arrived(number, encode(one), one.at + 0.05, one.machine.encode())])
    return partition


def decode_ring(vitals, positions, hours):
    ring = decode_vitals(vitals)
    for place, raw in [*positions.items(), *hours.items()]:
        restore_place(ring, raw, place)
    restore_minutes(ring)
    return ring


def usage():
    """Two machines, three instances and a system; nic and disk are known of one."""
    found = InstanceUsage()
    entries = {"a": InstanceMeans(cpu=1.0, memory=1e9), "b": InstanceMeans(cpu=2.0)}
    more = {"c": InstanceMeans(cpu=1.0, memory=2.0, nic=3.0, disk=0.25)}
    system = InstanceMeans(cpu=0.5)
    for machine, report in (
        ("m", InstanceReport(at=START + 60.0, interval_s=60.0, entries=entries)),
        ("n", InstanceReport(at=START + 65.0, interval_s=60.0, entries=more, system=system)),
        ("m", InstanceReport(at=START + 120.0, interval_s=60.0, entries=entries)),
    ):
        found.apply([(machine, report)], Zone().day_numbers)
    return found


def manifest():
    """Checksums that are the numbers of their places."""
    return Manifest(
        positions=np.arange(S, dtype=np.uint32), hours=np.arange(HOURS, dtype=np.uint32), vitals=3,
        facts_sum=2**40, facts_count=9, topic_id="t0pic", offset=123_456_789_012, written_at=1_790_000_000.25,
    )  # fmt: skip
