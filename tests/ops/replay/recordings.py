"""Small recordings of a live fleet, as the recorder writes them."""

import msgspec
import numpy as np

from ops.record.entry import Entry, Facts, Figures, pack
from ops.record.folder import Folder
from schemas.resources import CPU, RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.instance import copy_with, record_tail
from scorer.ledger.view.view import instance_of

ORIGIN_S = 1_700_000_040.0 // 3600 * 3600
"""The beginning of an hour."""


def record(number, minute, machine, state="confirmed", **asked):
    at = ORIGIN_S + 60 * minute
    made = instance_of(Request(**({"id": f"i{number}", "cpu": 2.0} | asked)), machine, at)
    changed = {"state": state, "reserved_at": at, "started_at": at if state != "reserved" else 0.0}
    return copy_with(made, generation=number + 1, version=number + 1, **changed)


def raw(instance):
    head = {
        name: getattr(instance, name)
        for name in ("version", "generation", "state", "machine", "reserved_at", "started_at", "expires_at", "ended_at")
    }
    return msgspec.json.encode(head)[:-1] + b"," + record_tail(instance) + b"}"


def cpu(rows, minutes, values):
    """Figures of CPU over the minutes that begin so many minutes after the origin."""
    table = np.full((len(RESOURCES), len(rows)), np.nan, np.float32)
    table[CPU] = values
    until = ORIGIN_S + 60.0 * (np.array(minutes) + 1)
    return Figures(np.array(rows, np.int64), until, np.full(len(rows), 60.0), table)


def state(minute, machines, instances=(), **more):
    return Entry(
        at=ORIGIN_S + 60 * minute,
        version="1",
        resources=list(RESOURCES),
        full=True,
        facts={name: Facts({RESOURCES[CPU]: 16.0}, {"rack": f"rack of {name}"}) for name in machines},
        operator=more.pop("operator", {}),
        machines=list(machines),
        instances=[raw(one) for one in instances],
        **more,
    )


def change(minute, *instances, **more):
    return Entry(at=ORIGIN_S + 60 * minute, instances=[raw(one) for one in instances], **more)


def ended(instance, minute, kind="released"):
    return copy_with(instance, state=kind, ended_at=ORIGIN_S + 60 * minute, version=instance.version + 100)


def write(path, *entries):
    """A recording of these entries; a first one begins a file."""
    folder = Folder(path, 2**26)
    folder.take()
    for entry in entries:
        if entry.full:
            folder.close()
        folder.write(entry)
    folder.release()
    return path


def load(minutes, values):
    """Packed load of the machines in the order of the state: a list of values by minute for each."""
    rows = [row for row, each in enumerate(values) for _ in each]
    return pack(cpu(rows, [*minutes] * len(values), [value for each in values for value in each]))
