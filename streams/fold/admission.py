"""Admission: the checks of a message, beyond its format, before it is folded. Pure.

A record has a key and a time besides its value. The time is the broker's (LogAppendTime) or its producer's
(CreateTime), so it is checked first:

    record-time   before 1970, absent, or more than ``RECORD_AHEAD_S`` ahead of the worker's clock
    key           the key is not the machine's id: the record may be in a partition of another machine
    future        ``at`` is ahead of the record's time: it would hold its machine's windows in the future
    boot          ``boot`` is ahead of the record's time: it would win over every message of the real agent
    interval      the interval is shorter than a slot
    readings      more readings than the interval can hold: it would win over every real sample of its slot
    excess        more is used than the capacity allows: a counter leapt, or the capacity is too low
    machines      the partition holds as many machines as it may, and this one is new
    name-taken    another live host has the machine's name (`streams.fold.refusals`)

The worker's clock decides nothing else. Reading the same records again, hours later, gives the same decisions.

A key is no protection against an attacker: a client that may write to the topic may write any key. Use Kafka's ACLs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import Message, Rejected, Sample
from schemas.names import SLOT_S

FUTURE_TOLERANCE_S = 10.0
"""How far ``at`` and ``boot`` may be ahead of the record's time."""

RECORD_AHEAD_S = 300.0
"""How far a record's time may be ahead of the worker's clock."""

RECORD_TIME_MAX_S = 1e11
"""The latest record time when no clock is compared: the latest `schemas.messages.sample.Epoch`."""

READINGS_HZ_MAX = 10.0
INSTANCES_MAX = 200_000
MACHINES_MAX = 10_000
"""The most machines of a partition by default: 0.3 GB of a worker's memory."""

REASONS = (
    "boot", "empty", "excess", "future", "impossible", "interval", "key", "machine-id", "machines", "malformed",
    "name-taken", "no-resource", "readings", "record-time", "too-long", "version",
)  # fmt: skip
"""Every reason for refusing a message: those of `schemas.messages.sample.decode`, and those of this module."""


@dataclass(frozen=True)
class Admission:
    """The limits of one worker; the fields are settings of `streams.worker.settings`."""

    keyed: bool = True
    """False for messages of a file, which have no key."""
    readings_hz_max: float = READINGS_HZ_MAX
    machines_max: int = MACHINES_MAX
    """The most machines of a partition."""
    instances_max: int = INSTANCES_MAX
    """The most pairs of machine and instance whose usage a partition holds."""

    def check(self, message: Message, key: bytes | None, recorded_at: float) -> None:
        """Refuse a message by its key and times; raises Rejected with a reason of this module's table."""
        latest = recorded_at + FUTURE_TOLERANCE_S
        if self.keyed and (key is None or key != message.machine.encode()):
            raise Rejected("key", f"the key is {(key or b'')[:64]!r}, the machine {message.machine[:64]!r}")
        if message.at > latest:
            ahead = message.at - recorded_at
            raise Rejected("future", f"at is {ahead:.1f} s ahead of the record, at most {FUTURE_TOLERANCE_S:.0f}")
        if message.boot > latest:
            ahead = message.boot - recorded_at
            raise Rejected("boot", f"boot is {ahead:.0f} s ahead of the record, at most {FUTURE_TOLERANCE_S:.0f}")
        if type(message) is Sample and message.interval_s < SLOT_S:
            raise Rejected("interval", f"interval_s is {message.interval_s}, at least {SLOT_S}")

    def readings_max(self, interval_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many readings samples of these intervals may have, [K]."""
        return np.floor(interval_s * self.readings_hz_max) + 1


OFFLINE = Admission(keyed=False, machines_max=2**40)
"""For the messages of a file."""


def check_record_time(recorded_at: float, latest: float) -> None:
    """Refuse a record whose time is before 1970 or after ``latest``; raises Rejected with ``record-time``."""
    if not 0 <= recorded_at <= latest:
        raise Rejected("record-time", f"the record's time is {recorded_at:.0f}, expected 0 to {latest:.0f}")
