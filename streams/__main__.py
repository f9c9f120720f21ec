"""``windward stream``: run one worker of the stream app until it is told to stop."""

import asyncio
import logging
import signal
from collections.abc import Mapping
from typing import Any

import uvloop
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Broken

from schemas.process.logs import configure_logs, quieten
from schemas.process.pages import serve_pages, while_accepting
from schemas.process.presence import Presence, page_of
from schemas.process.redis_cluster import nodes_in
from schemas.process.redis_url import connected
from schemas.process.settings import load_settings
from streams.worker.app import StreamApp
from streams.worker.servers import ClusterServers, Servers
from streams.worker.settings import StreamSettings

log = logging.getLogger("windward.stream")


SETTINGS = StreamSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the worker; return 0 after SIGTERM or SIGINT, 1 after an error."""
    settings = load_settings(StreamSettings, "stream", argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    for library in ("kafka", "aiokafka"):
        quieten(library)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        asyncio.set_event_loop(runner.get_loop())
        return runner.run(_run(settings))


# Every write is complete and may be repeated, and the app repeats it itself. The client repeats only what met a closed
# connection, once: the server, or a proxy, closes one that is idle between two flushes.
_ONCE = Retry(NoBackoff(), 1, (Broken,))
_OPTIONS: Any = {"socket_timeout": 10, "socket_connect_timeout": 5, "retry": _ONCE}
_OF_A_NODE: Any = {**_OPTIONS, "socket_timeout": 3, "socket_connect_timeout": 1}
"""A flush waits for the slowest of the nodes."""


def _windows(settings: StreamSettings, redis: Redis) -> Servers:
    """Return the servers of the partitions; ``redis``: the server of ``redis_url``."""
    arguments = settings.windows_arguments()
    if nodes := nodes_in(arguments["url"]):
        return ClusterServers(nodes, lambda url: connected(Redis, **{**arguments, "url": url, **_OF_A_NODE}))
    return Servers(connected(Redis, **arguments, **_OPTIONS) if settings.windows_url else redis)


async def _run(settings: StreamSettings) -> int:
    redis = connected(Redis, **settings.redis_arguments(), **_OPTIONS)
    windows = _windows(settings, redis)
    stream = StreamApp(settings, redis, windows)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    pages, ready = None, stream.ready
    if settings.metrics_port:
        pages = serve_pages(
            stream.metrics.registry, settings.metrics_host, settings.metrics_port, stream.ready, fleet=settings.prefix
        )
        ready = while_accepting(pages, stream.ready)
    presence = Presence(
        "stream", settings.names, settings.redis_arguments(), ready=ready,
        page=page_of(settings.metrics_host, settings.metrics_port), tell_clock=stream.tell_clock,
    )  # fmt: skip
    presence.start()
    stream.app.finalize()
    stopping = asyncio.ensure_future(stop.wait())
    waiting = asyncio.ensure_future(stream.topic.await_topic())
    await asyncio.wait({stopping, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        waiting.cancel()
        await asyncio.to_thread(presence.stop)
        await redis.aclose()
        await windows.aclose()
        return 0
    running = asyncio.ensure_future(stream.app.start())
    crashed = asyncio.ensure_future(stream.app._crashed.wait())
    await asyncio.wait({stopping, crashed}, return_when=asyncio.FIRST_COMPLETED)
    broke = not stop.is_set()
    if broke:
        log.error("stream.crashed", extra={"values": {"reason": repr(stream.app.crash_reason)}})
    else:
        await stream.drain()
        log.info("stream.drained")
    try:
        await asyncio.wait_for(stream.app.stop(), timeout=15)
    except Exception as error:  # the state is written: how Faust ends must not hide that
        log.warning("stream.stop.failed", extra={"values": {"error": repr(error)}})
    for task in (running, stopping, crashed):
        task.cancel()
    await asyncio.to_thread(presence.stop, goodbye=not broke)
    await redis.aclose()
    await windows.aclose()
    if pages is not None:
        pages.stop()
    return int(broke)
