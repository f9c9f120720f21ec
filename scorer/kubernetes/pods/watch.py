"""Shell: the events of a watch, read by a thread of their own, and taken in batches.

    with Watch(api, PODS, version) as watch:
        while ...:
            events = watch.take(1.0)      # waits for the first only

A watch that ends, or is cut, between two events continues from the last version received. Any error is raised where
events are taken. At most `WAITING_MAX` events wait; the API server ends a watch that does not read, which is an error
as any other.
"""

import queue
import socket
import threading
import time
from contextlib import suppress
from typing import Generic, Self

from scorer.kubernetes.pods_api import ApiServer, Listed, Objects
from scorer.kubernetes.pods_body import Bookmark

TAKEN_MAX = 500
"""The most events that are taken together."""
WAITING_MAX = 2_000
_SHORT_S = 1.0
"""The shortest time between two watches: a server, or a proxy, may end each one at once."""


class Watch(threading.Thread, Generic[Listed]):
    """Watches between ``start`` and `close`, or inside ``with``."""

    def __init__(self, api: ApiServer, of: Objects[Listed], version: str) -> None:
        super().__init__(name="watch", daemon=True)
        self._api, self._version = api, version
        self._of: Objects[Listed] = of
        self._waiting: queue.Queue[tuple[str, Listed | Bookmark] | Exception] = queue.Queue(WAITING_MAX)
        self._closed = threading.Event()
        self._socket: socket.socket | None = None

    def run(self) -> None:
        """Read until an error, or `close`."""
        try:
            while not self._closed.is_set():
                again_s = time.monotonic() + _SHORT_S
                for kind, one in self._api.watch(self._of, self._version, self._opened):
                    self._version = one.metadata.resource_version
                    self._waiting.put((kind, one))
                self._closed.wait(again_s - time.monotonic())
        except Exception as error:  # raised again by `take`
            self._waiting.put(error)

    def _opened(self, connection: socket.socket) -> None:
        self._socket = connection
        if self._closed.is_set():
            _shut(connection)

    def take(self, wait_s: float) -> list[tuple[str, Listed | Bookmark]]:
        """Return the events so far, none after the timeout. Raises the error that ended the watch."""
        found: list[tuple[str, Listed | Bookmark]] = []
        with suppress(queue.Empty):
            while len(found) < TAKEN_MAX:
                one = self._waiting.get(timeout=0.0 if found else wait_s)
                if isinstance(one, Exception):
                    self._waiting.put(one)
                    if not found:
                        raise one
                    break
                found.append(one)
        return found

    def close(self) -> None:
        """End the watch: its connection, and with it its thread."""
        self._closed.set()
        if self._socket is not None:
            _shut(self._socket)
        until_s = time.monotonic() + 5.0
        while self.is_alive() and time.monotonic() < until_s:
            with suppress(queue.Empty):
                self._waiting.get(timeout=0.01)  # the thread may wait for room

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shut(connection: socket.socket) -> None:
    """Shut a connection down below its TLS layer, which another thread is reading."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
