"""Batches of records from a broker, unpacked within a bound; a batch that fails is skipped. Shell.

A producer chooses the compression of its batches, and a broker does not change it. So each consumer reads all codecs of
Kafka: none, gzip, snappy, lz4, zstd. One library (``cramjam``) unpacks for aiokafka and for kafka-python, in place of
the three that kafka-python asks for. Both libraries' own functions have no bound: 6 kB of zstd make 200 MB.

Both libraries raise for a batch that they cannot read, for all partitions of a consumer, and meet it again after each
restart until retention has dropped it. Here its records are empty instead, each at its offset: a reader refuses and
counts them like any other invalid message, and offsets have no gap.
"""

import gzip
import io
import logging
import mmap
import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import cramjam

log = logging.getLogger("windward.kafka")

UNPACKED_MAX = 64 << 20
"""The most that a batch is unpacked to, bytes; a broker's limit of a packed one is 1 MB by default."""
RECORDS_MAX = 1_000_000
"""The maximum number of records that a batch with a wrong checksum may state."""
LOG_S = 10.0
"""Shortest time between two log lines of one partition."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16


class LostRecord(NamedTuple):
    """Stands for an unreadable record, with the attributes that both libraries access."""

    offset: int
    timestamp: int
    timestamp_type: int = 0
    key: bytes | None = None
    value: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()
    checksum: int | None = None
    size_in_bytes: int = 0

    def validate_crc(self) -> bool:
        """Return True: there is no checksum to compare."""
        return True


class PassedOver:
    """Counts the batches that cannot be read, and logs the newest of each partition, with a limited rate."""

    def __init__(self, tell: Callable[[], Any] = lambda: None, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        self._tell = tell
        self._clock = clock
        self._seen: dict[Any, int] = {}
        self._logged: dict[Any, float] = {}

    def note(self, partition: Any, first: int, after: int, error: Exception) -> None:
        """Record one batch: its first lost offset, and the offset after its last record."""
        if self._seen.get(partition) == first:  # read again after a seek
            return
        self._seen[partition] = first
        self.count += 1
        self._tell()
        now_s = self._clock()
        if now_s - self._logged.get(partition, float("-inf")) < LOG_S:
            return
        self._logged[partition] = now_s
        values = {"topic": partition.topic, "partition": partition.partition, "offset": first, "records": after - first}
        log.error("kafka.batch.unreadable", extra={"values": {**values, "error": f"{type(error).__name__}: {error}"}})


class _Batch:
    """One batch: the records that can be read, then placeholders for the lost ones."""

    def __init__(self, batch: Any, partition: Any, passed: PassedOver) -> None:
        self._batch = batch
        self._partition = partition
        self._passed = passed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last record."""
        first = int(self._batch.base_offset)
        return max(first + 1, min(int(self._batch.next_offset), first + RECORDS_MAX))

    def validate_crc(self) -> bool:
        """Return True, because a library raises otherwise; the checksum is compared before the records are read."""
        return True

    def _checked(self) -> Any:
        if not self._batch.validate_crc():
            raise ValueError("its checksum is wrong")
        return self._batch

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        next_offset = int(self._batch.base_offset)
        try:
            for record in self._checked():
                next_offset = record.offset + 1
                yield record
        except Exception as error:  # a codec's, or what either library says of a record
            self._passed.note(self._partition, next_offset, self.next_offset, error)
            for offset in range(next_offset, self.next_offset):
                yield LostRecord(offset, getattr(self._batch, "max_timestamp", -1))


class _Records:
    """The batches of one answer. A batch without a readable header ends the answer."""

    def __init__(self, records: Any, partition: Any, first: int, passed: PassedOver) -> None:
        self._records = records
        self._partition = partition
        self._next_offset = first
        self._passed = passed
        self._torn = False

    def has_next(self) -> bool:
        return not self._torn and bool(self._records.has_next())

    def next_batch(self) -> _Batch | None:
        if not self.has_next():
            return None
        try:
            found = self._records.next_batch()
        except Exception:  # either library's, of a batch without a whole header
            self._torn = True
            at = self._next_offset
            found = SimpleNamespace(
                magic=0, base_offset=at, next_offset=at + 1, is_control_batch=False, is_transactional=False,
                producer_id=None, validate_crc=lambda: False,
            )  # fmt: skip
        batch = _Batch(found, self._partition, self._passed)
        self._next_offset = batch.next_offset
        return batch


def _within(unpack: Callable[[bytes, mmap.mmap], int]) -> Callable[[bytes], bytes]:
    def decode(payload: bytes) -> bytes:
        with mmap.mmap(-1, UNPACKED_MAX) as room:  # costs only the pages that are written
            return room[: unpack(payload, room)]

    return decode


_snappy_block = _within(cramjam.snappy.decompress_raw_into)


def unpack_snappy(payload: bytes) -> bytes:
    """Return the content of a snappy payload: one block, or several in Java's stream; raises as cramjam does."""
    packed = bytes(payload)
    if not packed.startswith(_XERIAL):
        return _snappy_block(packed)
    blocks, at, left = list[bytes](), _XERIAL_HEADER, UNPACKED_MAX
    while at < len(packed):
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        blocks.append(_snappy_block(packed[at + 4 : end]))
        left -= len(blocks[-1])
        if left < 0:
            raise ValueError(f"more than {UNPACKED_MAX} bytes")
        at = end
    return b"".join(blocks)


def unpack_gzip(payload: bytes) -> bytes:
    """Return the content of a gzip payload; raises OSError, EOFError, zlib.error, or ValueError if it is too large."""
    found = gzip.GzipFile(fileobj=io.BytesIO(payload)).read(UNPACKED_MAX + 1)
    if len(found) > UNPACKED_MAX:
        raise ValueError(f"more than {UNPACKED_MAX} bytes")
    return found


DECODERS = {
    "gzip": unpack_gzip,
    "snappy": unpack_snappy,
    "lz4": _within(cramjam.lz4.decompress_into),
    "zstd": _within(cramjam.zstd.decompress_into),
}
"""By the name of a codec the function that unpacks."""


_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def unpacked(value: bytes) -> bytes:
    """Return a message without its own compression, which some exporters add to that of the batch.

    Raises ValueError for one that cannot be unpacked.
    """
    codec = next((codec for magic, codec in _MAGIC.items() if value.startswith(magic)), None)
    try:
        return value if codec is None else DECODERS[codec](value)
    except Exception as error:  # a codec's own
        raise ValueError(f"{codec}: {error}") from None


def _read_with(module: ModuleType) -> None:
    for name, decode in DECODERS.items():
        setattr(module, f"{name}_decode", decode)


def read_with_kafka_python(consumer: Any, passed: PassedOver) -> None:
    """Make a consumer of kafka-python read each codec and skip unreadable batches."""
    from kafka import codec
    from kafka.record import default_records

    _read_with(default_records)
    for name in DECODERS:
        setattr(codec, f"has_{name}", lambda: True)
    library = type(consumer._fetcher).PartitionRecords

    class Readable(library):  # type: ignore[misc, valid-type]
        def __init__(self, fetch_offset: int, tp: Any, records: Any, **more: Any) -> None:
            super().__init__(fetch_offset, tp, _Records(records, tp, fetch_offset, passed), **more)

    consumer._fetcher.PartitionRecords = Readable


def read_with_aiokafka(passed: PassedOver) -> None:
    """Make all consumers of aiokafka in this process read each codec and skip unreadable batches."""
    from aiokafka.consumer import fetcher
    from aiokafka.record.default_records import DefaultRecordBatch

    _read_with(sys.modules[DefaultRecordBatch.__module__])
    library = getattr(fetcher.PartitionRecords, "of_library", fetcher.PartitionRecords)

    class Readable(library):  # type: ignore[misc, valid-type]
        of_library = library

        def __init__(self, tp: Any, records: Any, aborted: Any, fetch_offset: int, *more: Any) -> None:
            super().__init__(tp, _Records(records, tp, fetch_offset, passed), aborted, fetch_offset, *more)

    fetcher.PartitionRecords = Readable
