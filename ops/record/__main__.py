"""``windward record``: keep a bounded recording of the fleet until SIGTERM (`ops.record` says how)."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping

from ops.record.entry import Position
from ops.record.folder import Folder
from ops.record.frames import RecordingError
from ops.record.gathering import Gathering
from ops.record.ledger_log import LedgerLog
from ops.record.metrics import Metrics
from ops.record.recorder import Recorder
from ops.record.samples import Samples
from ops.record.settings import RecordSettings
from ops.record.state import State
from schemas.process.pages import serve_pages
from schemas.process.presence import Presence, page_of
from schemas.process.settings import SettingsError, load_settings
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import refuse_modes
from scorer.wire import Wire
from streams.agent.__main__ import begin, stop_event
from streams.fold.admission import Admission

log = logging.getLogger("windward.record")

SETTINGS = RecordSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the recorder; return 2 when its folder cannot be used."""
    settings = load_settings(RecordSettings, "record", argv, environ)
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
    stop = stop_event()
    pages = None
    if settings.metrics_port:
        pages = serve_pages(
            metrics.registry, settings.metrics_host, settings.metrics_port, recorder.ready, fleet=settings.prefix
        )
    values = {"folder": str(settings.record_dir), "prefix": settings.names.prefix, "goes_on": last is not None}
    log.info("record.start", extra={"values": values})
    page = page_of(settings.metrics_host, settings.metrics_port)
    try:
        with Presence("record", settings.names, settings.redis_arguments(), page=page, ready=recorder.ready):
            recorder.run(stop)
    finally:
        for each in filter(None, (wire, ledger_wire, windows)):
            each.close()
        if pages is not None:
            pages.stop()
    log.info("record.stop")
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
