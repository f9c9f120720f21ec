"""``windward record``: keep a bounded recording of the fleet until SIGTERM (`ops.record` says how)."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from ops.record.entry import Position, RecordingError
from ops.record.folder import RECORD_DIR, Folder
from ops.record.gathering import Gathering
from ops.record.ledger_log import LedgerLog
from ops.record.recorder import Metrics, Recorder
from ops.record.samples import Samples
from ops.record.state import State
from schemas.process.connections import PipelineSettings
from schemas.process.run import Process, command
from schemas.process.settings import SettingsError, setting
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import refuse_modes
from scorer.settings import LedgerSettings
from scorer.wire import Wire
from streams.agent.__main__ import begin
from streams.fold.admission import Admission


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


SETTINGS = RecordSettings


def build(settings: RecordSettings, _environ: Mapping[str, str]) -> Process:
    begin(settings)
    refuse_modes(settings)
    folder, metrics = Folder(settings.record_dir, settings.record_bytes), Metrics(product_version())
    try:
        last = folder.take()
    except RecordingError as error:
        raise SettingsError(str(error)) from None
    position, at = (last.position, last.at) if last is not None else (Position(), 0.0)
    wire, ledger_wire = Wire(settings.redis_arguments()), Wire(settings.ledger_arguments())
    windows = windows_wire(settings)
    recorder = Recorder(
        folder,
        lambda: Samples(settings, recorder.position, recorder.last_entry_s or at, time.time()),
        LedgerLog(Ledger(ledger_wire, settings.names), position.epoch, position.change, at),
        State(wire, settings.names, position.decision, windows),
        Gathering(Admission()),
        metrics,
        position=position,
        version=product_version(),
        write_s=settings.write_s,
    )
    first = {"folder": str(settings.record_dir), "prefix": settings.names.prefix, "goes_on": last is not None}
    close = [each.close for each in (wire, ledger_wire, windows or wire)]
    return Process(work=recorder.run, registry=metrics.registry, ready=recorder.ready, first=first, close=close)


main = command("record", SETTINGS, build)
