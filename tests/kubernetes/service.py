"""A Service's address on loopback: each connection goes to the next process that takes it.

It can be cut, and it can be silent: connections stay open, new ones are taken, and nothing passes.
"""

import itertools
import socket
import threading
from contextlib import suppress

from ops.stack.servers.process import LOOPBACK, free_port


class Service(threading.Thread):
    def __init__(self, behind):
        super().__init__(daemon=True)
        self.port = free_port()
        self._behind, self._next = list(behind), itertools.count()
        self._passes = threading.Event()
        self._passes.set()
        self._lock, self._open = threading.Lock(), set[socket.socket]()
        self._listener = socket.create_server((LOOPBACK, self.port), backlog=256)

    def cut(self):
        with self._lock:
            closing, self._open = self._open, set()
        for each in closing:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def silence(self):
        """Let nothing pass from now on; what has come already may."""
        self._passes.clear()

    def pass_on(self):
        self._passes.set()

    def run(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client):
        self._passes.wait()
        server = self._connect()
        if server is None:
            client.close()
            return
        with self._lock:
            self._open |= {client, server}
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
        self._pump(server, client)

    def _connect(self):
        first = next(self._next)
        for place in range(len(self._behind)):
            with suppress(OSError):
                return socket.create_connection((LOOPBACK, self._behind[(first + place) % len(self._behind)]), 1.0)
        return None

    def _pump(self, source, target):
        with suppress(OSError):
            source.settimeout(None)
            while data := source.recv(1 << 16):
                self._passes.wait()
                target.sendall(data)
        with self._lock:
            self._open -= {source, target}
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._passes.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
