"""How every command calls the scorer: a client, exit codes, errors on one line or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from schemas.names import Names
from schemas.process.failures import print_failure
from schemas.process.settings import SettingsError
from scorer.client import Client, ConfirmResult, PlaceResult, ReleaseResult, UpdateResult, WindwardError
from scorer.commands.shared.direct import DirectClient, can_reach
from scorer.settings import ClientSettings

if TYPE_CHECKING:
    import redis

_Kind = TypeVar("_Kind", bound=msgspec.Struct)

OK, FAILED, USAGE, NO_MACHINE, NO_ANSWER = range(5)
"""Exit codes, as `ops.cli.main` documents them."""

_CODES = {"INVALID_ARGUMENT": USAGE, "DEADLINE_EXCEEDED": NO_ANSWER, "UNAVAILABLE": NO_ANSWER}


def call(settings: ClientSettings, method: str, params: dict[str, Any]) -> Any:
    """Return what the scorer answers; raise WindwardError."""
    Names(settings.prefix)  # refuses a prefix that no key can have
    arguments = settings.redis_arguments()
    kind = DirectClient if can_reach(arguments) else Client
    with kind(prefix=settings.prefix, timeout_s=settings.timeout, **arguments) as scorer:
        return scorer.call(method, params)


def read(settings: ClientSettings, kind: type[_Kind], method: str, params: dict[str, Any]) -> _Kind:
    """Return what the scorer answers as the Struct of the method's result; raise WindwardError."""
    return _converted(kind, call(settings, method, params))


def _converted(kind: type[_Kind], answer: Any) -> _Kind:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise WindwardError("INTERNAL", f"the answer cannot be read: {error}") from None


def ask(settings: ClientSettings, method: str, params: dict[str, Any], show: Callable[[Any], str]) -> tuple[int, Any]:
    """Ask, print the answer as JSON or as ``show`` puts it; return the exit code and the answer (None on an error)."""
    try:
        answer = call(settings, method, params)
    except WindwardError as error:
        return report(error, method, settings), None
    tell(settings, answer, show)
    return OK, answer


def tell(settings: ClientSettings, answer: Any, show: Callable[[Any], str]) -> None:
    """Print an answer as JSON or as ``show`` puts it."""
    print(json.dumps(answer) if settings.json else show(answer))  # noqa: T201


def report(error: WindwardError, command: str, settings: ClientSettings | None = None) -> int:
    """Print an error on one line, or as JSON where answers are; return its exit code."""
    as_json = settings is not None and settings.json
    print_failure(command, error.code, error.message, as_json=as_json, with_code=True)
    return _CODES.get(error.code, FAILED)


def server(settings: ClientSettings) -> redis.Redis:
    """Return a connection to Redis, for reads and writes that need no scorer."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis.from_url(**settings.redis_arguments(), retry=Retry(NoBackoff(), 0))


def unreachable(where: str, error: Exception, command: str, settings: ClientSettings | None = None) -> int:
    """Print that a server did not answer, or refused; return the exit code."""
    import redis

    what = where if isinstance(error, redis.ResponseError) else f"no connection to {where}"
    return report(WindwardError("UNAVAILABLE", f"{what}: {error}"), command, settings)


def one_id(given: Sequence[str], command: str) -> str:
    """Return the one id that was given."""
    if len(given) != 1:
        raise SettingsError(f"id: expected one, as in `windward {command} ID`")
    return given[0]


@dataclass(frozen=True)
class Scorer:
    """The calls that change instances, as `scorer.planning.moves` makes them."""

    settings: ClientSettings
    tries: int = 1
    """How often a call is made that fails because other callers changed the same machine; no call acts twice."""

    def place(self, **request: Any) -> PlaceResult:
        """As `Client.place`."""
        return self._read(PlaceResult, "place", request)

    def confirm(self, id: str, **more: Any) -> ConfirmResult:  # noqa: A002
        """As `Client.confirm`."""
        return self._read(ConfirmResult, "confirm", {"id": id, **more})

    def update(self, id: str, **changes: Any) -> UpdateResult:  # noqa: A002
        """As `Client.update`."""
        return self._read(UpdateResult, "update", {"id": id, **changes})

    def release(self, id: str, **more: Any) -> ReleaseResult:  # noqa: A002
        """As `Client.release`."""
        return self._read(ReleaseResult, "release", {"id": id, **more})

    def _read(self, kind: type[_Kind], method: str, params: dict[str, Any]) -> _Kind:
        for left in reversed(range(self.tries)):
            try:
                return read(self.settings, kind, method, params)
            except WindwardError as error:
                if not (left and error.retryable and error.code == "UNAVAILABLE"):
                    raise
        raise AssertionError("the last try returns or raises")
