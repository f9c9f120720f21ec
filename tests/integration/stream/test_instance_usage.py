"""Usage by instance through real processes: killed and lost state end with the figures of an undisturbed run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from ops.stack.servers.valkey import LocalValkey
from schemas.messages.instance_report import InstanceMeans, InstanceReport
from schemas.messages.sample import Sample
from schemas.names import Names
from schemas.tables.instance_table import COLUMNS
from streams.fold.instance_usage import InstanceUsage
from streams.fold.peaks import Zone
from streams.state.checkpoint import restore_usage
from tests.support.pipeline import Pipeline, make_samples


@pytest.fixture
def pipeline(broker: Any, names: Names, tmp_path: Path) -> Iterator[Pipeline]:
    """The pipeline without a worker, of two partitions."""
    with LocalValkey(directory=tmp_path / "valkey") as store:
        one = Pipeline(broker, store.url, names, tmp_path, partitions=2)
        yield one
        one.close()


def reported(sample: Sample) -> Sample:
    """A sample, every sixth with a report of two instances."""
    if sample.seq % 6:
        return sample
    used = {name: InstanceMeans(cpu=float(sample.seq % 7), memory=1e9) for name in (f"{sample.machine}-a", "b")}
    report = InstanceReport(at=sample.at, interval_s=60.0, entries=used, system=InstanceMeans(cpu=0.5))
    return msgspec.structs.replace(sample, instance_report=report)


def figures(usage: InstanceUsage) -> dict[str, Any]:
    """Every figure by pair."""
    return {
        name: [repr(getattr(usage, column)[..., row].tolist()) for column in COLUMNS] for name, row in usage.row.items()
    }


def stored(pipeline: Pipeline) -> dict[str, Any]:
    """The figures in Redis."""
    found: dict[str, Any] = {}
    with redis.Redis.from_url(pipeline.redis_url) as client:
        for number in range(pipeline.partitions):
            usage, raw = InstanceUsage(), client.get(pipeline.names.instance_usage(number))
            assert restore_usage(usage, raw)
            found |= figures(usage)
    return found


def straight(samples: list[Sample]) -> dict[str, Any]:
    """The figures of one pass."""
    usage = InstanceUsage()
    for one in samples:
        if one.instance_report is not None:
            usage.apply([(one.machine, one.instance_report)], Zone().day_numbers)
    return figures(usage)


def usage_gone_of_one(client: redis.Redis, names: Names) -> None:
    """As an eviction leaves it; the other partition has the kill alone."""
    assert client.delete(names.instance_usage(0))


def everything_gone(client: redis.Redis, names: Names) -> None:
    """A Redis that lost its data."""
    client.flushdb()


@pytest.mark.slow
@pytest.mark.parametrize("damage", [usage_gone_of_one, everything_gone])
def test_a_kill_between_two_writes(pipeline: Pipeline, damage: Callable[[redis.Redis, Names], None]) -> None:
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
