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
from schemas.process.logs import configure_logs
from schemas.process.presence import Presence, page_of
from schemas.process.settings import SettingsError, load_settings
from schemas.process.signals import Stop, handle_signals
from schemas.process.version import product_version
from scorer.live.live_fleet import refuse_modes
from scorer.ranking.profiles.catalogue import Profiles, load_profiles
from scorer.ranking.profiles.profile import ProfileError

log = logging.getLogger("windward.exporter")


SETTINGS = ExporterSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the exporter."""
    settings = load_settings(ExporterSettings, "exporter", argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    try:
        profiles = load_profiles(settings.profiles, settings.profile)
    except ProfileError as error:
        raise SettingsError(f"profiles: {error}") from None
    return run(settings, profiles)


def run(settings: ExporterSettings, profiles: Profiles) -> int:
    """Build the parts, serve until a signal, close everything."""
    refuse_modes(settings)
    reader = Reader(settings)
    exporter = Exporter(reader, _selection_of(settings), profiles, product_version())
    server = serve(exporter, settings)
    stop = Stop()

    def read_again() -> None:
        exporter.profiles = load_profiles(settings.profiles, settings.profile)
        log.info("exporter.profiles.reloaded")

    def refused(error: Exception) -> None:
        log.warning("exporter.profiles.refused", extra={"values": {"error": str(error)}})

    handle_signals(stop, read_again, refused)
    page = page_of(settings.metrics_host, settings.metrics_port, tls=bool(settings.metrics_tls_cert_file))
    log.info("exporter.start", extra={"values": {"page": f"{page}/metrics", "prefix": settings.names.prefix}})
    if settings.exposed and not (settings.metrics_tls_cert_file and settings.metrics_username):
        wanted = "metrics_tls_cert_file, metrics_username"
        log.warning("exporter.page.open", extra={"values": {"host": settings.metrics_host, "settings": wanted}})
    try:
        with Presence("exporter", settings.names, settings.redis_arguments(), page=page):
            stop.wait()
    finally:
        server.stop()
        reader.close()
    log.info("exporter.stop")
    return 0


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
