"""Settings of the stream app."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.names import SILENT_S, SLOT_S, WINDOWS_S
from schemas.process.connections import WindowsSettings
from schemas.process.settings import setting
from streams.fold.admission import INSTANCES_MAX, MACHINES_MAX, READINGS_HZ_MAX, Admission
from streams.fold.peaks import Zone
from streams.fold.windows import check_windows
from streams.worker.topics import TopicSettings

Positive = Annotated[float, Meta(gt=0)]


@dataclass(frozen=True, kw_only=True)
class StreamSettings(TopicSettings, WindowsSettings):
    """Fold samples from Kafka into windows in Redis."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward stream --kafka broker:9092 --redis-url redis://server:6379/0",
        "windward stream --windows-s 5m,15m,1h --metrics-port 9464",
    )

    windows_s: tuple[int, ...] = setting(WINDOWS_S, "windows, ascending multiples of the slot")
    time_zone: str = setting("UTC", "zone whose days the daily peaks are of")
    flush_interval_s: Positive = setting(0.05, "shortest time between two writes to Redis")
    flush_share: Annotated[float, Meta(gt=0, le=1)] = setting(
        0.08, "largest share of time spent writing to Redis while catching up"
    )
    batch_messages: Annotated[int, Meta(ge=1, le=100_000)] = setting(1000, "messages folded at once")
    batch_wait_s: Positive = setting(0.005, "longest wait for a batch to fill")
    silent_s: Annotated[float, Meta(ge=SLOT_S)] = setting(float(SILENT_S), "silence after which a machine is dropped")
    readings_hz_max: Positive = setting(READINGS_HZ_MAX, "the most readings a second in a sample")
    machines_max: Annotated[int, Meta(ge=1)] = setting(
        MACHINES_MAX, "the most machines of a partition; beyond it new ones are refused"
    )
    instances_max: Annotated[int, Meta(ge=1)] = setting(
        INSTANCES_MAX,
        "the most pairs of machine and instance with usage in a partition; the longest silent are dropped",
    )
    instances_flush_s: Annotated[float, Meta(ge=0)] = setting(
        15.0, "shortest time between two writes of usage by instance"
    )
    session_timeout_s: Positive = setting(10.0, "silence after which the broker reassigns a worker's partitions")
    broker_check_s: Positive = setting(5.0, "time between two checks whether the topic is still the same")
    metrics_host: str = setting("127.0.0.1", "address of /metrics, /live and /ready")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "port of these pages; 0: none")

    def __post_init__(self) -> None:
        TopicSettings.__post_init__(self)
        WindowsSettings.__post_init__(self)
        check_windows(self.windows_s)
        Zone(self.time_zone)

    @property
    def admission(self) -> Admission:
        return Admission(
            readings_hz_max=self.readings_hz_max, machines_max=self.machines_max, instances_max=self.instances_max
        )
