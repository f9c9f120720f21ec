"""Shell: the HTTP server of the pages and of other answers: waitress, with bounds on what clients can use.

At most ``connections_max`` connections are open. A further one closes the longest idle connection, so that a scrape is
answered however many idle connections others hold. A connection without a complete request for ``timeout_s`` is closed,
as is a connection whose client reads nothing of an answer for as long. An answer is one socket write, as far as the
socket accepts it. Where more than ``unsent_bytes_max`` wait for their readers, those that wait longest are closed
before the next answer is made.

waitress was chosen over http.server (a thread for each connection, no limit, no timeout). It was also chosen over
cheroot (a worker waits for each connection's request, so a few idle ones stop all scrapes). It does not support TLS;
`_TlsChannel` adds it.
"""

import logging
import os
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import WSGITask

from schemas.process.settings import SettingsError

log = logging.getLogger("windward.pages")

StartResponse = Callable[[str, list[tuple[str, str]]], Any]
File = str | Path
WsgiApplication = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

CONNECTIONS_MAX = 32
TIMEOUT_S = 10
UNSENT_BYTES_MAX = 64 * 2**20
THREADS = 2
PEER, SERVER = "windward.peer", "windward.server"
"""In the environment of a request: the client's certificate (``getpeercert``), if one was requested; the server."""
_REQUEST_BYTES_MAX = 16_384
_OWN_DESCRIPTORS = 2
"""The listening socket and the trigger, which waitress counts as connections."""
_IN_MEMORY_BYTES = 2**30
"""Longer answers would go through a temporary file, or make a worker wait for a slow reader."""


class _Task(WSGITask):  # type: ignore[misc]
    """An answer of the application: header, and the only part of the body, are written in one call."""

    def write(self: Any, data: bytes) -> None:
        header = b"" if self.wrote_header else self.build_response_header()
        self.wrote_header = True
        self.content_bytes_written += len(data)
        self.channel.write_soon(header + data)

    def get_environment(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environment()
        if isinstance(self.channel.socket, ssl.SSLSocket):
            environ[PEER] = self.channel.socket.getpeercert()
        return environ


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection; its ``last_activity`` is the time of its opening, or of its last answer."""

    task_class = _Task
    last_activity: float

    def handle_read(self) -> None:
        before = self.last_activity
        super().handle_read()
        self.last_activity = before

    def handle_error(self) -> None:
        """Close a connection whose bytes are no request; waitress would write a line of 700 letters about each."""
        self.handle_close()


class _Unready(Exception):
    """TLS has no decrypted bytes yet."""


class _TlsChannel(_Channel):
    """A connection with TLS; the handshake runs when bytes arrive, so a silent connection blocks no other."""

    def __init__(self, server: Any, sock: Any, *arguments: Any, **more: Any) -> None:
        sock.setblocking(False)
        wrapped = server.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        super().__init__(server, wrapped, *arguments, **more)

    def recv(self, buffer_size: int) -> Any:
        try:
            return super().recv(buffer_size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise _Unready from None

    def handle_read(self) -> None:
        with suppress(_Unready):
            super().handle_read()

    def send(self, data: bytes, do_close: bool = True) -> Any:
        try:
            return super().send(data, do_close)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0


class _Server(TcpWSGIServer):  # type: ignore[misc]
    """Closes the longest idle connection when there are too many."""

    channel_class = _Channel
    connections_max = CONNECTIONS_MAX
    unsent_bytes_max = UNSENT_BYTES_MAX
    context: ssl.SSLContext | None = None

    def maintenance(self, now: float) -> None:
        """Close connections that wait for too long, also where a reader takes none of its answer."""
        super().maintenance(now)
        for channel in self.active_channels.values():
            if channel.will_close:
                self.trigger.pull_trigger(channel.handle_close)

    def handle_accept(self) -> None:
        """Accept a connection; an error closes this connection only. Waitress would close the listener."""
        try:
            super().handle_accept()
            if len(self.active_channels) > self.connections_max:
                idle = [channel for channel in self.active_channels.values() if not channel.requests]
                if idle:
                    min(idle, key=lambda channel: channel.last_activity).handle_close()
        except Exception:
            log.debug("pages.accept.failed", exc_info=True)

    def make_room(self) -> None:
        """Close the connections whose answers wait longest, until the waiting bytes are within the bound."""
        waiting = [channel for channel in list(self.active_channels.values()) if channel.total_outbufs_len]
        beyond = self.unsent_bytes() - self.unsent_bytes_max
        for channel in sorted(waiting, key=lambda channel: channel.last_activity):
            if beyond <= 0:
                return
            beyond -= channel.total_outbufs_len
            self.trigger.pull_trigger(channel.handle_close)

    def unsent_bytes(self) -> int:
        """Return the bytes of answers that no reader has taken yet."""
        return sum(channel.total_outbufs_len for channel in list(self.active_channels.values()))


def server_context(what: str, cert: File, key: File | None, client_ca: File | None = None) -> ssl.SSLContext:
    """Return the TLS context of a listener; with authorities of clients each must have a certificate of theirs.

    Raises SettingsError, which begins with ``what``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
    except OSError as error:
        raise SettingsError(f"{what} cannot be used: {error}") from None
    return context


class PageServer:
    """A server that listens, run by a daemon thread of its own until `stop`.

    ``context`` makes it TLS. A longer body than ``body_bytes_max`` is answered by 413; ``threads`` requests are
    answered at a time. Raises SettingsError naming ``setting`` when it cannot listen on the address.
    """

    def __init__(
        self,
        application: WsgiApplication,
        host: str,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
        connections_max: int = CONNECTIONS_MAX,
        timeout_s: int = TIMEOUT_S,
        unsent_bytes_max: int = UNSENT_BYTES_MAX,
        body_bytes_max: int = 0,
        threads: int = THREADS,
        setting: str = "metrics_port",
    ) -> None:
        def bounded(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            self._server.make_room()
            return application(environ | {SERVER: self}, start_response)

        for name in ("waitress", "waitress.queue"):
            logging.getLogger(name).setLevel(logging.ERROR)  # many connections must not cause many log lines
        self._sockets: dict[int, Any] = {}
        try:
            self._server = _Server(
                bounded,
                map=self._sockets,
                adj=Adjustments(
                    host=host, port=port, ident="windward", threads=threads, backlog=128,
                    connection_limit=connections_max + _OWN_DESCRIPTORS + 1, channel_timeout=timeout_s,
                    cleanup_interval=1, asyncore_use_poll=True, log_socket_errors=False,
                    max_request_header_size=_REQUEST_BYTES_MAX, max_request_body_size=body_bytes_max + 1,
                    inbuf_overflow=body_bytes_max + 1, recv_bytes=2**16,
                    outbuf_overflow=_IN_MEMORY_BYTES, outbuf_high_watermark=_IN_MEMORY_BYTES,
                ),
            )  # fmt: skip
        except (OSError, ValueError) as error:
            wasyncore.close_all(self._sockets)
            why = getattr(error, "strerror", None) or error
            raise SettingsError(f"{setting}: cannot listen on {host}:{port}: {why}") from None
        self._server.connections_max, self._server.unsent_bytes_max = connections_max, unsent_bytes_max
        if context is not None:
            self._server.context, self._server.channel_class = context, _TlsChannel
        self._thread = Thread(target=self._server.run, name="pages", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on, also when ``port`` was 0."""
        return int(self._server.effective_port)

    @property
    def accepting(self) -> bool:
        """Whether it listens, and a descriptor is left for one more connection."""
        try:
            os.close(os.dup(self._server.socket.fileno()))
        except (OSError, AttributeError):  # a closed one has no socket
            return False
        return self._thread.is_alive()

    def stop(self) -> None:
        self._server.task_dispatcher.shutdown(timeout=1)
        if self._thread.is_alive():
            trigger = self._server.trigger
            with trigger.lock:  # the server, which closes the trigger, waits for this write
                trigger.thunks.append(lambda: wasyncore.close_all(self._sockets))
                trigger.pull_trigger()
            self._thread.join(timeout=5)
