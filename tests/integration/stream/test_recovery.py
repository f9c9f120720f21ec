"""The final tables equal those of an undisturbed run, whatever happens on the way. Real processes throughout.

State that Redis lost in part, or that another program wrote over, is never served as truth. Tests marked ``broker``
depend on what a broker does: groups, offsets, topics. They run again on Apache Kafka.
"""

import json
import os
import random
import re
import shutil
import time

import msgspec
import pytest
import redis
from kafka import KafkaConsumer, KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from schemas.messages.sample import InstanceMeans, InstanceReport, Moments
from schemas.tables.instance_table import COLUMNS
from schemas.tables.window_table import decode_table
from scorer.commands.machines.rename import note_forgotten
from streams.fold.instance_usage import InstanceUsage
from streams.fold.peaks import Zone
from streams.state.checkpoint import restore_usage
from tests.conftest import free_port
from tests.support.pages import get
from tests.support.pipeline import await_condition, make_samples

MACHINES = 20 if os.environ.get("WINDWARD_TEST_KAFKA") == "apache" else 8
"""Each sends a sample a slot."""


def begun(pipeline, slots, folded):
    """Return samples of so many slots, the first of them folded, and the worker that did it."""
    samples, worker = make_samples(MACHINES, slots), pipeline.start_worker()
    pipeline.publish(samples[: folded * MACHINES])
    pipeline.await_folded(folded * MACHINES)
    return samples, worker


@pytest.mark.broker
def test_windows_never_go_back_when_a_worker_is_killed(pipeline):
    """By -9 in mid-batch: the next one reads from the base on; what is seen of a machine only grows until exact."""
    samples, first = begun(pipeline, 300, 100)
    for slot in range(100, 130):  # some writes of changes after the last base
        pipeline.publish(samples[slot * MACHINES : (slot + 1) * MACHINES])
    pipeline.await_folded(130 * MACHINES)
    seen = {machine: row["at"] for machine, row in pipeline.rows().items()}
    pipeline.publish(samples[130 * MACHINES : 250 * MACHINES])
    first.kill()
    pipeline.start_worker()
    pipeline.publish(samples[250 * MACHINES :])

    def exact():
        rows = pipeline.rows()
        assert rows.keys() >= seen.keys()
        for machine, row in rows.items():
            assert row["at"] >= seen[machine], f"{machine} went back"
            seen[machine] = row["at"]
        return not pipeline.mismatch()

    await_condition(exact, "exact", 120)


def paused(pipeline, store, first, publish_until):
    """SIGSTOP beyond the session timeout: another takes over, and the first wakes without its partitions."""
    publish_until(120)
    first.pause()
    pipeline.start_worker()
    publish_until(250)
    pipeline.await_folded(250 * MACHINES)
    first.resume()


def one_joins_and_the_first_leaves(pipeline, store, first, publish_until):
    pipeline.start_worker()
    for slot in range(115, 251, 15):
        publish_until(slot)
    pipeline.await_folded(250 * MACHINES)
    first.stop()
    assert first.exit_code == 0
    return [first]


def redis_away_and_back_empty(pipeline, store, first, publish_until):
    store.kill()
    publish_until(300)
    await_condition(lambda: "stream.redis.away" in first.output_end(50), "the worker says why")
    store.start()


def redis_full(pipeline, store, first, publish_until):
    with redis.Redis.from_url(store.url) as admin:
        admin.config_set("maxmemory", "1")
        publish_until(300)
        await_condition(lambda: "> 'maxmemory'" in first.output_end(50), "the worker says why")
        admin.config_set("maxmemory", "0")


def broker_restarted(pipeline, store, first, publish_until):
    """A new topic under the old name is read from its start onto the state that is there."""
    pipeline.broker.restart()
    pipeline.forget_producer()
    if not pipeline.broker.keeps_topics:
        pipeline.ensure_topics()


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble",
    [
        redis_away_and_back_empty,
        redis_full,
        *(
            pytest.param(one, marks=pytest.mark.broker)
            for one in (paused, one_joins_and_the_first_leaves, broker_restarted)
        ),
    ],
)
def test_trouble_while_samples_flow(pipeline, store, trouble):
    """Nothing is set back or lost, and each worker that nobody stopped lives on."""
    samples, first = begun(pipeline, 300, 100)
    sent = 100

    def publish_until(slot):
        nonlocal sent
        pipeline.publish(samples[sent * MACHINES : slot * MACHINES])
        sent = slot

    stopped = trouble(pipeline, store, first, publish_until) or []
    publish_until(300)
    pipeline.await_exact()
    assert [one for one in pipeline.workers if not one.running] == stopped


@pytest.mark.broker
@pytest.mark.slow
def test_redis_restored_from_an_older_dump(pipeline, store):
    """An older dump is found by its offset: the running worker writes over it, a new one reads the rest again."""
    samples, worker = begun(pipeline, 300, 100)
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


@pytest.mark.slow
def test_a_silent_machine_leaves_redis_and_comes_back_warming(pipeline):
    """After the silence it is in no table; its next sample starts a window anew."""
    old = make_samples(2, 20, end=time.time() - 3600)
    pipeline.start_worker("--silent-s", "120")
    pipeline.publish(old, keep=False)
    pipeline.await_folded(len(old))
    await_condition(lambda: not pipeline.rows(), "nobody is in Redis", 200)
    pipeline.publish(make_samples(1, 1))
    pipeline.await_exact()
    assert pipeline.rows()["m000"]["coverage"][2, 0] < 0.01


def test_messages_of_every_bad_kind_are_kept_and_the_next_good_one_is_folded(pipeline):
    """Garbage, foreign versions, the future, the over-long: rejected with a reason and kept; the stream goes on."""
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
    future = msgspec.structs.replace(good, at=good.at + 3600)
    odd = msgspec.structs.replace(good, machine="a b", cpu=Moments(1, 1.0, 0.0, 1.0, 2.0))
    pipeline.publish([future, odd], keep=False)
    pipeline.start_worker()
    pipeline.publish(samples)
    pipeline.await_exact()
    consumer = KafkaConsumer(
        pipeline.names.rejects_topic, bootstrap_servers=pipeline.broker.address.split(","), auto_offset_reset="earliest"
    )
    reasons, kept = {*bad, "future", "machine-id"}, {}

    def all_are_kept():
        for records in consumer.poll(200).values():
            kept.update({dict(record.headers)["reason"].decode(): record.value for record in records})
        return kept.keys() >= reasons

    await_condition(all_are_kept, "every refused message is kept")
    consumer.close()
    assert kept.keys() == reasons
    assert {reason: kept[reason] or b"" for reason in bad} == bad


def _save(store):
    with redis.Redis.from_url(store.url) as client:
        client.save()
    return store.dump_file.exists()


def quarter_of_the_slots(client, names, number):
    client.delete(*[names.slots(number, position) for position in random.Random(1).sample(range(360), 90)])


def all_facts_and_hours(client, names, number):
    client.delete(names.facts(number), *[names.peaks(number, place) for place in range(50)])


def garbage_everywhere(client, names, number):
    """Other bytes, another type, another offset."""
    client.set(names.slots(number, 5), b"garbage")
    client.delete(names.facts(number))
    client.set(names.facts(number), b"garbage")
    client.set(names.vitals(number), b"garbage")
    client.hset(names.state(number), mapping={"offset": b"garbage", "facts": b"\xff"})


def state_of_another_type(client, names, number):
    client.delete(names.state(number))
    client.set(names.state(number), b"garbage")


DAMAGES = [quarter_of_the_slots, all_facts_and_hours, garbage_everywhere, state_of_another_type]
"""Each is done to the partition of its place."""


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [len(DAMAGES)], indirect=True)
def test_what_is_lost_is_read_again(pipeline):
    """The next worker finds each damage, says so, and ends with the windows of an undisturbed run."""
    samples = make_samples(4 * len(DAMAGES), 600)  # the hour before the ring's, too: its peaks are in no slot
    pipeline.start_worker()
    pipeline.publish(samples)
    pipeline.await_exact()
    pipeline.workers[0].stop()
    with redis.Redis.from_url(pipeline.redis_url) as client:
        for number, damage in enumerate(DAMAGES):
            assert client.delete(pipeline.names.windows(number), pipeline.names.window_changes(number)), (
                "a partition has machines"
            )
            damage(client, pipeline.names, number)
    worker = pipeline.start_worker()
    pipeline.await_exact()
    said = set(re.findall(r"store\.(?:damaged partition=|foreign key=\S*\{)(\d+)", worker.log.read_text()))
    assert said == {str(number) for number in range(len(DAMAGES))}
    pipeline.publish(make_samples(3, 1))
    assert worker.running


@pytest.mark.parametrize("pipeline", [1], indirect=True)
def test_a_forgotten_machine_leaves_the_windows(pipeline):
    """By the next look; a rebuild from the log does not keep it, a new sample brings it back."""
    samples = make_samples(4, 30)
    pipeline.start_worker()
    pipeline.publish(samples)
    pipeline.await_exact()
    names = pipeline.names
    with redis.Redis.from_url(pipeline.redis_url) as client:
        note_forgotten(client, names, "m001")
        gone = lambda: set(pipeline.rows()) == {"m000", "m002", "m003"}  # noqa: E731
        await_condition(gone, "m001 is gone")
        pipeline.workers[0].kill()
        client.delete(names.vitals(0))  # all is read again from the log
        worker = pipeline.start_worker()
        await_condition(lambda: "stream.rebuilt" in worker.log.read_text(), "rebuilt")
        await_condition(gone, "m001 is gone again")
    pipeline.publish([one for one in make_samples(4, 1, end=time.time() + 10) if one.machine == "m001"])
    await_condition(lambda: "m001" in pipeline.rows(), "m001 sends again")


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [1], indirect=True)
def test_what_leaves_redis_under_a_worker_is_written_again(pipeline):
    pipeline.start_worker()
    pipeline.publish(make_samples(3, 360))
    pipeline.await_exact()
    names = pipeline.names
    with redis.Redis.from_url(pipeline.redis_url) as client:
        settled = lambda: decode_table(client.get(names.window_changes(0))).header.machines == 0  # noqa: E731
        await_condition(settled, "a base has all, and with it the slots")
        before = client.get(names.slots(0, 5))
        assert before
        keys = (names.slots(0, 5), names.vitals(0), names.windows(0), names.window_changes(0))
        client.delete(*keys)
        await_condition(lambda: client.exists(*keys) == len(keys), "all back")
        assert client.get(names.slots(0, 5)) == before
        for key in keys[2:]:
            client.delete(key)
            assert not pipeline.rows()
            pipeline.await_exact()


def reported(sample):
    """A sample, every sixth with a report of two instances."""
    if sample.seq % 6:
        return sample
    used = {name: InstanceMeans(cpu=float(sample.seq % 7), memory=1e9) for name in (f"{sample.machine}-a", "b")}
    report = InstanceReport(at=sample.at, interval_s=60.0, entries=used, system=InstanceMeans(cpu=0.5))
    return msgspec.structs.replace(sample, instance_report=report)


def figures(usage):
    return {
        name: [repr(getattr(usage, column)[..., row].tolist()) for column in COLUMNS] for name, row in usage.row.items()
    }


def stored(pipeline):
    found = {}
    with redis.Redis.from_url(pipeline.redis_url) as client:
        for number in range(pipeline.partitions):
            usage, raw = InstanceUsage(), client.get(pipeline.names.instance_usage(number))
            assert restore_usage(usage, raw)
            found |= figures(usage)
    return found


def straight(samples):
    usage = InstanceUsage()
    for one in samples:
        if one.instance_report is not None:
            usage.apply([(one.machine, one.instance_report)], Zone().day_numbers)
    return figures(usage)


def usage_gone_of_one(client, names):
    """As an eviction leaves it; the other partition has the kill alone."""
    assert client.delete(names.instance_usage(0))


def everything_gone(client, names):
    client.flushdb()


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [2], indirect=True)
@pytest.mark.parametrize("damage", [usage_gone_of_one, everything_gone])
def test_a_kill_between_two_writes(pipeline, damage):
    """A worker is killed with figures that it has not written; the next one ends with those of one pass."""
    samples = [reported(one) for one in make_samples(6, 120)]
    first = pipeline.start_worker("--instances-flush-s", "3600")
    pipeline.publish(samples[:90])
    pipeline.await_folded(90)
    pipeline.publish(samples[90:500])
    pipeline.await_folded(500)
    assert stored(pipeline) != straight(samples[:500]), "the figures have a pace of their own"
    first.kill()
    with redis.Redis.from_url(pipeline.redis_url) as client:
        damage(client, pipeline.names)
    second = pipeline.start_worker()
    pipeline.publish(samples[500:])
    pipeline.await_exact()
    second.stop()
    assert second.exit_code == 0
    assert stored(pipeline) == straight(samples)


def values(port, name):
    families = text_string_to_metric_families(get(port, "/metrics")[1])
    return [sample.value for family in families for sample in family.samples if sample.name == name]


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [1], indirect=True)
def test_a_worker_without_its_broker_is_not_ready_and_its_lag_grows(pipeline):
    """Although nothing that it knows of is waiting to be read."""
    port = free_port()
    worker = pipeline.start_worker("--metrics-port", str(port))
    pipeline.publish(make_samples(3, 20))
    await_condition(lambda: get(port, "/ready")[0] == 200, "ready")
    pipeline.await_exact()
    await_condition(lambda: values(port, "windward_stream_broker_up") == [1], "the broker is up")
    await_condition(lambda: json.loads(get(port, "/ready")[1])["caught_up_s"] > 0, "caught up")
    pipeline.broker.kill()
    await_condition(lambda: get(port, "/ready")[0] == 503, "not ready", 90)
    await_condition(lambda: json.loads(get(port, "/ready")[1])["caught_up_s"] == 0, "the worker is late")
    await_condition(lambda: values(port, "windward_stream_broker_up") == [0], "the broker is away")
    lag = values(port, "windward_stream_lag_seconds")[0]
    assert lag > 10
    await_condition(lambda: values(port, "windward_stream_lag_seconds")[0] > lag + 2, "the lag grows")
    assert worker.running
