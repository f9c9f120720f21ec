"""Connections to Kafka and Redis: their settings, and the arguments of each client library.

Passwords are never read from argv (`schemas.process.settings`). A URL with a password is refused, since other users can
read the command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import parse_qs, urlsplit

from msgspec import Meta

from schemas.names import Names
from schemas.process.redis_cluster import nodes_in
from schemas.process.redis_url import sentinels_in
from schemas.process.settings import SettingsError, setting

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, kw_only=True)
class CommonSettings:
    """Settings that all processes of one Windward must have in common."""

    GROUP: ClassVar[str] = "logs"

    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}\Z")] = setting(
        "windward", "first part of every Redis key and Kafka topic", group="Redis"
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "least severe log line that is shown")
    log_format: Literal["logfmt", "json"] = setting("logfmt", "form of the log lines on stderr")

    @property
    def names(self) -> Names:
        """Every key and topic under the prefix."""
        return Names(self.prefix)


def check_tls_files(settings: CommonSettings, end: str) -> None:
    """Refuse missing certificate files, and a key without a certificate; raises ValueError."""
    files = {name: getattr(settings, f"{end}_tls_{name}_file") for name in ("ca", "cert", "key")}
    for name, path in files.items():
        if path and not Path(path).is_file():
            raise ValueError(f"{end}_tls_{name}_file: there is no file {path!r}")
    if files["key"] and not files["cert"]:
        raise ValueError(f"{end}_tls_key_file: {end}_tls_cert_file is required beside it")


def tls_context(end: str, ca_file: str | None, cert_file: str | None, key_file: str | None) -> ssl.SSLContext:
    """Return the TLS context for ``end``, such as ``redis``. Raises SettingsError naming an unusable file."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise SettingsError(f"{end}_tls_ca_file: {ca_file} cannot be used: {error}") from None
    if cert_file:
        try:
            context.load_cert_chain(cert_file, key_file)
        except OSError as error:
            raise SettingsError(f"{end}_tls_cert_file: {cert_file} cannot be used: {error}") from None
    return context


@dataclass(frozen=True, kw_only=True)
class KafkaSettings(CommonSettings):
    """The broker."""

    GROUP: ClassVar[str] = "Kafka"

    kafka: str = setting("127.0.0.1:9092", "brokers, HOST:PORT separated by commas")
    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting(
        "PLAINTEXT", "security protocol of the brokers"
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = setting(
        "SCRAM-SHA-512", "SASL mechanism"
    )
    kafka_sasl_username: str | None = setting(None, "SASL user")
    kafka_sasl_password: str | None = setting(None, "SASL password", secret=True)
    kafka_tls_ca_file: str | None = setting(None, "PEM file with the authorities to trust")
    kafka_tls_cert_file: str | None = setting(None, "PEM file with this client's certificate")
    kafka_tls_key_file: str | None = setting(None, "PEM file with this client's key")

    def __post_init__(self) -> None:
        for broker in self.kafka.split(","):
            host, _, port = broker.strip().rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                got = "" if "@" in broker or "//" in broker else f", got {broker!r}"  # it may hold a password
                raise ValueError(f"kafka: expected HOST:PORT{got}")
        if self.kafka_security.startswith("SASL") and not (self.kafka_sasl_username and self.kafka_sasl_password):
            raise ValueError(
                f"kafka_sasl_username and kafka_sasl_password are required with kafka_security {self.kafka_security}"
            )
        check_tls_files(self, "kafka")

    @property
    def kafka_brokers(self) -> list[str]:
        return [broker.strip() for broker in self.kafka.split(",")]

    def kafka_ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, None for an unencrypted protocol.

        Raises SettingsError for files that hold no certificate or key.
        """
        if not self.kafka_security.endswith("SSL"):
            return None
        return tls_context("kafka", self.kafka_tls_ca_file, self.kafka_tls_cert_file, self.kafka_tls_key_file)

    def kafka_python_arguments(self) -> dict[str, Any]:
        """Return the connection arguments of kafka-python's producer, consumer and admin."""
        arguments: dict[str, Any] = {"bootstrap_servers": self.kafka_brokers, "security_protocol": self.kafka_security}
        if context := self.kafka_ssl_context():
            arguments["ssl_context"] = context
        if self.kafka_security.startswith("SASL"):
            arguments |= {
                "sasl_mechanism": self.kafka_sasl_mechanism,
                "sasl_plain_username": self.kafka_sasl_username,
                "sasl_plain_password": self.kafka_sasl_password,
            }
        return arguments


_NUMBERS = (
    "db", "health_check_interval", "max_connections", "protocol", "socket_connect_timeout", "socket_timeout", "timeout",
)  # fmt: skip
"""Options of a URL that redis-py reads as numbers."""


_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_OF_CLUSTERS = ("redis+cluster", "rediss+cluster")
_FORMS = {
    "": "redis://HOST:PORT/DATABASE",
    "sentinel": "redis+sentinel://HOST:PORT,HOST:PORT/NAME/DATABASE",
    "cluster": "redis+cluster://HOST:PORT,HOST:PORT",
}


def check_redis_url(name: str, given: str, *, cluster: bool = False) -> None:
    """Refuse a URL that cannot be used, or that has a password. No part of it is shown: it may be a secret.

    ``cluster``: accept that of a Cluster, too. Raises ValueError, which names the setting.
    """
    scheme = given.partition("://")[0] if "://" in given else ""
    if scheme not in _SCHEMES + _OF_CLUSTERS * cluster:
        forms = "unix://, redis+sentinel:// or redis+cluster://" if cluster else "unix:// or redis+sentinel://"
        raise ValueError(
            f"{name}: expected a redis://, rediss://, {forms} URL"
            + "; a cluster can have the windows alone (windows_url)" * ("cluster" in scheme)
        )
    try:
        behind, nodes = sentinels_in(given), nodes_in(given)
        url = urlsplit(behind.server if behind else nodes.url(nodes.hosts[0]) if nodes else given)
        _ = url.port  # read on demand, and only then refused
        options = parse_qs(url.query, keep_blank_values=True)
        for value in (value for name in _NUMBERS for value in options.get(name, ())):
            float(value)
    except ValueError:
        form = _FORMS[scheme.partition("+")[2]]
        raise ValueError(f"{name}: not a URL that can be parsed: expected {form}") from None
    if url.password or url.fragment or any("pass" in option.lower() for option in options):
        raise ValueError(f"{name}: holds a password; give it as WINDWARD_REDIS_PASSWORD instead")
    if url.scheme != "unix" and url.path.strip("/") and not url.path.strip("/").isdecimal():
        raise ValueError(f"{name}: expected a database number after the server")


@dataclass(frozen=True, kw_only=True)
class RedisSettings(CommonSettings):
    """The Redis or Valkey server."""

    GROUP: ClassVar[str] = "Redis"

    redis_url: str = setting(
        "redis://127.0.0.1:6379/0",
        "server: redis://, rediss:// or unix:// URL without password; behind sentinels: "
        "redis+sentinel://HOST:PORT,HOST:PORT/NAME/DATABASE",
    )
    redis_username: str | None = setting(None, "ACL user")
    redis_password: str | None = setting(None, "password", secret=True)
    redis_sentinel_username: str | None = setting(None, "ACL user of the sentinels")
    redis_sentinel_password: str | None = setting(None, "password of the sentinels", secret=True)
    redis_tls_ca_file: str | None = setting(None, "PEM file with the authorities to trust")
    redis_tls_cert_file: str | None = setting(None, "PEM file with this client's certificate")
    redis_tls_key_file: str | None = setting(None, "PEM file with this client's key")

    def __post_init__(self) -> None:
        check_redis_url("redis_url", self.redis_url)
        check_tls_files(self, "redis")

    def redis_arguments(self, url: str = "") -> dict[str, Any]:
        """Return the arguments of `schemas.process.redis_url.connected`, without timeouts or retries.

        ``url`` names another server that is reached in the same way.
        Raises SettingsError for files that hold no certificate or key.
        """
        given: dict[str, Any] = {
            "url": url or self.redis_url,
            "username": self.redis_username,
            "password": self.redis_password,
        }
        if "+sentinel://" in given["url"]:
            given |= {
                "sentinel_username": self.redis_sentinel_username,
                "sentinel_password": self.redis_sentinel_password,
            }
        if given["url"].startswith(("rediss://", "rediss+")):
            tls_context("redis", self.redis_tls_ca_file, self.redis_tls_cert_file, self.redis_tls_key_file)
            given |= {
                "ssl_ca_certs": self.redis_tls_ca_file,
                "ssl_certfile": self.redis_tls_cert_file,
                "ssl_keyfile": self.redis_tls_key_file,
            }
        return {key: value for key, value in given.items() if value}


@dataclass(frozen=True, kw_only=True)
class WindowsSettings(RedisSettings):
    """Where the windows are: all keys of a partition, and no other key (`schemas.names`)."""

    GROUP: ClassVar[str] = "Redis"

    windows_url: str = setting(
        "",
        "server of the windows, if they have one of their own, or redis+cluster://HOST:PORT,HOST:PORT; password, user "
        "and TLS as above",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_windows_url()

    def check_windows_url(self) -> None:
        """Refuse a URL that cannot be used; raises ValueError."""
        if self.windows_url:
            check_redis_url("windows_url", self.windows_url, cluster=True)

    def windows_arguments(self) -> dict[str, Any]:
        """Return the arguments of `schemas.process.redis_url.connected` for the windows, or of a Cluster's nodes."""
        return self.redis_arguments(self.windows_url)


@dataclass(frozen=True, kw_only=True)
class PipelineSettings(KafkaSettings, WindowsSettings):
    """Settings of Kafka and Redis, for the processes that use both."""

    def __post_init__(self) -> None:
        KafkaSettings.__post_init__(self)
        WindowsSettings.__post_init__(self)
