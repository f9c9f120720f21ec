"""How every command calls the scorer: a client, exit codes, errors on one line or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from schemas.names import Names
from schemas.process.connections import WindowsSettings
from schemas.process.failures import print_failure
from schemas.process.redis_url import connected, in_words
from schemas.process.settings import SettingsError
from schemas.process.tables import Screen, readable, readable_lines, screen
from schemas.rpc.request import InvalidRequest
from scorer.client import Client, MachinesResult, WindwardError
from scorer.client.call import refused_by
from scorer.commands.shared.direct import DirectClient, can_reach
from scorer.settings import ClientSettings, LedgerSettings

if TYPE_CHECKING:
    import redis

    from scorer.cluster_wire import WindowsWire
    from scorer.ledger.store.scripts import Ledger

_Told = TypeVar("_Told")
_Given = TypeVar("_Given", bound=ClientSettings)
Show = Callable[[_Told, Screen], str]
"""Returns an answer as text for a terminal."""
_Kind = TypeVar("_Kind", bound=msgspec.Struct)

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


def call(settings: ClientSettings, method: str, params: dict[str, Any]) -> Any:
    with client(settings) as scorer:
        return scorer.call(method, params)


def read(settings: ClientSettings, kind: type[_Kind], method: str, params: dict[str, Any]) -> _Kind:
    """Return the scorer's answer as the Struct of the method's result; raise WindwardError."""
    try:
        return msgspec.convert(call(settings, method, params), kind)
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


def no_such_machine(settings: ClientSettings, name: str | None) -> list[str]:
    """Return a warning where an answer has no machine because the requested one does not exist."""
    try:
        if name is not None:
            read_machine(settings, name)
    except WindwardError as error:
        return [error.message] if error.code == "NOT_FOUND" else []
    return []


def ask(
    settings: ClientSettings, kind: type[_Kind], method: str, params: dict[str, Any], show: Show[_Kind]
) -> tuple[int, _Kind | None]:
    """Call, and print the answer as JSON or by ``show``; return the exit code and the answer (None on an error)."""
    try:
        answer = read(settings, kind, method, params)
    except WindwardError as error:
        return report(error, method, settings), None
    tell(settings, answer, show)
    return OK, answer


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
