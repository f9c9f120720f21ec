"""How every command calls the scorer: a client, exit codes, errors on one line or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from schemas.names import Names
from schemas.process.failures import print_failure
from schemas.process.settings import SettingsError
from scorer.client import Client, ConfirmResult, PlaceResult, ReleaseResult, Result, UpdateResult, WindwardError
from scorer.commands.shared.direct import DirectClient, can_reach
from scorer.settings import ClientSettings

if TYPE_CHECKING:
    import redis

OK, FAILED, USAGE, NO_MACHINE, NO_ANSWER = range(5)
"""Exit codes, as `ops.cli.main` documents them."""

TRIES = 5
"""How often a patient call is made that fails because other callers changed the same machine."""
_Kind = TypeVar("_Kind", bound=Result)
_CODES = {"INVALID_ARGUMENT": USAGE, "DEADLINE_EXCEEDED": NO_ANSWER, "UNAVAILABLE": NO_ANSWER}


def call(settings: ClientSettings, method: str, params: dict[str, Any]) -> Any:
    """Return what the scorer answers; raise WindwardError."""
    Names(settings.prefix)  # refuses a prefix that no key can have
    arguments = settings.redis_arguments()
    kind = DirectClient if can_reach(arguments) else Client
    with kind(prefix=settings.prefix, timeout_s=settings.timeout, **arguments) as scorer:
        return scorer.call(method, params)


class Scorer:
    """The calls that change instances, as `scorer.planning.moves` makes them; the answers have the client's types."""

    def __init__(self, settings: ClientSettings, *, tries: int = 1) -> None:
        self._settings, self._tries = settings, tries

    def place(self, **request: Any) -> PlaceResult:
        """As `Client.place`."""
        return self._call(PlaceResult, "place", request)

    def confirm(self, id: str, **more: Any) -> ConfirmResult:  # noqa: A002
        """As `Client.confirm`."""
        return self._call(ConfirmResult, "confirm", {"id": id, **more})

    def update(self, id: str, **changes: Any) -> UpdateResult:  # noqa: A002
        """As `Client.update`."""
        return self._call(UpdateResult, "update", {"id": id, **changes})

    def release(self, id: str, **more: Any) -> ReleaseResult:  # noqa: A002
        """As `Client.release`."""
        return self._call(ReleaseResult, "release", {"id": id, **more})

    def _call(self, kind: type[_Kind], method: str, params: dict[str, Any]) -> _Kind:
        """Return the answer; call again while it is UNAVAILABLE and may succeed later. No call acts twice."""
        for left in reversed(range(self._tries)):
            try:
                return msgspec.convert(call(self._settings, method, params), kind)
            except WindwardError as error:
                if not (left and error.retryable and error.code == "UNAVAILABLE"):
                    raise
            except msgspec.ValidationError as error:
                raise WindwardError("INTERNAL", f"the answer cannot be read: {error}") from None
        raise AssertionError("the last try returns or raises")


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
