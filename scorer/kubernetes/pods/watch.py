"""Shell: the events of a watch, read by a thread of their own, and taken in batches.

    with Watch(api, PODS, version) as watch:
        while ...:
            events = watch.take(1.0)      # waits for the first only

A watch that ends, or is cut, between two events continues from the last version received. Any error is raised where
events are taken. At most `WAITING_MAX` events wait; the API server ends a watch that does not read, which is an error
as any other.
"""

import socket
import threading
import time
from collections import deque
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
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, Listed | Bookmark]] = deque()
        self._error: Exception | None = None
        self._closed = False
        self._socket: socket.socket | None = None

    def run(self) -> None:
        """Read until an error, or `close`."""
        try:
            while not self._closed:
                again_s = time.monotonic() + _SHORT_S
                for kind, one in self._api.watch(self._of, self._version, self._opened):
                    self._version = one.metadata.resource_version
                    if not self._put(kind, one):
                        return
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, again_s - time.monotonic())
        except Exception as error:  # raised again by `take`
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _opened(self, connection: socket.socket) -> None:
        with self._changed:
            self._socket = connection
            if self._closed:
                _shut(connection)

    def _put(self, kind: str, one: Listed | Bookmark) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < WAITING_MAX)
            self._waiting.append((kind, one))
            self._changed.notify_all()
            return not self._closed

    def take(self, wait_s: float) -> list[tuple[str, Listed | Bookmark]]:
        """Return the events so far, none after the timeout. Raises the error that ended the watch."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._error, wait_s)
            if self._error and not self._waiting:
                raise self._error
            found = [self._waiting.popleft() for _ in range(min(TAKEN_MAX, len(self._waiting)))]
            self._changed.notify_all()
            return found

    def close(self) -> None:
        """End the watch: its connection, and with it its thread."""
        with self._changed:
            self._closed = True
            if self._socket is not None:
                _shut(self._socket)
            self._changed.notify_all()
        self.join(5.0)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shut(connection: socket.socket) -> None:
    """Shut a connection down below its TLS layer, which another thread is reading."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
