"""State that Redis lost in part, or that somebody wrote over, is never served as truth. Real processes throughout."""

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ops.stack.servers.valkey import LocalValkey
from schemas.names import Names
from schemas.tables.window_table import decode_table
from scorer.commands.machines.forget import note_forgotten
from tests.support.pipeline import Pipeline, await_condition, make_samples


@pytest.fixture
def pipeline(request: Any, broker: Any, names: Names, tmp_path: Path) -> Iterator[Pipeline]:
    """The pipeline without a worker, of one partition or as many as a test asks for."""
    with LocalValkey(directory=tmp_path / "valkey") as store:
        one = Pipeline(broker, store.url, names, tmp_path, partitions=getattr(request, "param", 1))
        yield one
        one.close()


def quarter_of_the_slots(client: redis.Redis, names: Names, number: int) -> None:
    """As an eviction leaves it."""
    client.delete(*[names.slots(number, position) for position in random.Random(1).sample(range(360), 90)])


def all_facts_and_hours(client: redis.Redis, names: Names, number: int) -> None:
    """The rest that an eviction may take."""
    client.delete(names.facts(number), *[names.peaks(number, place) for place in range(50)])


def garbage_everywhere(client: redis.Redis, names: Names, number: int) -> None:
    """Other bytes, another type, another offset."""
    client.set(names.slots(number, 5), b"garbage")
    client.delete(names.facts(number))
    client.set(names.facts(number), b"garbage")
    client.set(names.vitals(number), b"garbage")
    client.hset(names.state(number), mapping={"offset": b"garbage", "facts": b"\xff"})


def state_of_another_type(client: redis.Redis, names: Names, number: int) -> None:
    """No hash where the hash was."""
    client.delete(names.state(number))
    client.set(names.state(number), b"garbage")


DAMAGES = [quarter_of_the_slots, all_facts_and_hours, garbage_everywhere, state_of_another_type]
"""Each is done to the partition of its place."""


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [len(DAMAGES)], indirect=True)
def test_what_is_lost_is_read_again(pipeline: Pipeline) -> None:
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


def test_a_forgotten_machine_leaves_the_windows(pipeline: Pipeline) -> None:
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
def test_what_leaves_redis_under_a_worker_is_written_again(pipeline: Pipeline) -> None:
    """Within half a minute, without a new sample."""
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
