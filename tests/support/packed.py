"""Producers that pack batches as others do: each codec, and what no codec unpacks."""

import gzip
import struct
from contextlib import contextmanager

import cramjam
import pytest
from kafka.producer.kafka import KafkaProducer as _Producer
from kafka.record import default_records


def xerial(payload):
    """Snappy as Java's library writes it: blocks of 32 kB, each after its length."""
    blocks = [bytes(cramjam.snappy.compress_raw(payload[at : at + 32_768])) for at in range(0, len(payload), 32_768)]
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


PACKERS = {
    "gzip": ("gzip", gzip.compress),
    "snappy of librdkafka": ("snappy", lambda payload: bytes(cramjam.snappy.compress_raw(payload))),
    "snappy of Java": ("snappy", xerial),
    "snappy of Redpanda": (
        "snappy",
        lambda payload: xerial(payload).replace(b"\0\0\0\1\0\0\0\1", b"\1\0\0\0\1\0\0\0", 1),
    ),
    "lz4": ("lz4", lambda payload: bytes(cramjam.lz4.compress(payload))),
    "zstd": ("zstd", lambda payload: bytes(cramjam.zstd.compress(payload, 3))),
    "zstd of two frames": (
        "zstd",
        lambda payload: b"".join(bytes(cramjam.zstd.compress(part)) for part in (payload[:9], payload[9:])),
    ),
}
"""By the name of a case: the codec that the batch says, and what packs it."""

BROKEN = {
    "gzip of nothing": ("gzip", lambda _: b"\x1f\x8b"),
    "gzip cut off": ("gzip", lambda payload: gzip.compress(payload)[:-9]),
    "snappy of other bytes": ("snappy", lambda _: b"no snappy at all"),
    "snappy of a block that is not there": ("snappy", lambda payload: xerial(payload)[:24]),
    "lz4 of other bytes": ("lz4", lambda _: b"no lz4 at all"),
    "zstd of other bytes": ("zstd", lambda _: b"no zstd at all"),
    "zstd cut off": ("zstd", lambda payload: bytes(cramjam.zstd.compress(payload))[:-5]),
    "zstd of records that are none": ("zstd", lambda payload: bytes(cramjam.zstd.compress(b"\xff" * len(payload)))),
}
"""The same for batches that cannot be read."""


@contextmanager
def packing(codec, pack):
    """Let kafka-python's producer pack so; yields the word for its setting ``compression_type``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(_Producer._COMPRESSORS, codec, (lambda: True, _Producer._COMPRESSORS[codec][1]))
        patch.setattr(default_records, f"{codec}_encode", pack)
        patch.setattr(default_records.DefaultRecordBatchBuilder, "_assert_has_codec", lambda *_: None)
        yield codec
