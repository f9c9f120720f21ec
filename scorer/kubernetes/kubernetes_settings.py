"""The settings of processes that read pods: the cluster, how its pods are read, and its API server."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from msgspec import Meta

from schemas.process.connections import RedisSettings
from schemas.process.settings import SettingsError, setting
from schemas.resources import PRIORITY_CLASSES
from scorer.kubernetes.pods_api import ApiServer
from scorer.kubernetes.pods_request import LABELS, Reading
from scorer.settings import LedgerSettings

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a service account's token and the authority of the API server."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,63}\Z")]


@dataclass(frozen=True, kw_only=True)
class ClusterSettings(RedisSettings):
    """The name of the cluster, and its API server."""

    GROUP: ClassVar[str] = ""

    kubernetes: Name = setting(
        "", "name of the cluster: the label `kubernetes` of its instances; required", metavar="NAME"
    )
    api_url: str = setting("", "API server, as that of `kubectl proxy`; default: that of the pod it runs in")
    token_file: Path | None = setting(None, "file with the token for it, read for each call")
    api_ca_file: Path | None = setting(None, "PEM file with the authorities to trust for it")
    labels: tuple[str, ...] = setting(LABELS, "labels of pods that their instances keep", metavar="LABEL")
    classes: tuple[str, ...] = setting(
        (), "class of the pods of a Kubernetes priority class, before all else", metavar="PRIORITYCLASS=CLASS"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for one in self.classes:
            name, _, priority_class = one.partition("=")
            if not name or priority_class not in PRIORITY_CLASSES:
                raise ValueError(
                    f"classes: {one!r} is not PRIORITYCLASS=CLASS, with one of {', '.join(PRIORITY_CLASSES)}"
                )

    @property
    def reading(self) -> Reading:
        """How pods are read as instances. Raises SettingsError."""
        if not self.kubernetes:
            raise SettingsError("kubernetes: required: instances of several clusters are told apart by it")
        return Reading(self.kubernetes, self.labels, dict(one.split("=", 1) for one in self.classes))

    def api(self, environ: Mapping[str, str]) -> ApiServer:
        """Return the API server of the settings, or that of the pod in which this runs. Raises SettingsError."""
        token_file, ca_file = self.token_file, self.api_ca_file
        if self.api_url:
            try:
                url = urlsplit(self.api_url)
                host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
            except ValueError:
                host, port = "", 0
            if not host or url.scheme not in ("http", "https") or url.path not in ("", "/") or "@" in url.netloc:
                raise SettingsError("api_url: expected http://HOST:PORT or https://HOST:PORT")
            encrypted = url.scheme == "https"
            if token_file and not encrypted and host not in LOOPBACK:
                raise SettingsError("api_url: a token is sent over https:// only, or to loopback")
        elif host := environ.get("KUBERNETES_SERVICE_HOST", ""):
            port, encrypted = int(environ.get("KUBERNETES_SERVICE_PORT", "443")), True
            token_file, ca_file = token_file or ACCOUNT / "token", ca_file or ACCOUNT / "ca.crt"
        else:
            raise SettingsError("api_url: required outside of a pod: KUBERNETES_SERVICE_HOST is not set")
        try:
            tls = ssl.create_default_context(cafile=ca_file) if encrypted else None
            if token_file:
                token_file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"token_file or api_ca_file: cannot be used: {error}") from None
        return ApiServer(host=host, port=port, tls=tls, token_file=token_file)


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings(ClusterSettings, LedgerSettings):
    """The settings of processes that also read and write the ledger."""

    GROUP: ClassVar[str] = ""
