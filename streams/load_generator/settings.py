"""The load generator's settings."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.names import SLOT_S
from schemas.process.connections import RedisSettings
from schemas.process.settings import setting
from streams.agent.settings import PublishSettings, amount_of
from streams.load_generator.source.recording_file import Defaults

MACHINES = 200
BACKFILL_S_MAX = 3 * 3600


@dataclass(frozen=True, kw_only=True)
class FleetSettings(PublishSettings, RedisSettings):
    """Publish the load of a simulated or recorded fleet from one process.

    With --redis-url the instances that the ledger has on its machines run there: each adds to its machine's load and is
    reported, from when it is confirmed until it ends or moves.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward fleet --machines 20 --dry-run --once        # print the messages",
        "windward fleet --machines 200 --backfill-s 1h",
        "windward fleet --redis-url redis://127.0.0.1:6379/0    # with the ledger's instances",
    )
    ONE_CALL: ClassVar[bool] = True

    redis_url: str = setting("", "server whose scorers say which instances run; default: none run")
    instances_interval_s: Annotated[float, Meta(ge=SLOT_S, le=3600)] = setting(
        60.0, "time between two reports of instances"
    )
    backlog_records: Annotated[int, Meta(ge=1)] = setting(
        100_000, "records kept while the broker is away; the oldest are dropped first"
    )
    machines: Annotated[int, Meta(ge=1, le=100_000)] | None = setting(
        None, f"how many machines (default: {MACHINES}, or all of the recording)"
    )
    seed: int = setting(1, "the simulation's seed: the same seed is the same fleet")
    backfill_s: Annotated[float, Meta(ge=0, le=BACKFILL_S_MAX)] = setting(
        0.0, "how long a past to publish first, as fast as the broker takes them"
    )
    duration_s: Annotated[float, Meta(ge=0)] = setting(0.0, "stop after so long a present; 0: never")
    once: bool = setting(False, "publish the past and each machine's last full interval, then exit")
    dry_run: bool = setting(False, "print the messages as JSON lines instead of publishing them")
    recording: str | None = setting(None, "trace to replay, .npz, .csv or .csv.gz", metavar="FILE")
    speed: Annotated[float, Meta(gt=0)] = setting(1.0, "seconds of the recording that pass in one second")
    start_s: Annotated[float, Meta(ge=0)] = setting(0.0, "how far into the recording to start")
    cores: Annotated[float, Meta(gt=0)] = setting(8.0, "cores of a recorded machine if the recording has none")
    memory: str = setting("32Gi", "memory of a recorded machine if the recording has none")
    nic_speed: str = setting("1G", "link speed of a recorded machine, bit/s; recordings have none", metavar="SPEED")

    def __post_init__(self) -> None:
        PublishSettings.__post_init__(self)
        if self.redis_url:
            RedisSettings.__post_init__(self)
        _ = self.recorded_defaults

    @property
    def recorded_defaults(self) -> Defaults:
        """The capacities to use where the recording has none."""
        memory, nic_bits = amount_of("memory", self.memory), amount_of("nic_speed", self.nic_speed)
        return Defaults(cores=self.cores, memory=memory, nic=nic_bits / 8)
