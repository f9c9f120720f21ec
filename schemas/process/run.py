"""The life of every process with a Redis server.

    settings -> logs -> build -> pages -> first line -> heartbeats, work until SIGTERM -> close all -> last line

The agent, the bridge and the simulated fleet have no Redis, and the stream app is asyncio's: they do it themselves.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from schemas.process.logs import configure_logs
from schemas.process.pages import Ready, serve_pages, while_accepting
from schemas.process.presence import Presence, always_ready, page_of
from schemas.process.settings import load_settings
from schemas.process.signals import Stop, handle_signals


@dataclass(kw_only=True)
class Process:
    """A process that is built and does not run yet."""

    work: Callable[[Stop], object]
    """Runs until the event is set."""
    close: Sequence[Callable[[], object]] = ()
    """What closes the parts that were built, in the order of their making: called in reverse."""
    registry: CollectorRegistry | None = None
    """The metrics of its pages; None: it serves pages of its own, at ``page``."""
    page: str = ""
    ready: Ready = always_ready
    name: str = ""
    """Its name among processes of its kind; "": host and process id."""
    first: Mapping[str, Any] = field(default_factory=dict)
    """The values of its first line."""
    read_again: Callable[[], object] | None = None
    """Reads the profiles anew, at SIGHUP."""
    presence: Callable[..., Presence] = Presence
    """Makes the thread of its heartbeats, from the arguments of `Presence`."""


Build = Callable[[Any, Mapping[str, str]], Process]


def run(name: str, kind: type[Any], build: Build, argv: list[str], environ: Mapping[str, str], event: str = "") -> int:
    """Run a command's process until a signal; ``event``: the first word of its log lines. Raises SettingsError."""
    settings = load_settings(kind, name, argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    log, event = logging.getLogger(f"windward.{name.replace('-', '_')}"), event or name
    stop, host, port, process = Stop(), settings.metrics_host, settings.metrics_port, Process(work=Stop.wait)

    def read_again() -> None:
        if process.read_again is not None:
            process.read_again()
            log.info(f"{event}.profiles.reloaded")

    def refused(error: Exception) -> None:
        log.warning(f"{event}.profiles.refused", extra={"values": {"error": str(error)}})

    handle_signals(stop, read_again, refused)  # first: what is built may listen already
    process = build(settings, environ)
    page = process.page or page_of(host, port)
    named = {"name": process.name} if process.name else {}
    about: dict[str, Any] = {"name": process.name, "ready": process.ready}
    with ExitStack() as last, ExitStack() as closing:
        for each in process.close:
            closing.callback(each)
        if process.registry is not None and port:
            pages = serve_pages(process.registry, host, port, process.ready, fleet=settings.prefix)
            last.callback(pages.stop)
            about["ready"] = while_accepting(pages, process.ready)
        presence = process.presence(name, settings.names, settings.redis_arguments(), page=page, **about)
        log.info(f"{event}.start", extra={"values": {**named, **process.first}})
        with presence:
            process.work(stop)
    log.info(f"{event}.stop", extra={"values": named})
    return 0


def command(name: str, kind: type[Any], build: Build, event: str = "") -> Callable[[list[str], Mapping[str, str]], int]:
    """Return the ``main`` of a command that runs such a process."""

    def main(argv: list[str], environ: Mapping[str, str]) -> int:
        return run(name, kind, build, argv, environ, event)

    return main
