"""What benchmarks of the scorer share: a server, the names of a fleet, a scorer process."""

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
def own_scorer(url: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a scorer on that server, as it is by default, that ends with the block."""
    command = [sys.executable, "-m", "scorer", "--redis-url", url, "--log-level", "warning", *options]
    scorer = subprocess.Popen(command)
    try:
        yield scorer
    finally:
        stop(scorer, wait_s=20)


def server_process(wire: Wire) -> int:
    """Return the process of the server."""
    lines = wire.one("INFO", "server").decode().splitlines()
    return int(next(line.partition(":")[2] for line in lines if line.startswith("process_id:")))


def processor_us(process: int) -> float:
    """Return the processor time of all threads of a process."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


def machine_names(count: int) -> list[str]:
    """Return so many names of machines."""
    return [f"machine-{number:05d}" for number in range(count)]
