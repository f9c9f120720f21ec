"""Settings of the extender, and the TLS of what it serves."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.settings import SettingsError, setting
from scorer.kubernetes.extender.extender import Mode
from scorer.kubernetes.kubernetes_settings import LOOPBACK, KubernetesSettings

DEFAULT_PORT = 2021
_FILES = ("listen_tls_cert_file", "listen_tls_key_file", "listen_client_ca_file")


@dataclass(frozen=True, kw_only=True)
class ExtenderSettings(KubernetesSettings):
    """Score nodes for kube-scheduler, as one of its extenders.

    Mode ``score`` answers ``prioritize`` alone and never blocks a pod. ``filter`` also refuses nodes that
    are hot, stale or cordoned. ``bind`` also reserves each pod in the ledger, within limits, and binds it. Beyond
    loopback the scheduler must have a certificate.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward extender --kubernetes east --redis-url redis://server:6379/0 --metrics-port 9469",
        "windward extender --kubernetes east --mode filter --profile koordinator",
    )

    mode: Mode = setting("score", "what the scheduler may ask: prioritize; filter too; bind too")
    listen_host: str = setting("127.0.0.1", "address of the verbs; beyond loopback TLS is required, of both ends")
    listen_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(DEFAULT_PORT, "their port")
    listen_tls_cert_file: Path | None = setting(None, "PEM file with the certificate of the verbs")
    listen_tls_key_file: Path | None = setting(None, "PEM file with its key")
    listen_client_ca_file: Path | None = setting(None, "PEM file with the authorities of the schedulers' certificates")
    client_names: tuple[str, ...] = setting(
        (), "names that a scheduler's certificate may have, as subject or DNS; none: any of these authorities",
        metavar="NAME",
    )  # fmt: skip
    scheduler_names: tuple[str, ...] = setting(
        (), "schedulerName of the pods that are scored and filtered; none: all that are asked about", metavar="NAME"
    )
    profiles: tuple[Path, ...] = setting((), "TOML files with profiles", metavar="FILE")
    profile: str = setting(
        "windward", "profile by which nodes are scored, without the filters that are left to Kubernetes"
    )
    scored_max: Annotated[int, Meta(ge=1, le=100_000)] = setting(
        500, "nodes that get a score above 0; the more the slower"
    )
    refresh: Annotated[float, Meta(ge=0.05, le=60)] = setting(
        0.5, "time between two reads of the windows", duration=True
    )
    metrics_host: str = setting("127.0.0.1", "address of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "their port; 0: none")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in _FILES if getattr(self, name)]
        if given and len(given) < len(_FILES):
            missing = ", ".join(name for name in _FILES if name not in given)
            raise ValueError(f"{missing}: required beside {', '.join(given)}")
        if not given and self.listen_host not in LOOPBACK:
            raise ValueError(f"{', '.join(_FILES)}: required where listen_host is not loopback: {self.listen_host}")
        if self.client_names and not given:
            raise ValueError("client_names: there are no certificates without listen_tls_cert_file")

    def server_tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of the verbs, None on loopback without certificates. Raises SettingsError."""
        if self.listen_tls_cert_file is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(self.listen_tls_cert_file, self.listen_tls_key_file)
            context.load_verify_locations(self.listen_client_ca_file)
        except OSError as error:
            raise SettingsError(f"{', '.join(_FILES)}: cannot be used: {error}") from None
        return context
