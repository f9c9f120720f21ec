"""How every command calls the scorer: a client, exit codes, errors on one line or as JSON."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from hiredis import HiredisError, Reader, ReplyError, pack_command

from schemas.names import Names
from schemas.process.connections import WindowsSettings
from schemas.process.failures import print_failure
from schemas.process.redis_url import connected, in_words
from schemas.process.settings import SettingsError
from schemas.process.tables import Screen, readable, readable_lines, screen
from schemas.rpc.request import InvalidRequest
from schemas.values.secret_file import Login
from scorer.client import Client, InstanceRow, MachinesResult, WindwardError
from scorer.client.call import Away, refusal, refused_by
from scorer.client.clients import SOCKET_TIMEOUT_S, Methods
from scorer.settings import ClientSettings, LedgerSettings

if TYPE_CHECKING:
    import redis

    from scorer.cluster_wire import WindowsWire
    from scorer.ledger.store.scripts import Ledger


CONNECT_S = 2.0
_DATABASE = re.compile(r"/?|/\d+")
_READ_BYTES = 1 << 16


def can_reach(arguments: Mapping[str, Any]) -> bool:
    """Return whether `DirectClient` supports these arguments of `schemas.process.redis_url.connected`.

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
    """A `scorer.client.Client` with one socket of its own, for one call at a time.

    Importing redis-py takes longer than the rest of a command. TLS, and options of a URL after a question mark, need it
    (`can_reach`).
    """

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


_Told = TypeVar("_Told")
_Given = TypeVar("_Given", bound=ClientSettings)
Show = Callable[[_Told, Screen], str]
"""Returns an answer as text for a terminal."""
_Kind = TypeVar("_Kind", bound=msgspec.Struct)

_PAGE = 1_000
MACHINES_MAX = 1_000
"""Machines in one answer; a longer one would need a planner."""
OK, FAILED, USAGE, NO_MACHINE, NO_ANSWER = range(5)
"""Exit codes, as `ops.cli.main` documents them."""

_CODES = {"INVALID_ARGUMENT": USAGE, "DEADLINE_EXCEEDED": NO_ANSWER, "UNAVAILABLE": NO_ANSWER}


def run(settings: _Given, command: str, work: Callable[[_Given], int], where: str = "") -> int:
    """Return the exit code of the work; print an error of the scorer, or of a server (``where``: the scorers')."""
    try:
        return work(settings)
    except WindwardError as error:
        return report(error, command, settings)
    except InvalidRequest as error:
        raise SettingsError(str(error)) from None
    except _of_servers() as error:
        return unreachable(where or settings.redis_url, error, command, settings)


def _of_servers() -> tuple[type[Exception], ...]:
    """Return the errors of a server that is away or refuses. Only an error imports redis-py."""
    import redis

    from scorer.wire import AWAY

    return (*AWAY, redis.ResponseError)


def client(settings: ClientSettings, url: str = "") -> Client:
    """Return a client of the scorer, to be closed by the caller. ``url``: another server, that of the ledger."""
    Names(settings.prefix)  # refuses a prefix that no key can have
    arguments = settings.redis_arguments(url)
    kind = DirectClient if can_reach(arguments) else Client
    return kind(prefix=settings.prefix, timeout_s=settings.timeout, **arguments)


def read(settings: ClientSettings, kind: type[_Kind], method: str, params: dict[str, Any]) -> _Kind:
    """Return the scorer's answer as the Struct of the method's result; raise WindwardError."""
    try:
        with client(settings) as scorer:
            return msgspec.convert(scorer.call(method, params), kind)
    except msgspec.ValidationError as error:
        raise WindwardError("INTERNAL", f"the answer cannot be read: {error}") from None


def read_machine(settings: ClientSettings, name: str, profile: str = "") -> MachinesResult:
    """Return one machine as the scorer sees it; raises WindwardError, NOT_FOUND with similar names."""
    try:
        return read(settings, MachinesResult, "machines", {"names": [name], "profile": profile})
    except WindwardError as error:
        if error.code != "INVALID_ARGUMENT" or not error.message.startswith("names: "):
            raise
        refused = error
    from schemas.values.near import did_you_mean

    known, more = [""], True
    try:
        while more:
            answer = read(settings, MachinesResult, "machines", {"limit": MACHINES_MAX, "after": known[-1]})
            known += [row.machine for row in answer.machines]
            more = answer.more
    except WindwardError:
        raise refused from None
    hint = did_you_mean(name, known[1:])
    raise WindwardError("NOT_FOUND", f"no machine {name!r}{hint}")


def every_instance(scorer: Client, machine: str = "") -> list[InstanceRow]:
    """Return all live instances, or those of a machine, page by page."""
    rows: list[InstanceRow] = []
    more = True
    while more:
        page = scorer.instances(machine=machine, after=rows[-1].id if rows else "", limit=_PAGE)
        rows += page.instances
        more = page.more
    return rows


def no_such_machine(settings: ClientSettings, name: str | None) -> list[str]:
    """Return a warning where an answer has no machine because the requested one does not exist."""
    try:
        if name is not None:
            read_machine(settings, name)
    except WindwardError as error:
        return [error.message] if error.code == "NOT_FOUND" else []
    return []


def tell(settings: ClientSettings, answer: _Told, show: Show[_Told], indent: int | None = None) -> None:
    """Print an answer as JSON or by ``show``; nothing for an empty list of names.

    Raises SystemExit for a broken pipe, which must not count as a server that is away.
    """
    plain = msgspec.to_builtins(answer) if settings.json else None
    text = json.dumps(plain, indent=indent) if settings.json else shown(settings, answer, show)
    try:
        print(text, end="\n" if text else "", flush=True)  # noqa: T201
    except BrokenPipeError:
        raise SystemExit(FAILED) from None


def shown(settings: ClientSettings, answer: _Told, show: Show[_Told]) -> str:
    """Return an answer as text by ``show``, without characters that control a terminal."""
    return readable_lines(show(readable(answer), screen(wide=settings.wide)))


def report(error: WindwardError, command: str, settings: ClientSettings | None = None) -> int:
    """Print an error on one line, or as JSON if answers are JSON; return its exit code."""
    as_json = settings is not None and settings.json
    print_failure(command, error.code, error.message, as_json=as_json, with_code=True)
    return _CODES.get(error.code, FAILED)


def server(settings: ClientSettings) -> redis.Redis:
    """Return a connection to Redis, for reads and writes that need no scorer."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    found: redis.Redis = connected(redis.Redis, **settings.redis_arguments(), retry=Retry(NoBackoff(), 0))
    return found


@contextmanager
def open_windows(settings: WindowsSettings) -> Iterator[WindowsWire]:
    from scorer.cluster_wire import wire_to

    with closing(wire_to(settings.windows_arguments())) as wire:
        yield wire


@contextmanager
def open_ledger(settings: LedgerSettings) -> Iterator[Ledger]:
    """Open the ledger; raises WindwardError where it has another format."""
    from scorer.ledger.record.transition import UnknownFormat
    from scorer.ledger.store.scripts import Ledger
    from scorer.wire import Wire

    with closing(Wire(settings.ledger_arguments())) as wire:
        try:
            yield Ledger(wire, settings.names, **settings.ledger_bounds())
        except UnknownFormat as error:
            raise WindwardError("FAILED_PRECONDITION", str(error)) from None


def unreachable(where: str, error: Exception, command: str, settings: ClientSettings | None = None) -> int:
    """Print that a server did not answer, or refused; return the exit code."""
    import redis

    answered = isinstance(error, redis.ResponseError | redis.AuthenticationError)
    what = where if answered else f"no connection to {where}"
    return report(refused_by(what, Exception(in_words(error))), command, settings)


def one_id(given: Sequence[str], command: str) -> str:
    if len(given) != 1:
        raise SettingsError(f"id: expected one, as in `windward {command} ID`")
    return given[0]
