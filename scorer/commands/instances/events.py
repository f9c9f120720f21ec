"""``windward events``: what happened to instances, from the ledger's change log."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from schemas.process.settings import load_settings, setting
from schemas.process.tables import readable
from schemas.values.numbers import duration
from scorer.client import Event, WindwardError
from scorer.commands.shared import ask
from scorer.commands.shared.show import time_of
from scorer.settings import ClientSettings, LedgerServerSettings

_LATELY_S = 3600.0
_PAUSE_S = 1.0
"""Between two attempts to reach a server that is away."""


@dataclass(frozen=True, kw_only=True)
class EventsSettings(ClientSettings, LedgerServerSettings):
    """Say what happened to instances: placed, confirmed, updated, moving, moved, stayed, released, expired.

    Events are read from the ledger's change log, without a scorer, one a line. Those of the last hour are shown; with
    --follow those to come. The log is bounded: where events are missing a line says `gap`.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward events",
        "windward events --since 1d 'web-*' --json",
        "windward events --follow                # needs a terminal: Ctrl-C ends it",
    )

    id: tuple[str, ...] = setting((), "only of these instances; * stands for any characters", positional=True)
    follow: bool = setting(False, "wait for those to come")
    since: Annotated[float, Meta(gt=0, le=31 * 86_400)] | None = setting(
        None, "of so long ago and later; default: 1h, with --follow none", duration=True
    )
    after: str = setting("", "those after this `position` of an event", metavar="POSITION")


SETTINGS = EventsSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    settings = load_settings(EventsSettings, "events", argv, environ)
    return ask.run(settings, "events", _events, settings.ledger_url)


def _events(settings: EventsSettings) -> int:
    ago_s = settings.since or (0.0 if settings.follow or settings.after else _LATELY_S)
    with ask.client(settings, settings.ledger_url) as scorer:
        since = time.time() - ago_s if ago_s else None
        events, away = scorer.events(since=since, after=settings.after, follow=settings.follow), False
        while True:
            try:
                event = next(events, None)
            except WindwardError as error:
                if not (settings.follow and error.retryable):
                    raise
                if not away:
                    print(f"windward events: {readable(error.message)}: trying again", file=sys.stderr)  # noqa: T201
                away = True
                time.sleep(_PAUSE_S)
                continue
            if event is None:
                return ask.OK
            away = False
            if not settings.id or not event.id or any(fnmatchcase(event.id, one) for one in settings.id):
                print(_line(event, as_json=settings.json), flush=settings.follow)  # noqa: T201


def _line(event: Event, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(msgspec.to_builtins(event), separators=(",", ":"))
    event = readable(event)
    return f"{time_of(event.at)}  {event.event.ljust(9)}  {event.id.ljust(14)}  {_words(event)}".rstrip()


def _words(event: Event) -> str:
    """Return the machines of an event, and its reason, in words.

    >>> _words(Event(event="moved", at=0.0, position="", machine="m2", source="m1"))
    'm1 -> m2'
    >>> _words(Event(event="placed", at=10.0, position="", machine="m2", expires_at=310.0))
    'm2, for 5m'
    """
    where = {
        "moving": f"{event.machine} -> {event.target}",
        "stayed": f"{event.machine}, not {event.target}",
        "moved": f"{event.source} -> {event.machine}",
        "renamed": f"{event.machine}; {event.source} has another name",
    }.get(event.event, event.machine)
    lasts = f"for {duration(event.expires_at - event.at)}" if event.expires_at else ""
    return ", ".join(part for part in (where, lasts, event.why) if part)
