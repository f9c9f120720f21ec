"""``windward record``: keep a bounded recording of the fleet until SIGTERM (`ops.record` says how)."""

import time
from collections.abc import Mapping

from ops.record.entry import Position, RecordingError
from ops.record.folder import Folder
from ops.record.gathering import Gathering
from ops.record.ledger_log import LedgerLog
from ops.record.recorder import Metrics, Recorder
from ops.record.samples import Samples
from ops.record.settings import RecordSettings
from ops.record.state import State
from schemas.process.run import Process, command
from schemas.process.settings import SettingsError
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import refuse_modes
from scorer.wire import Wire
from streams.agent.__main__ import begin
from streams.fold.admission import Admission

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
    found = Process(work=recorder.run, registry=metrics.registry, ready=recorder.ready, first=first)
    for each in (wire, ledger_wire, windows or wire):
        found.closing.callback(each.close)
    return found


main = command("record", SETTINGS, build)
