"""Batches as a broker hands them out, read by both libraries: every codec, and what cannot be read is passed over."""

import logging
from types import SimpleNamespace

import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords as RecordsOfAiokafka
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.structs import TopicPartition

from streams.batches import PassedOver, read_with_aiokafka, read_with_kafka_python, unpacked
from tests.support.packed import BROKEN, PACKERS, packing

PARTITION = TopicPartition("samples", 3)
CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(first, *values, codec=0, as_codec=None):
    """One batch; ``as_codec``: the number that it says it is packed with."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 23,
    )  # fmt: skip
    for number, value in enumerate(values):
        builder.append(number, 1_790_000_000_000, b"m1", value, [])
    raw = bytearray(builder.build())
    raw[:8] = first.to_bytes(8, "big")
    if as_codec is not None:
        raw[22] = as_codec
        raw[17:21] = default_crc(raw[21:]).to_bytes(4, "big")
    return bytes(raw)


def default_crc(data):
    from kafka.record.util import calc_crc32c

    return int(calc_crc32c(data))


def of_kafka_python(raw, first, passed):
    consumer = SimpleNamespace(_fetcher=Fetcher.__new__(Fetcher))
    read_with_kafka_python(consumer, passed)
    return list(consumer._fetcher.PartitionRecords(first, PARTITION, MemoryRecords(raw)).take())


def of_aiokafka(raw, first, passed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetcher, "PartitionRecords", fetcher.PartitionRecords)
        read_with_aiokafka(passed)
        return list(fetcher.PartitionRecords(PARTITION, RecordsOfAiokafka(raw), [], first, None, None, True, 0))


READERS = [("kafka-python", of_kafka_python), ("aiokafka", of_aiokafka)]


@pytest.fixture(params=[read for _, read in READERS], ids=[name for name, _ in READERS])
def read(request):
    yield request.param


VALUES = tuple(b"value %d " % number * 2000 for number in range(20))


@pytest.mark.parametrize("codec, pack", PACKERS.values(), ids=PACKERS)
def test_each_codec_is_read(read, codec, pack):
    with packing(codec, pack):
        raw = batch(100, *VALUES, codec=CODECS[codec])
    assert len(raw) < 200_000
    passed = PassedOver()
    found = read(raw, 100, passed)
    assert [(one.offset, one.value) for one in found] == list(enumerate(VALUES, 100))
    assert passed.count == 0


@pytest.mark.parametrize("codec, pack", BROKEN.values(), ids=BROKEN)
def test_a_batch_that_cannot_be_unpacked_costs_only_itself(read, codec, pack, caplog):
    """It is counted and named once; each of its records comes out empty, and those before and after it are read."""
    with packing(codec, pack):
        bad = batch(101, *VALUES, codec=CODECS[codec])
    caplog.clear()
    passed = PassedOver()
    found = read(batch(100, b"before") + bad + batch(121, b"after"), 100, passed)
    wanted = {100: b"before", **dict.fromkeys(range(101, 121), b""), 121: b"after"}
    assert {one.offset: one.value for one in found} == wanted
    assert passed.count == 1
    (line,) = [one for one in caplog.records if one.name == "windward.kafka"]
    assert line.levelno == logging.ERROR
    said = line.__dict__["values"]
    assert (said["topic"], said["partition"], said["offset"], said["records"]) == ("samples", 3, 101, 20)


@pytest.mark.parametrize("codec, pack", PACKERS.values(), ids=PACKERS)
def test_a_flood_is_passed_over(read, monkeypatch, codec, pack):
    """A record that unpacks to more than the bound, from a few kilobytes, takes no more memory than that."""
    monkeypatch.setattr("streams.batches.UNPACKED_MAX", 1 << 20)
    with packing(codec, pack):
        raw = batch(0, bytes(3 << 20), codec=CODECS[codec])
    passed = PassedOver()
    assert [one.value for one in read(raw, 0, passed)] == [b""]
    assert passed.count == 1


def damaged(at, value):
    """A batch with one byte changed and its checksum left."""
    raw = bytearray(batch(101, b"x", b"y"))
    raw[at] = value
    return bytes(raw)


DAMAGED = {
    "an unknown codec": batch(101, b"x", b"y", as_codec=6),
    "a codec that it is not packed with": batch(101, b"x", b"y", as_codec=4),
    "a byte of a value": damaged(-2, 0),
    "the number of records": damaged(60, 9),
}


@pytest.mark.parametrize("bad", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_batch_costs_only_itself(read, bad):
    """The records around it are read, and its offsets are not left out."""
    passed = PassedOver()
    found = read(batch(100, b"before") + bad + batch(103, b"after"), 100, passed)
    assert [(one.offset, one.value) for one in found] == [(100, b"before"), (101, b""), (102, b""), (103, b"after")]
    assert passed.count == 1


def test_a_damaged_last_offset_skips_no_more_than_its_bound(read, monkeypatch):
    """Reading goes on near the batch, not two thousand million offsets later, where a broker knows nothing."""
    monkeypatch.setattr("streams.batches.RECORDS_MAX", 50)
    assert [one.offset for one in read(damaged(23, 0x7F), 101, PassedOver())] == [*range(101, 151)]


def test_an_answer_that_begins_with_no_header_is_passed_over_offset_by_offset(read):
    """Nobody is stopped: one offset is lost, and the next fetch begins after it."""
    passed = PassedOver()
    short = (7).to_bytes(8, "big") + (2).to_bytes(4, "big") + b"xx"
    assert [(one.offset, one.value) for one in read(short, 7, passed)] == [(7, b"")]
    assert passed.count == 1


def test_a_batch_is_counted_once_though_it_is_read_again():
    """After a seek the same batch comes again; another one of the partition is told after a pause."""
    now_s = 0.0
    told = []
    passed = PassedOver(lambda: told.append(1), lambda: now_s)
    for first in (5, 5, 9):
        passed.note(PARTITION, first, first + 2, ValueError("x"))
    assert (passed.count, len(told)) == (2, 2)


def test_a_message_may_be_packed_by_its_exporter():
    """As gzip or zstd, beside the packing of its batch; what is no such packing is left as it is."""
    for codec in ("gzip", "zstd"):
        _, pack = PACKERS[codec]
        assert unpacked(pack(b"{}" * 500)) == b"{}" * 500
        with pytest.raises(ValueError, match=f"^{codec}: "):
            unpacked(pack(b"{}" * 500)[:-9])
    assert (unpacked(b'{"a":1}'), unpacked(b"")) == (b'{"a":1}', b"")
