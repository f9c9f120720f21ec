"""No record ends a worker: whatever its time, size or key, it is refused and the stream goes on. Real processes."""

import time

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from schemas.messages.sample import encode
from schemas.names import Names
from tests.support.packed import BROKEN, PACKERS, packing
from tests.support.pipeline import await_condition, make_samples


def send(pipeline, *records, **options):
    """Put records on the samples topic as anybody may."""
    with KafkaProducer(bootstrap_servers=pipeline.broker.address.split(","), **options) as producer:
        for record in records:
            producer.send(pipeline.names.samples_topic, **record).get(30)


def kept(pipeline, count):
    """The first records of the rejects topic: headers and value."""
    consumer = KafkaConsumer(
        pipeline.names.rejects_topic,
        bootstrap_servers=pipeline.broker.address.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    found = []
    for record in consumer:
        found.append({name: value.decode() for name, value in record.headers} | {"value": record.value})
        if len(found) == count:
            break
    consumer.close()
    return found


def of(one, **more):
    return {"key": one.machine.encode(), "value": encode(one)} | more


@pytest.mark.slow
def test_no_time_of_a_record_ends_a_worker(pipeline):
    """Producers write the time where the topic keeps theirs; the samples beside are folded as ever."""
    end = time.time() - 20
    samples = make_samples(4, 10, end=end)
    worker = pipeline.start_worker()
    times = (10**15, -(10**15), 2**62, -(2**62), 4_102_444_800_000)
    send(pipeline, *(of(samples[0], timestamp_ms=time_ms) for time_ms in times))
    pipeline.publish(samples)
    year_2100 = msgspec.structs.replace(samples[0], at=4_102_444_800.0)
    send(pipeline, of(year_2100, timestamp_ms=4_102_444_800_000))
    pipeline.publish(make_samples(1, 1, end=end), keep=False)
    pipeline.await_folded(len(samples) + len(times) + 2)
    pipeline.await_exact()
    assert worker.running


def test_a_message_that_grows_when_it_is_unpacked_ends_no_worker(pipeline):
    """1.5 MB that were 2 kB compressed: more than can be produced again. What is kept of it is cut and says so."""
    samples = make_samples(4, 10)
    worker = pipeline.start_worker()
    send(
        pipeline,
        {"key": b"m000", "value": b"x" * 1_500_000},
        {"key": b"k" * 1_200_000, "value": b"{"},
        compression_type="gzip",
        max_request_size=10_000_000,
    )
    pipeline.publish(samples)
    pipeline.await_exact()
    assert {(one["reason"], one["bytes"], len(one["value"])) for one in kept(pipeline, 2)} == {
        ("too-long", "1500000", 65_536),
        ("malformed", "1", 1),
    }
    assert worker.running


def test_batches_of_each_codec_are_read_and_broken_ones_passed_over(pipeline):
    """All partitions go on: the windows are those of the samples, and each broken batch is counted and named."""
    samples = make_samples(4, 10)
    worker = pipeline.start_worker()
    for number, (codec, pack) in enumerate(PACKERS.values()):
        with packing(codec, pack):
            mine = samples[number :: len(PACKERS)]
            send(pipeline, *(of(one) for one in mine), compression_type=codec, linger_ms=50)
            pipeline.published.extend(mine)
    for codec, pack in BROKEN.values():
        with packing(codec, pack):
            send(pipeline, of(samples[0], value=b"lost" * 500), compression_type=codec)
    pipeline.await_folded(len(samples) + len(BROKEN))
    pipeline.await_exact()
    assert worker.running
    (partition,) = {one["partition"] for one in kept(pipeline, len(BROKEN))}
    said = next(line for line in worker.log.read_text().splitlines() if "kafka.batch.unreadable" in line)
    assert f"topic={pipeline.names.samples_topic} partition={partition} offset=" in said


def test_a_machine_speaks_for_itself_alone(pipeline):
    """Under another's key, or none, nothing is folded: the windows are those of the machine's own samples."""
    samples = make_samples(2, 30)
    pipeline.start_worker()
    pipeline.publish(samples)
    pipeline.await_exact()
    forged = msgspec.structs.replace(samples[-1], boot=2, cpu=msgspec.structs.replace(samples[-1].cpu, n=99, mean=0.0))
    send(pipeline, of(forged, key=b"m000"), of(forged, key=None))
    assert [one["reason"] for one in kept(pipeline, 2)] == ["key", "key"]
    pipeline.await_exact()


def test_wrong_settings_of_a_topic_that_was_there_are_named(pipeline):
    pipeline.names = Names(pipeline.names.prefix + "-old")
    admin = KafkaAdminClient(bootstrap_servers=pipeline.broker.address.split(","))
    configs = {"message.timestamp.type": "CreateTime", "retention.ms": "60000", "cleanup.policy": "compact"}
    admin.create_topics(
        {pipeline.names.samples_topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs}}
    )
    admin.close()
    worker = pipeline.start_worker()
    for name, value in configs.items():
        await_condition(lambda said=f"{name} is {value}": said in worker.log.read_text(), f"{name} is named")
