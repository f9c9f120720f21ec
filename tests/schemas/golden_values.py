"""What the golden files of messages and tables hold."""

import msgspec
import numpy as np

from schemas.messages.sample import InstanceMeans, InstanceReport, MachineFacts, Moments, Sample, Usage
from schemas.rpc.envelope import Error, Query, Reply
from schemas.tables.window_table import Header, encode_table

RESOURCES = ("cpu", "memory", "nic", "disk")
HOST = "8bfbab46c1906f9b96e503ee8a9a8ecb"
_OF = {"v": 1, "machine": "db1.example.org", "boot": 1_789_990_000, "interval_s": 10.0}
_CPU = Moments(10, 3.5, 2.5, 4.25, 64.0)

REPORTS = [
    Sample(
        **_OF,
        seq=8,
        at=1_790_000_013.25,
        cpu=_CPU,
        instance_report=InstanceReport(
            at=1_790_000_013.25,
            interval_s=60.0,
            parts=2,
            system=InstanceMeans(cpu=0.5, memory=2.0**30),
            entries={
                "redis-7001": InstanceMeans(cpu=1.25, memory=2.0**32, nic=125_000.5, disk=0.125),
                "redis@7002": InstanceMeans(cpu=0.0),
            },
        ),
    ),
    Sample(
        **_OF,
        seq=9,
        at=1_790_000_023.25,
        cpu=_CPU,
        instance_report=InstanceReport(
            at=1_790_000_013.25, interval_s=60.0, part=2, parts=2, entries={"proxy-1": InstanceMeans(memory=1024.0)}
        ),
    ),
]
SAMPLES = [
    Sample(
        **_OF,
        seq=7,
        at=1_790_000_003.25,
        cpu=_CPU,
        memory=Moments(10, 2.0**36, 1e6, 2.0**36 + 1000, 2.0**37),
        nic=Moments(9, 125_000.5, 0.0, 125_000.5, 1.25e9),
        disk=Moments(10, 0.25, 0.125, 0.75, 1.0),
        classes={"prod": Usage(cpu=0.75, memory=1024.0, disk=0.125), "batch": Usage(cpu=0.25)},
        instances={"redis-7001": Usage(0.5, 512.0, 10.0)},
        host_id=HOST,
    ),
    Sample(v=1, machine="m", boot=0, seq=0, at=0.0, interval_s=60.0, memory=Moments(1, 0.0, 0.0, 0.0, 1.0)),
    *REPORTS,
]
FACTS = MachineFacts(
    v=1,
    machine="db1.example.org",
    boot=1_789_990_000,
    at=1_790_000_000.5,
    capacity={"cpu": 64.0, "memory": 2.0**37, "nic": 1.25e9, "disk": 1.0},
    labels={"zone": "a", "rack": "r7"},
    agent_version="0.1.0",
    host_id=HOST,
)
QUERIES = [
    Query(
        id="q1", method="place", deadline=1_790_000_000.5, params=msgspec.Raw(b'{"id":"db-1","cpu":2,"memory":"10G"}')
    ),
    Query(id="q2", method="health"),
]
REPLIES = [
    Reply(id="q1", ok=True, result=msgspec.Raw(b'{"machine":"m1"}')),
    Reply(id="q2", ok=False, error=Error(code="UNAVAILABLE", message="no data", retryable=True)),
]

BASE = 1_790_000_000_250
MACHINES = ["db1.example.org", "db2", "m-3"]
WINDOWS_S = (300, 900)
KINDS = {
    "at": ("f8", ()),
    "skew": ("f4", ()),
    "end": ("f8", ()),
    "boot": ("f8", ()),
    "interval_s": ("f4", ()),
    "capacity": ("f8", (4,)),
    "mean": ("f8", (2, 4)),
    "std": ("f4", (2, 4)),
    "max": ("f4", (2, 4)),
    "percentile": ("f4", (2, 4, 4)),
    "filled": ("u2", (2, 4)),
    "coverage": ("f4", (2, 4)),
    "peak_today": ("f4", (4,)),
    "peak_yesterday": ("f4", (4,)),
    "peak_today_s": ("f4", (4,)),
    "peak_yesterday_s": ("f4", (4,)),
    "peak_day": ("f8", ()),
    "peak_since": ("f8", ()),
    "class_prod": ("f4", (2, 4)),
    "version": ("i8", ()),
}
"""The columns of the golden table: dtype, and the axes before the machines'."""


def column(name):
    """Return a column of the golden table: numbers that grow by a quarter from its place; the last cell is NaN."""
    kind, axes = KINDS[name]
    shape = (*axes, len(MACHINES))
    values = (list(KINDS).index(name) * 1000 + np.arange(np.prod(shape)) / 4).reshape(shape).astype(kind)
    if kind[0] == "f":
        values[..., -1] = np.nan
    return values


def header(**more):
    fields = {
        "machines": 3, "windows_s": WINDOWS_S, "partition": 5, "offset": 123_456_789_012, "topic_id": "t0pic",
        "facts": 4, "written_at": 1_790_000_000.25, "base": BASE, "resources": RESOURCES, "columns": [],
    }  # fmt: skip
    return Header(**(fields | more))


def table():
    return encode_table(header(), {name: column(name) for name in KINDS}, "\n".join(MACHINES).encode())


def changes():
    """Return changes of the golden table: of its last machine, and of one more."""
    columns = {name: column(name)[..., :2] for name in KINDS} | {"row": np.array([2, 3], np.uint32)}
    return encode_table(header(machines=2), columns, b"m-3\nm-4")
