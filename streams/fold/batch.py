"""The messages of a partition, and a batch: the columns of samples that `streams.fold.fold.fold` takes.

Each refused message has a reason.
"""

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import (
    InstanceReport,
    MachineFacts,
    Message,
    Moments,
    Rejected,
    Sample,
    check_machine_id,
    decode,
    moments,
)
from schemas.values.hosts import host_key
from streams.fold.admission import OFFLINE, RECORD_TIME_MAX_S, Admission, check_record_time
from streams.fold.instance_usage import Applied
from streams.fold.ring import R, slot_of

_ABSENT = Moments(n=1, mean=0.0, m2=0.0, max=0.0, capacity=float("inf"))
"""Stands in for a resource that a sample leaves out; capacity infinity marks it."""
_FIGURES = ("n", "mean", "m2", "max", "capacity")
_TIMES = ("at", "boot", "seq", "interval_s")


@dataclass(frozen=True)
class Batch:
    """Samples as columns; K samples, R resources."""

    machines: list[str]
    at: NDArray[np.float64]
    slot: NDArray[np.int64]
    boot: NDArray[np.float64]
    seq: NDArray[np.float64]
    interval_s: NDArray[np.float64]
    recorded_at: NDArray[np.float64]
    """When the broker took the message, epoch s."""
    host: NDArray[np.uint64]
    """Key of the sending host (`schemas.values.hosts.host_key`); 0 where the message names none."""
    n: NDArray[np.float64]
    """[K, R]; 0 where the resource is left out, as for the four below."""
    mean: NDArray[np.float64]
    m2: NDArray[np.float64]
    max: NDArray[np.float64]
    capacity: NDArray[np.float64]
    """[K, R], NaN where left out."""
    classes: list[tuple[int, Sample]]
    """Index and sample, of samples that split their usage by priority class."""
    reports: list[tuple[int, InstanceReport]] = field(default_factory=list)
    """Index and report, of samples with usage by instance."""

    def __len__(self) -> int:
        return len(self.machines)

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> "Batch":
        index = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        place = {int(old): new for new, old in enumerate(index)}
        arrays = {name: value[index] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return Batch(
            machines=[self.machines[i] for i in index],
            classes=[(place[i], sample) for i, sample in self.classes if i in place],
            reports=[(place[i], report) for i, report in self.reports if i in place],
            **arrays,
        )


@dataclass(frozen=True)
class Refused:
    """A refused message: its position among the messages read, the reason, the details."""

    index: int
    reason: str
    detail: str
    ahead: tuple[str, float] | None = None
    """For a message from the future: the machine, and how far it is ahead of its record, s."""


def read_messages(
    raw: Sequence[bytes | None],
    recorded_at: Sequence[float],
    known: Container[str] = (),
    keys: Sequence[bytes | None] = (),
    admission: Admission = OFFLINE,
    latest: float = RECORD_TIME_MAX_S,
) -> tuple[list[Sample], list[int], dict[int, MachineFacts], list[Refused]]:
    """Decode and check messages; return samples and facts with their positions, and the refused messages.

    ``known`` are machines whose id need not be checked again; ``latest`` is the latest time a record may have.
    """
    samples: list[Sample] = []
    places: list[int] = []
    facts: dict[int, MachineFacts] = {}
    refused: list[Refused] = []
    check = admission.check
    for place, (value, time_s, key) in enumerate(zip(raw, recorded_at, keys or [None] * len(raw), strict=True)):
        try:
            if not 0 <= time_s <= latest:
                check_record_time(time_s, latest)
            message = decode(value)
            check(message, key, time_s)
            if message.machine not in known:
                check_machine_id(message.machine)
            if isinstance(message, Sample):
                samples.append(message)
                places.append(place)
            else:
                facts[place] = message
        except Rejected as error:
            ahead = _ahead(message, time_s) if error.reason == "future" else None
            refused.append(Refused(place, error.reason, error.detail, ahead))
    return samples, places, facts, refused


def _ahead(message: Message, time_s: float) -> tuple[str, float] | None:
    try:
        check_machine_id(message.machine)
    except Rejected:
        return None
    return message.machine, message.at - time_s


def to_batch(samples: Sequence[Sample], recorded_at: Sequence[float]) -> Batch:
    parts = [m if m is not None else _ABSENT for s in samples for m in moments(s)]
    n, mean, m2, largest, capacity = _columns(_FIGURES, parts).reshape(len(_FIGURES), len(samples), R)
    absent = np.isinf(capacity)
    n[absent] = 0
    capacity[absent] = np.nan
    at, boot, seq, interval_s = _columns(_TIMES, samples)
    return Batch(
        machines=[s.machine for s in samples],
        at=at,
        slot=slot_of(at),
        boot=boot,
        seq=seq,
        interval_s=interval_s,
        recorded_at=np.asarray(recorded_at, np.float64),
        host=np.array([host_key(s.host_id) for s in samples], np.uint64),
        n=n,
        mean=mean,
        m2=m2,
        max=largest,
        capacity=capacity,
        classes=[(index, s) for index, s in enumerate(samples) if s.classes],
        reports=[(index, s.instance_report) for index, s in enumerate(samples) if s.instance_report is not None],
    )


def _columns(names: tuple[str, ...], of: Sequence[Any]) -> NDArray[np.float64]:
    """Return fields of some values as columns, [names, K]."""
    flat = np.fromiter(chain.from_iterable(map(attrgetter(*names), of)), np.float64, len(of) * len(names))
    return np.ascontiguousarray(flat.reshape(-1, len(names)).T)


class Arrived(NamedTuple):
    """A message as it was read from the log."""

    offset: int
    value: bytes | None
    recorded_at: float
    """The record's time, epoch s: the broker's or the producer's; less than 0 when it has none."""
    key: bytes | None


@dataclass
class Outcome:
    """The outcome of folding some messages: every message is counted once in ``counts``."""

    counts: Counter[str] = field(default_factory=Counter)
    ahead: int = 0
    """Records refused for a time too far ahead of the worker's clock."""
    refused: list[tuple[Arrived, Refused]] = field(default_factory=list)
    usage: Applied = field(default_factory=Applied)
    """The outcome for the usage by instance in these messages."""
