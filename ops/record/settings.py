"""Settings of the recorder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.connections import PipelineSettings
from schemas.process.settings import setting
from scorer.settings import LedgerSettings

RECORD_DIR = Path("recording")


@dataclass(frozen=True, kw_only=True)
class RecordSettings(LedgerSettings, PipelineSettings):
    """Record a live fleet, for `windward replay --last 7d`: usage and machines of instances, and decisions.

    Files by hour in one folder, compressed, bounded in size: the oldest are removed. Writes nothing elsewhere. One
    recorder is enough; it continues where the last one stopped, as far as Kafka and the ledger's change log reach back.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward record --record-dir /var/lib/windward/recording",
        "windward record --record-bytes 50000000000 --metrics-port 9468",
    )

    record_dir: Path = setting(RECORD_DIR, "folder of the recording, made where it is missing")
    record_bytes: Annotated[int, Meta(ge=2**24, le=2**50)] = setting(
        10 * 2**30, "bytes that all files together have at most; the oldest are removed"
    )
    write_s: Annotated[float, Meta(ge=1, le=600)] = setting(
        60.0, "how often an entry is written; a process that is killed loses what it had not written"
    )
    metrics_host: str = setting("127.0.0.1", "address of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "their port; 0: none")

    def __post_init__(self) -> None:
        LedgerSettings.__post_init__(self)
        PipelineSettings.__post_init__(self)
