"""What benchmarks of the scorer share: a server, the names of a fleet, a scorer process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scorer.wire import Wire
from tests.conftest import free_port, start_valkey, stop


@contextmanager
def own_server() -> Iterator[tuple[str, Wire]]:
    """Yield the URL of a server that ends with the block, and a connection to it."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        server = start_valkey(port, Path(directory))
        url = f"redis://127.0.0.1:{port}/0"
        wire = Wire({"url": url})
        try:
            yield url, wire
        finally:
            wire.close()
            stop(server)


@contextmanager
def own_scorer(url: str) -> Iterator[None]:
    """Run a scorer on that server, as it is by default, until the block ends."""
    scorer = subprocess.Popen([sys.executable, "-m", "scorer", "--redis-url", url, "--log-level", "warning"])
    try:
        yield
    finally:
        stop(scorer, wait_s=20)


def machine_names(count: int) -> list[str]:
    """Return so many names of machines."""
    return [f"machine-{number:05d}" for number in range(count)]
