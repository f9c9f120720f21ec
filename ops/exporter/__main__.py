"""``windward exporter``: export the windowed load to Prometheus until SIGTERM. SIGHUP reads the profiles again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from ops.exporter.exporter import Exporter
from ops.exporter.labels import label_names
from ops.exporter.pages import serve
from ops.exporter.selection import Selection
from ops.exporter.settings import ExporterSettings
from ops.exporter.state import Reader
from schemas.process.pages import while_accepting
from schemas.process.presence import always_ready, page_of
from schemas.process.run import Process, run
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.live.live_fleet import profiles_of, refuse_modes
from scorer.ranking.profiles.catalogue import load_profiles

log = logging.getLogger("windward.exporter")


SETTINGS = ExporterSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the exporter."""
    return run("exporter", ExporterSettings, build, argv, environ)


def build(settings: ExporterSettings, _environ: Mapping[str, str]) -> Process:
    """Return the process of an exporter; it listens: it has one page."""
    profiles = profiles_of(settings)
    refuse_modes(settings)
    reader = Reader(settings)
    exporter = Exporter(reader, _selection_of(settings), profiles, product_version())
    server = serve(exporter, settings)
    if settings.exposed and not (settings.metrics_tls_cert_file and settings.metrics_username):
        wanted = "metrics_tls_cert_file, metrics_username"
        log.warning("exporter.page.open", extra={"values": {"host": settings.metrics_host, "settings": wanted}})

    def read_again() -> None:
        exporter.profiles = load_profiles(settings.profiles, settings.profile)

    page = page_of(settings.metrics_host, settings.metrics_port, tls=bool(settings.metrics_tls_cert_file))
    first = {"page": f"{page}/metrics", "prefix": settings.names.prefix}
    ready = while_accepting(server, always_ready)  # whether Redis can be read: its page says that
    found = Process(work=Stop.wait, page=page, ready=ready, read_again=read_again, first=first)
    for close in (reader.close, server.stop):
        found.closing.callback(close)
    return found


def _selection_of(settings: ExporterSettings) -> Selection:
    shard, shards = settings.shard_position
    return Selection(
        fleet=settings.names.prefix,
        windows_s=settings.windows,
        statistics=tuple(dict.fromkeys(settings.statistics)),
        shard=shard,
        shards=shards,
        labels=label_names(settings.labels),
        probe=settings.probe_request,
        per_machine=settings.per_machine,
        machines_max=settings.machines_max,
        top_instances=settings.top_instances,
    )


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
