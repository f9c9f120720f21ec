"""``windward bridge`` as a process against a real broker: recorded messages in, samples out."""

import json
import time
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer

from schemas.names import Names
from tests.support.packed import BROKEN, PACKERS, packing
from tests.support.publishing import events, make_topics, process, receive, samples

RECORDING = Path(__file__).parents[2] / "streams" / "bridge" / "telegraf.jsonl"


def test_recorded_messages_arrive_as_samples(broker: Any, names: Names, tmp_path: Path) -> None:
    """Moved to now: five samples of the host under its own key; what cannot be read is counted, not fatal.

    They come packed by each codec, and after a batch that no codec unpacks.
    """
    make_topics(broker, names)
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics({"telegraf": {"num_partitions": 1, "replication_factor": broker.replication}})
    admin.close()
    metrics = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    moved_s = int(time.time()) - 60 - metrics[0]["timestamp"]
    with KafkaProducer(bootstrap_servers=broker.address.split(",")) as producer:
        producer.send("telegraf", value=b"cpu,host=a usage_idle=3").get(20)
    moved = [json.dumps(metric | {"timestamp": metric["timestamp"] + moved_s}).encode() for metric in metrics]
    codec, pack = BROKEN["zstd cut off"]
    with (
        packing(codec, pack),
        KafkaProducer(bootstrap_servers=broker.address.split(","), compression_type=codec) as producer,
    ):
        producer.send("telegraf", value=b"lost" * 500).get(20)
    share = -(-len(moved) // len(PACKERS))
    for number, (codec, pack) in enumerate(PACKERS.values()):
        with (
            packing(codec, pack),
            KafkaProducer(bootstrap_servers=broker.address.split(","), compression_type=codec) as producer,
        ):
            for value in moved[number * share : (number + 1) * share]:
                producer.send("telegraf", value=value)
            producer.flush()
    running = process("bridge", broker, names, tmp_path, "--from-start")
    running.command.insert(running.command.index("bridge") + 1, "telegraf")
    with running:
        received = receive(broker, names, lambda found: len(samples(found)) >= 5)
        running.stop()
        assert running.exit_code == 0, running.output_end(20)
    found = samples(received)
    assert [sample.seq for sample in found] == list(range(5))
    assert {sample.machine for sample in found} == {"db1.example.org"}
    assert all(one.key == b"db1.example.org" for one in received)
    assert [round(sample.cpu.mean, 6) for sample in found if sample.cpu] == [1.0, 2.0, 0.4, 1.0, 2.0]
    assert len(events(running, "bridge.unreadable")) == 1
    (lost,) = events(running, "kafka.batch.unreadable")
    assert (lost["topic"], lost["partition"], lost["offset"]) == ("telegraf", 0, 1)
