"""Settings of the load watcher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.connections import WindowsSettings
from schemas.process.settings import setting

DEFAULT_PORT = 2020
"""That of the load watcher which Trimaran's documentation starts."""
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


@dataclass(frozen=True, kw_only=True)
class LoadWatcherSettings(WindowsSettings):
    """Serve the windowed load of every node to Trimaran's plugins, as a load watcher: their ``watcherAddress``.

    It reads the windows and writes nothing. A node's name is its machine's id (``WINDWARD_MACHINE`` of its agent).
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward load-watcher --redis-url redis://server:6379/0",
        "windward load-watcher --window 5m --metrics-host 0.0.0.0",
    )

    metrics_host: str = setting("127.0.0.1", "address of the answers, and of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(DEFAULT_PORT, "their port")
    window: Annotated[int, Meta(ge=1, le=86_400)] = setting(
        900, "the window that is served; one of those that the stream app keeps", duration=True
    )
    stale: Seconds = setting(
        60.0, "a node whose data are older is left out, which scores 0; at least three of its intervals", duration=True
    )
    refresh: Annotated[float, Meta(ge=0.05, le=60)] = setting(
        5.0, "time between two reads of the windows", duration=True
    )
