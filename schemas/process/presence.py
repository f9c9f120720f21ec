"""Heartbeats of a process in Redis, from a thread of their own: ``windward doctor`` names the one that stopped.

    start -> every 2 s: ask the server's time, write one field -> orderly stop: remove it

A process that is killed or frozen leaves its field, whose time grows old. Each kind of process has a hash of its own,
so that no Redis user can write for another. A hash needs neither SCAN nor a script to be read. Redis away, or a user
without the right, never stops the process: it is said once, and tried again.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.messages.process import BEAT_S, CLOCK_OFF_S, REMEMBERED_S, Process, read_processes
from schemas.names import Names
from schemas.process.pages import Ready
from schemas.process.redis_url import connected, in_words
from schemas.process.version import product_version

_TIMEOUT_S = 2.0
UNREADY_S = 1.0
"""Time between two heartbeats while the process is not ready: it may be at any moment."""
_READING_S = 0.25
"""A reading of the time that took longer is not used: this process, or the network, stood still."""


def always_ready() -> tuple[bool, dict[str, Any]]:
    """Return the state that `Presence` reports for a process without one of its own."""
    return True, {}


class Presence(threading.Thread):
    """Writes the heartbeats between ``start`` and `stop`, or inside ``with``.

    ``arguments``: those of ``redis.Redis.from_url``. ``tell_clock``: called with how far this host's clock is ahead of
    the server's. Without it a wrong clock is not logged.
    """

    every_s = 0.0
    """Time between two heartbeats; 0: by whether the process is ready."""

    def __init__(
        self,
        what: str,
        names: Names,
        arguments: dict[str, Any],
        *,
        name: str = "",
        page: str = "",
        ready: Ready = always_ready,
        tell_clock: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(name="presence", daemon=True)
        self._log = logging.getLogger(f"windward.{what}")
        self._key = names.processes(what)
        self._field = name or f"{socket.gethostname()}-{os.getpid()}"
        self._page, self._ready, self._tell_clock = page, ready, tell_clock
        self._user, self._version = arguments.get("username") or "", product_version()
        self._started_s = 0.0
        self._said = ""
        self.ahead_s = 0.0
        """How far this host's clock was ahead of the server's at the last reading."""
        self._stopping = threading.Event()
        self._server: redis.Redis = connected(
            redis.Redis, **arguments,
            socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, retry=Retry(NoBackoff(), 0),
        )  # fmt: skip

    @property
    def clock_off(self) -> bool:
        """Whether this host's clock is wrong by more than queries bear."""
        return abs(self.ahead_s) > CLOCK_OFF_S

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                wait_s = BEAT_S if self.beat() else UNREADY_S
                self._said = ""
            except (redis.RedisError, OSError) as error:
                wait_s = BEAT_S
                if not self._said:
                    log, self._said = self._log, in_words(error)
                    log.warning("process.heartbeat.failed", extra={"values": {"error": self._said}})
            self._stopping.wait(self.every_s or wait_s)

    def beat(self) -> bool:
        """Write one heartbeat; return whether it says that the process is ready.

        The first one also removes the fields of long-dead processes.
        """
        now_s = self._read_clock()
        if not self._started_s:
            known: Any = self._server.hgetall(self._key)
            live = {name for name, one in read_processes(known).items() if now_s - one.at <= REMEMBERED_S}
            if old := [name for name in known if name.decode(errors="replace") not in live]:
                self._server.hdel(self._key, *old)
            self._started_s = now_s
        ready, details = self._ready()
        said = Process(
            host=socket.gethostname(), pid=os.getpid(), version=self._version, started=self._started_s, at=now_s,
            clock_ahead_s=round(self.ahead_s, 3), page=self._page, ready=ready, details=details,
            user=self._user, beat_s=BEAT_S,
        )  # fmt: skip
        self._server.hset(self._key, self._field, said.encode())
        self._server.expire(self._key, 2 * round(REMEMBERED_S))
        return ready

    def _read_clock(self) -> float:
        """Return the server's time."""
        asked_at = time.monotonic()
        answer: Any = self._server.time()
        server_s = int(answer[0]) + int(answer[1]) / 1e6
        if time.monotonic() - asked_at <= _READING_S:
            self.tell(time.time() - server_s)
        return server_s

    def tell(self, ahead_s: float) -> None:
        """Report how far this host's clock is ahead; log when it goes wrong, and when it is right again."""
        was_off, self.ahead_s = self.clock_off, ahead_s
        if self._tell_clock is not None:
            self._tell_clock(ahead_s)
            if self.clock_off != was_off:
                log, values = self._log, {"ahead_s": round(ahead_s, 3)}
                log.warning("process.clock.off" if self.clock_off else "process.clock.right", extra={"values": values})

    def stop(self, *, goodbye: bool = True) -> None:
        """End the heartbeats; with ``goodbye`` the process is no longer expected to run."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=2 * _TIMEOUT_S)
        with suppress(redis.RedisError, OSError):
            if goodbye:
                self._server.hdel(self._key, self._field)
        self._server.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop(goodbye=kind is None)


def page_of(host: str, port: int, *, tls: bool = False) -> str:
    """Return the address of a process's pages; "" for port 0.

    >>> page_of("127.0.0.1", 9465), page_of("::1", 9465, tls=True), page_of("127.0.0.1", 0)
    ('http://127.0.0.1:9465', 'https://[::1]:9465', '')
    """
    if host in ("", "0.0.0.0", "::"):  # noqa: S104
        host = socket.gethostname()
    return f"http{'s' * tls}://{f'[{host}]' if ':' in host else host}:{port}" if port else ""
