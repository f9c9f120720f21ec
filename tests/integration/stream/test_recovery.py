"""The final tables equal those of an undisturbed run, whatever happens on the way. Real processes throughout.

Those marked ``broker`` depend on what a broker does: groups, offsets, topics. They run again on Apache Kafka.
"""

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ops.stack.servers.valkey import LocalValkey
from schemas.messages.sample import Moments
from schemas.names import Names
from tests.support.pipeline import Pipeline, await_condition, make_samples

MACHINES = 20 if os.environ.get("WINDWARD_TEST_KAFKA") == "apache" else 8
"""Each sends a sample a slot."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalValkey]:
    """A Valkey of the test's own, to be killed and restored."""
    with LocalValkey(directory=tmp_path / "valkey") as server:
        yield server


@pytest.fixture
def pipeline(broker: object, store: LocalValkey, names: Names, tmp_path: Path) -> Iterator[Pipeline]:
    """The pipeline without a worker."""
    one = Pipeline(broker, store.url, names, tmp_path)
    yield one
    one.close()


@pytest.mark.slow
def test_duplicates_and_reordering(pipeline: Pipeline) -> None:
    """Every sample twice and in any order within half an hour gives the windows of once and in order."""
    samples = make_samples(MACHINES, 200)
    pipeline.start_worker()
    rng = random.Random(1)
    pipeline.publish(rng.sample(samples, len(samples)))
    pipeline.publish(rng.sample(samples, len(samples) // 2), keep=False)
    pipeline.await_folded(len(samples) * 3 // 2)
    pipeline.await_exact()


@pytest.mark.broker
def test_a_worker_killed_in_mid_batch(pipeline: Pipeline) -> None:
    """A kill -9 while samples flow: the next worker goes on from the state's own offset."""
    samples = make_samples(MACHINES, 360)
    first = pipeline.start_worker("--flush-interval-s", "0.3")
    pipeline.publish(samples[: 150 * MACHINES])
    pipeline.await_folded(1)
    pipeline.publish(samples[150 * MACHINES : 300 * MACHINES])
    first.kill()
    pipeline.start_worker()
    pipeline.publish(samples[300 * MACHINES :])
    pipeline.await_exact()


@pytest.mark.broker
@pytest.mark.slow
def test_windows_never_go_back_when_a_worker_is_killed(pipeline: Pipeline) -> None:
    """The next one reads the log from the base on: what a reader sees of a machine only grows until all is exact."""
    samples = make_samples(MACHINES, 300)
    first = pipeline.start_worker()
    pipeline.publish(samples[: 100 * MACHINES])
    pipeline.await_folded(100 * MACHINES)
    for slot in range(100, 130):  # some writes of changes after the last base
        pipeline.publish(samples[slot * MACHINES : (slot + 1) * MACHINES])
    pipeline.await_folded(130 * MACHINES)
    seen = {machine: row["at"] for machine, row in pipeline.rows().items()}
    first.kill()
    pipeline.start_worker()
    pipeline.publish(samples[130 * MACHINES :])

    def exact() -> bool:
        rows = pipeline.rows()
        assert rows.keys() >= seen.keys()
        for machine, row in rows.items():
            assert row["at"] >= seen[machine], f"{machine} went back"
            seen[machine] = row["at"]
        return not pipeline.mismatch()

    await_condition(exact, "exact", 120)


@pytest.mark.broker
@pytest.mark.slow
def test_a_paused_worker_that_wakes_after_losing_its_partitions(pipeline: Pipeline) -> None:
    """SIGSTOP beyond the session timeout, another worker takes over, SIGCONT: nothing is set back or lost."""
    samples = make_samples(MACHINES, 300)
    first = pipeline.start_worker()
    pipeline.publish(samples[: 150 * MACHINES])
    pipeline.await_folded(150 * MACHINES)
    pipeline.publish(samples[150 * MACHINES : 170 * MACHINES])
    first.pause()
    second = pipeline.start_worker()
    pipeline.publish(samples[170 * MACHINES : 250 * MACHINES])
    pipeline.await_folded(250 * MACHINES, deadline_s=120)
    first.resume()
    pipeline.publish(samples[250 * MACHINES :])
    pipeline.await_exact(120)
    assert first.running
    assert second.running


@pytest.mark.broker
@pytest.mark.slow
def test_workers_that_join_and_leave_under_load(pipeline: Pipeline) -> None:
    """A second worker joins, the first leaves, while samples flow."""
    samples = make_samples(MACHINES, 300)
    first = pipeline.start_worker()
    pipeline.publish(samples[: 75 * MACHINES])
    pipeline.await_folded(75 * MACHINES)
    pipeline.start_worker()
    for slot in range(75, 225, 15):
        pipeline.publish(samples[slot * MACHINES : (slot + 15) * MACHINES])
    pipeline.await_folded(225 * MACHINES, deadline_s=120)
    first.stop()
    assert first.exit_code == 0
    pipeline.publish(samples[225 * MACHINES :])
    pipeline.await_exact(120)


@pytest.mark.slow
def test_redis_killed_and_started_empty(pipeline: Pipeline, store: LocalValkey) -> None:
    """The worker writes its whole state again, without a new message."""
    samples = make_samples(MACHINES, 200)
    worker = pipeline.start_worker()
    pipeline.publish(samples)
    pipeline.await_exact()
    store.restart()
    assert not pipeline.rows()
    pipeline.await_exact()
    assert worker.running


@pytest.mark.slow
def test_redis_away_while_samples_flow(pipeline: Pipeline, store: LocalValkey) -> None:
    """Without Redis the worker lives on; with an empty one it goes on by itself."""
    samples = make_samples(MACHINES, 200)
    worker = pipeline.start_worker()
    pipeline.publish(samples[: 100 * MACHINES])
    pipeline.await_folded(100 * MACHINES)
    store.kill()
    pipeline.publish(samples[100 * MACHINES :])
    await_condition(lambda: "stream.redis.away" in worker.output_end(50), "the worker notices")
    assert worker.running
    store.start()
    pipeline.await_exact()


@pytest.mark.slow
def test_redis_full_while_samples_flow(pipeline: Pipeline, store: LocalValkey) -> None:
    """A server that refuses every write costs nothing: the worker lives on, and writes all of it when there is room."""
    samples = make_samples(MACHINES, 200)
    worker = pipeline.start_worker()
    pipeline.publish(samples[: 100 * MACHINES])
    pipeline.await_folded(100 * MACHINES)
    with redis.Redis.from_url(store.url) as admin:
        admin.config_set("maxmemory", "1")
        pipeline.publish(samples[100 * MACHINES :])
        await_condition(lambda: "used memory > 'maxmemory'" in worker.output_end(50), "the worker says why")
        assert pipeline.folded() == 100 * MACHINES
        admin.config_set("maxmemory", "0")
    pipeline.await_exact()
    assert worker.running


@pytest.mark.broker
@pytest.mark.slow
def test_redis_restored_from_an_older_dump(pipeline: Pipeline, store: LocalValkey) -> None:
    """An older dump is found by its offset: the running worker writes over it, a new one reads the rest again."""
    samples = make_samples(MACHINES, 300)
    worker = pipeline.start_worker()
    pipeline.publish(samples[: 100 * MACHINES])
    pipeline.await_folded(100 * MACHINES)
    await_condition(lambda: _save(store), "a dump")
    older = shutil.copy(store.dump_file, store.dump_file.with_suffix(".older"))
    pipeline.publish(samples[100 * MACHINES : 200 * MACHINES])
    pipeline.await_exact()

    store.kill()
    shutil.copy(older, store.dump_file)
    store.start()
    pipeline.await_exact()

    worker.kill()
    store.kill()
    shutil.copy(older, store.dump_file)
    store.start()
    assert pipeline.folded() == 100 * MACHINES
    pipeline.start_worker()
    pipeline.await_exact()
    pipeline.publish(samples[200 * MACHINES :])
    pipeline.await_exact()


@pytest.mark.broker
@pytest.mark.slow
def test_the_broker_restarted_and_the_topic_made_again(pipeline: Pipeline) -> None:
    """A new topic under the old name is read from its start onto the state that is there."""
    samples = make_samples(MACHINES, 200)
    pipeline.start_worker()
    pipeline.publish(samples[: 100 * MACHINES])
    pipeline.await_folded(100 * MACHINES)
    pipeline.broker.restart()
    pipeline.forget_producer()
    if not pipeline.broker.keeps_topics:
        pipeline.ensure_topics()
    pipeline.publish(samples[100 * MACHINES :])
    pipeline.await_exact(120)


@pytest.mark.slow
def test_the_whole_backlog_read_again(pipeline: Pipeline, store: LocalValkey) -> None:
    """An emptied Redis and a new worker: the retained samples give the same tables."""
    samples = make_samples(MACHINES, 360)
    worker = pipeline.start_worker()
    pipeline.publish(samples)
    pipeline.await_exact()
    worker.stop()
    assert worker.exit_code == 0
    store.restart()
    pipeline.start_worker()
    pipeline.await_exact()


@pytest.mark.slow
def test_a_silent_machine_leaves_redis_and_comes_back_warming(pipeline: Pipeline) -> None:
    """After the silence it is in no table; its next sample starts a window anew."""
    old = make_samples(2, 20, end=time.time() - 3600)
    pipeline.start_worker("--silent-s", "120")
    pipeline.publish(old, keep=False)
    pipeline.await_folded(len(old))
    await_condition(lambda: not pipeline.rows(), "nobody is in Redis", 200)
    pipeline.publish(make_samples(1, 1))
    pipeline.await_exact()
    assert pipeline.rows()["m000"]["coverage"][2, 0] < 0.01


def test_messages_of_every_bad_kind_are_kept_and_the_next_good_one_is_folded(pipeline: Pipeline) -> None:
    """Garbage, foreign versions, the future, the over-long: rejected with a reason and kept; the stream goes on."""
    from kafka import KafkaConsumer, KafkaProducer

    samples = make_samples(4, 10)
    good = samples[0]
    bad = {
        "malformed": b"garbage",
        "version": b'{"type":"sample","v":2,"machine":"m000"}',
        "too-long": b'"' + b"x" * 20_000 + b'"',
        "empty": b"",
    }
    producer = KafkaProducer(bootstrap_servers=pipeline.broker.address.split(","))
    for value in bad.values():
        producer.send(pipeline.names.samples_topic, key=good.machine.encode(), value=value)
    producer.close()
    import msgspec

    future = msgspec.structs.replace(good, at=good.at + 3600)
    odd = msgspec.structs.replace(good, machine="a b", cpu=Moments(1, 1.0, 0.0, 1.0, 2.0))
    pipeline.publish([future, odd], keep=False)
    pipeline.start_worker()
    pipeline.publish(samples)
    pipeline.await_exact()
    consumer = KafkaConsumer(
        pipeline.names.rejects_topic,
        bootstrap_servers=pipeline.broker.address.split(","),
        auto_offset_reset="earliest",
    )
    reasons, kept = {*bad, "future", "machine-id"}, {}

    def all_are_kept() -> bool:
        for records in consumer.poll(200).values():
            kept.update({dict(record.headers)["reason"].decode(): record.value for record in records})
        return kept.keys() >= reasons

    await_condition(all_are_kept, "every refused message is kept")
    consumer.close()
    assert kept.keys() == reasons
    assert {reason: kept[reason] or b"" for reason in bad} == bad


def _save(store: LocalValkey) -> bool:
    import redis

    with redis.Redis.from_url(store.url) as client:
        client.save()
    return store.dump_file.exists()
