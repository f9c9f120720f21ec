"""The messages on the samples topic, and the one function that decodes them.

A producer in any language may publish them: JSON, keyed by machine id, fields as below (JSON Schema beside this file).
Unknown fields are ignored, so a newer minor version is read by an older reader; another major version is refused.

Some samples have a part of an instance report: the usage of each instance of the machine, usually over a minute. It is
a field, so that it needs no message of its own. A report that is too long for one sample is divided into parts, one a
sample. All parts have the same ``at``; no instance is in two of them. The means are over the report's interval. A
resource that cannot be measured for an instance is left out, never zero. ``system`` is the machine's usage without the
listed instances. A report has an entry for whatever an agent found on its machine; a reader counts an entry only if the
ledger has that id on that machine.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from schemas.names import MACHINE_ID_BYTES_MAX, SLOT_S
from schemas.resources import ALL, RESOURCES
from schemas.values.numbers import Amount, Counter, Epoch
from schemas.values.read_json import read_or, reader

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


VERSION = 1
MESSAGE_BYTES_MAX = 16_384

WHY_MAX = 200
"""The longest text in `MachineFacts.lacks` and `interfaces`."""

_ID_PATTERN = "[!-~]+"
"""Printable ASCII without spaces. It is in the JSON Schema, and checked once for each new machine: as a pattern of the
type it would be checked for every sample."""

MachineId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MACHINE_ID_BYTES_MAX,
        description="the machine's name",
        extra_json_schema={"pattern": f"^{_ID_PATTERN}$"},
    ),
]
HostId = Annotated[
    str,
    Meta(
        max_length=64,
        description="the host that sends it: of two live hosts under one name the first is accepted",
        extra_json_schema={"pattern": "^[!-~]*$"},
    ),
]


class Moments(msgspec.Struct, frozen=True, gc=False):
    """The moments of one interval's readings of one resource: enough to merge mean, std and maximum exactly.

    ``m2`` is the sum of squared distances from the mean, so the population std is ``sqrt(m2 / n)``.
    """

    n: Annotated[int, Meta(ge=1, le=65_535, description="readings in the interval")]
    mean: Annotated[float, Meta(ge=0, le=1e16, description="mean usage in the resource's unit")]
    m2: Annotated[float, Meta(ge=0, le=1e34, description="sum of squared distances from the mean")]
    max: Annotated[float, Meta(ge=0, le=1e16, description="largest reading")]
    capacity: Annotated[float, Meta(gt=0, le=1e16, description="what the machine has, in the same unit")]


_UsageByResource: Any = msgspec.defstruct(
    "_UsageByResource", [(name, Amount, 0.0) for name in RESOURCES], frozen=True, gc=False
)
"""One field a resource, in the order of `schemas.resources`."""


class Usage(_UsageByResource, msgspec.Struct, frozen=True, gc=False, omit_defaults=True):  # type: ignore[misc]
    """Mean usage of a part of the machine (a priority class, an instance) over the interval, by resource."""


class _Interval(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    v: Annotated[int, Meta(description="major version of the format")]
    machine: MachineId
    boot: Annotated[Counter, Meta(description="start of this agent, whole epoch seconds")]
    seq: Annotated[Counter, Meta(description="number of the sample since that start")]
    at: Annotated[Epoch, Meta(description="end of the interval")]
    interval_s: Annotated[
        float,
        Meta(gt=0, le=3600, description="length of the interval", extra_json_schema={"minimum": SLOT_S}),
    ]


_Measured: Any = msgspec.defstruct(
    "_Measured",
    [
        (one.name, Annotated[Moments | None, Meta(description=f"{one.name}, {one.unit}: {one.measured}")], None)
        for one in ALL
    ],
    bases=(_Interval,),
    frozen=True,
    gc=False,
    kw_only=True,
)
"""The moments of each resource, in the order of `schemas.resources`; `moments` returns all of them."""


class Sample(
    _Measured,  # type: ignore[misc]
    msgspec.Struct,
    frozen=True,
    gc=False,
    tag="sample",
    omit_defaults=True,
    kw_only=True,
):
    """The load of a machine in one interval. A resource without a known capacity is left out, never zero."""

    classes: Annotated[dict[str, Usage] | None, Meta(description="usage by priority class")] = None
    instances: Annotated[dict[str, Usage] | None, Meta(description="usage by instance id; not read")] = None
    instance_report: Annotated[InstanceReport | None, Meta(description="usage by instance id, less often")] = None
    host_id: HostId = ""


class MachineFacts(msgspec.Struct, frozen=True, gc=False, tag="machine", omit_defaults=True, kw_only=True):
    """The facts of a machine, sent at start and every few minutes."""

    v: Annotated[int, Meta(description="major version of the format")]
    machine: MachineId
    boot: Counter
    at: Epoch
    capacity: Annotated[dict[str, Amount], Meta(description="capacity by resource name")] = {}
    labels: Annotated[dict[str, str], Meta(description="labels the agent was given")] = {}
    agent_version: str = ""
    host_id: HostId = ""
    lacks: Annotated[dict[str, str], Meta(description="by resource without some or all readings: why")] = {}
    interfaces: Annotated[
        dict[str, Annotated[str, Meta(max_length=WHY_MAX, pattern="^[ -~]*$")]],
        Meta(description="by what decided (kernel, page, settings, names): the network interfaces that count"),
    ] = {}


Message = Sample | MachineFacts


moments: Callable[[Sample], tuple[Moments | None, ...]] = attrgetter(*RESOURCES)
"""Return the moments of each resource in a sample, in the order of `schemas.resources`."""

usages: Callable[[Usage], tuple[float, ...]] = attrgetter(*RESOURCES)
"""Return the usage of each resource, in the order of `schemas.resources`."""


class Rejected(ValueError):
    """A message that cannot be used. ``reason`` is one of a small fixed set, for counters and the rejects topic."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class _Envelope(msgspec.Struct):
    """The version field alone, which distinguishes another version from a damaged message."""

    v: Any = None


_decode: Callable[[bytes], Message] = reader(Message)  # type: ignore[arg-type]
_encoder = msgspec.json.Encoder()
_MACHINE_ID = re.compile(_ID_PATTERN)


def interfaces_said(decided: Mapping[str, str]) -> dict[str, str]:
    """Return `MachineFacts.interfaces`: by rule the interfaces that count by it, cut and in printable ASCII.

    >>> interfaces_said({"eno2": "page", "eno1": "page", "übr0": "names"})
    {'page': 'eno1, eno2', 'names': '?br0'}
    """
    names = defaultdict[str, list[str]](list)
    for name in sorted(decided):
        names[decided[name]].append(name)
    return {by: re.sub("[^ -~]", "?", ", ".join(each))[:WHY_MAX] for by, each in names.items()}


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(raw: bytes | None) -> Message:
    """Return the message in ``raw``.

    Raises Rejected with reason ``empty``, ``too-long``, ``version``, ``no-resource``, ``malformed`` or ``impossible``.
    ``malformed``: not JSON, a wrong type or a value out of range. ``impossible``: a maximum below the mean, or a report
    of instances after the sample's end.
    """
    if not raw:
        raise Rejected("empty", "the message has no value")
    if len(raw) > MESSAGE_BYTES_MAX:
        raise Rejected("too-long", f"{len(raw)} bytes, at most {MESSAGE_BYTES_MAX}")
    try:
        message = _decode(raw)
    except msgspec.DecodeError as error:
        raise _refusal(raw, error) from None
    if message.v != VERSION:
        raise Rejected("version", f"v is {message.v}, this reader knows {VERSION}")
    if type(message) is Sample:
        _check_sample(message)
    return message


def check_machine_id(machine: str) -> None:
    """Refuse an id that is not printable ASCII without spaces; called once for each new machine.

    Raises Rejected with reason ``machine-id``.
    """
    if not _MACHINE_ID.fullmatch(machine):
        raise Rejected("machine-id", f"{machine!r} is not printable ASCII without spaces")


def _check_sample(sample: Sample) -> None:
    present = [found for found in moments(sample) if found is not None]
    if not present:
        raise Rejected("no-resource", f"none of {', '.join(RESOURCES)} is given")
    for found in present:
        if found.max < found.mean * (1 - 1e-9):
            raise Rejected("impossible", f"max {found.max} is below mean {found.mean}")
    report, at = sample.instance_report, sample.at
    if report is not None and report.part > report.parts:
        raise Rejected("impossible", f"part {report.part} of {report.parts} of the instances")
    if report is not None and report.at > at:
        raise Rejected("impossible", f"the instances are of {report.at:.1f}, after the sample's end at {at:.1f}")


def _refusal(raw: bytes, error: Exception) -> Rejected:
    """Return the error of a message that cannot be decoded: another version, or the wrong field."""
    version = read_or(raw, _Envelope, _Envelope(VERSION)).v
    if isinstance(version, int) and version != VERSION:
        return Rejected("version", f"v is {version}, this reader knows {VERSION}")
    return Rejected("malformed", str(error))
