"""The instance report: the usage of each instance of a machine, sent as a part of some samples.

A sample is of ten seconds, a report usually of a minute. It is a field of samples, so that it needs no message of its
own: a reader that does not know the field ignores it. A report that is too long for one sample is divided into parts,
one a sample. All parts have the same ``at``; no instance is in two of them.

The means are over the report's interval, by resource in the units of `schemas.resources`. A resource that cannot be
measured for an instance is left out, never zero. ``system`` is the machine's usage without the listed instances.

A report has an entry for whatever an agent found on its machine. The ledger decides whether that is an instance: a
reader counts an entry only if the ledger has that id on that machine.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from schemas.resources import ALL, RESOURCES
from schemas.values.numbers import Amount, Epoch

PARTS_MAX = 64
ENTRIES_MAX = 512
"""Instances in one part."""
INSTANCE_ID_PATTERN = r"^[!-~]+(?!\s)$"
"""Printable ASCII without spaces."""

InstanceId = Annotated[str, Meta(min_length=1, max_length=253, pattern=INSTANCE_ID_PATTERN)]

_Means: Any = msgspec.defstruct(
    "_Means",
    [
        (one.name, Annotated[Amount | None, Meta(description=f"mean {one.name}, {one.unit}; absent: not known")], None)
        for one in ALL
    ],
    frozen=True,
    gc=False,
)


class InstanceMeans(_Means, msgspec.Struct, frozen=True, gc=False, omit_defaults=True):  # type: ignore[misc]
    """Mean usage of one instance over the report's interval, by resource."""


class InstanceReport(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The usage of the instances of one machine in one interval, or a part of it."""

    at: Annotated[Epoch, Meta(description="end of the interval; not after the sample's")]
    interval_s: Annotated[float, Meta(gt=0, le=7200, description="length of the interval")]
    part: Annotated[int, Meta(ge=1, le=PARTS_MAX, description="number of this part, from 1")] = 1
    parts: Annotated[int, Meta(ge=1, le=PARTS_MAX, description="parts of this report")] = 1
    system: Annotated[InstanceMeans | None, Meta(description="what belongs to no instance listed; in part 1")] = None
    entries: Annotated[
        dict[InstanceId, InstanceMeans], Meta(max_length=ENTRIES_MAX, description="means by instance id")
    ] = {}


means: Callable[[InstanceMeans], tuple[float | None, ...]] = attrgetter(*RESOURCES)
"""Return the mean of each resource, in the order of `schemas.resources`."""


def contradiction(report: InstanceReport, at: float) -> str:
    """Return the contradiction in a report of a sample that ends at ``at``; "" when there is none."""
    if report.part > report.parts:
        return f"part {report.part} of {report.parts} of the instances"
    if report.at > at:
        return f"the instances are of {report.at:.1f}, after the sample's end at {at:.1f}"
    return ""
