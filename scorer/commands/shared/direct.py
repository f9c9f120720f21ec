"""Shell: one call over one socket, without redis-py, whose import takes longer than the rest of a command.

Made for the command line: connect, log in, send the query, wait for the answer. Steps, deadlines and errors are those
of `scorer.client`. TLS, and options of a URL after a question mark, need redis-py (`can_reach`).
"""

import re
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from hiredis import HiredisError, Reader, ReplyError, pack_command

from schemas.values.secret_file import Login
from scorer.client import Client
from scorer.client.call import Away, refusal
from scorer.client.methods import Methods
from scorer.client.server import SOCKET_TIMEOUT_S

CONNECT_S = 2.0
_DATABASE = re.compile(r"/?|/\d+")
_READ_BYTES = 1 << 16


def can_reach(arguments: Mapping[str, Any]) -> bool:
    """Return whether this module supports these arguments of `schemas.process.redis_url.connected`.

    >>> can_reach({"url": "redis://127.0.0.1:6379/0"}), can_reach({"url": "unix:///run/redis.sock"})
    (True, True)
    >>> can_reach({"url": "rediss://a"}), can_reach({"url": "redis://a?db=1"})
    (False, False)
    """
    if arguments.keys() - {"url", "username", "password"}:
        return False
    scheme, _, rest = str(arguments["url"]).partition("://")
    if "?" in rest or "#" in rest:
        return False
    return scheme == "unix" or (scheme == "redis" and bool(_DATABASE.fullmatch(urlsplit(arguments["url"]).path)))


class DirectClient(Client):
    """A `scorer.client.Client` with its own connection to the server, for one call at a time."""

    def __init__(self, url: str, prefix: str, timeout_s: float, *, username: str = "", password: str = "") -> None:
        Methods.__init__(self, url, prefix, timeout_s)
        parts = urlsplit(url)
        self._path = unquote(parts.path) if parts.scheme == "unix" else ""
        self._host, self._port = parts.hostname or "localhost", parts.port or 6379
        database = parts.path.strip("/") if parts.scheme == "redis" else ""
        user = username or unquote(parts.username or "")
        secret = password or unquote(parts.password or "")
        self._login = Login(user, secret) if secret else None
        self._select = [("SELECT", database)] if database not in ("", "0") else []
        self._socket: socket.socket | None = None
        self._reader = Reader()

    def _do(self, step: Any) -> list[Any]:
        if not step.commands:
            time.sleep(step.wait_s)
            return []
        try:
            if self._socket is None:
                self._connect()
            return self._exchange(step.commands, step.wait_s + SOCKET_TIMEOUT_S)
        except BaseException:
            self.close()  # an unread answer must not be mistaken for that of another call
            raise

    def _connect(self) -> None:
        self._reader = Reader()
        try:
            if self._path:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._socket.settimeout(CONNECT_S)
                self._socket.connect(self._path)
            else:
                self._socket = socket.create_connection((self._host, self._port), CONNECT_S)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except TimeoutError:
            raise Away(f"Timeout connecting to {self._named}") from None
        except OSError as error:
            raise Away(f"Error {error.errno} connecting to {self._named}. {error.strerror}.") from None
        greeting = [("AUTH", *self._login.get_credentials())] if self._login else []
        if greeting + self._select:
            self._exchange(greeting + self._select, SOCKET_TIMEOUT_S)

    def _exchange(self, commands: Sequence[tuple[Any, ...]], wait_s: float) -> list[Any]:
        """Send commands in one write; return their answers."""
        assert self._socket is not None
        self._socket.settimeout(wait_s)
        try:
            self._socket.sendall(b"".join(map(pack_command, commands)))
            return [self._answer(self._socket) for _ in commands]
        except TimeoutError:
            raise Away(f"Timeout reading from {self._named}") from None
        except OSError as error:
            raise Away(f"Error while reading from {self._named}: {error}") from None
        except HiredisError as error:
            raise Away(f"{self._named} does not speak the protocol of Redis: {error}") from None

    def _answer(self, server: socket.socket) -> Any:
        while (answer := self._reader.gets()) is False:
            if not (read := server.recv(_READ_BYTES)):
                raise Away("Connection closed by server.")
            self._reader.feed(read)
        if isinstance(answer, ReplyError):
            raise refusal(str(answer).removeprefix("ERR "))
        return answer

    @property
    def _named(self) -> str:
        return self._path or f"{self._host}:{self._port}"

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
