"""The manifest of a partition: checksums of its stored values, by which a lost or changed value is detected. Pure.

Every write of a partition has one, in the hash with the state's offset. It has a checksum of each value; 0 stands for a
value without content, which may be absent. It has the offset and the time of its write, as the hash has: a state
without its manifest is lost. ``resume`` is the offset of the last base: the log is read from there on.

Layout (little endian): crc32 of all that follows, version as one byte, then `_HEAD`, the topic's id, and the checksums
of the positions and hours as uint32.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streams.fold.ring import HOURS, S

VERSION = 1
_SUM = struct.Struct("<IB")
_HEAD = struct.Struct("<qqdIQIHHH")
"""Offset, that to resume from, time of the write, checksum of the vitals, sum and number of the facts, positions,
hours, bytes of the id."""
_NUMBERS = ("offset", "resume", "written_at", "vitals", "facts_sum", "facts_count")


def checksum(value: bytes) -> int:
    """Return the checksum of a value: its crc32, never 0."""
    return zlib.crc32(value) or 1


@dataclass
class Manifest:
    """Checksums of the stored values; each write updates them."""

    positions: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(S, np.uint32))
    hours: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(HOURS, np.uint32))
    vitals: int = 0
    facts: dict[str, int] = field(default_factory=dict)
    """Checksum of each machine's facts; empty in a decoded manifest, which has only the next two fields."""
    facts_sum: int = 0
    facts_count: int = 0
    topic_id: str = ""
    offset: int = 0
    resume: int = 0
    written_at: float = 0.0

    def set_facts(self, values: Mapping[str, bytes], changed: Iterable[str], gone: Iterable[str]) -> None:
        """Record facts that are written and facts that are removed."""
        for machine in gone:
            self.facts_sum -= self.facts.pop(machine, 0)
        for machine in changed:
            self.facts_sum -= self.facts.get(machine, 0)
            self.facts[machine] = checksum(machine.encode() + b"\0" + values[machine])
            self.facts_sum += self.facts[machine]
        self.facts_count = len(self.facts)

    def encode(self) -> bytes:
        topic = self.topic_id.encode()
        head = _HEAD.pack(*(getattr(self, name) for name in _NUMBERS), S, HOURS, len(topic))
        body = bytes([VERSION]) + head + topic + self.positions.tobytes() + self.hours.tobytes()
        return zlib.crc32(body).to_bytes(4, "little") + body


def decode_manifest(raw: bytes | None) -> Manifest | None:
    """Return the manifest in ``raw``; None when it is absent, damaged or of another version."""
    if raw is None or len(raw) < _SUM.size + _HEAD.size:
        return None
    total, version = _SUM.unpack_from(raw)
    if total != zlib.crc32(raw[4:]) or version != VERSION:
        return None
    head = _HEAD.unpack_from(raw, _SUM.size)
    positions, hours, id_bytes = head[len(_NUMBERS) :]
    start = _SUM.size + _HEAD.size
    sums = np.frombuffer(raw, np.uint8, offset=start + id_bytes).tobytes()
    if (positions, hours) != (S, HOURS) or len(sums) != 4 * (S + HOURS):
        return None
    values = np.frombuffer(sums, "<u4").astype(np.uint32)
    topic_id = raw[start : start + id_bytes].decode(errors="replace")
    numbers = dict(zip(_NUMBERS, head, strict=False))
    return Manifest(positions=values[:S].copy(), hours=values[S:].copy(), topic_id=topic_id, **numbers)
