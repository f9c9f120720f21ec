"""Settings of ``windward top``."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schemas.process.connections import WindowsSettings
from schemas.process.settings import setting
from scorer.settings import ClientSettings


@dataclass(frozen=True, kw_only=True)
class TopSettings(ClientSettings, WindowsSettings):
    """Watch the fleet: machines of highest load, their windows, risk, the fleet's spread, the newest decisions.

    Keys: c m n d k h a sort by cpu, memory, nic, disk, risk, soon (the chance to be hot within an hour), age; N by
    name; r reverses the order; / filters by name; s shows stale machines only; q ends.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward top",
        "windward top --once --sort memory --limit 10      # one frame, for a script or a mail",
    )

    once: bool = setting(False, "print one frame and exit")
    sort: Literal["cpu", "memory", "nic", "disk", "risk", "soon", "age", "machine"] = setting(
        "cpu", "order by", metavar="COLUMN"
    )
    reverse: bool = setting(False, "the other way round")
    filter: str = setting("", "only machines whose name contains this", metavar="TEXT")
    limit: Annotated[int, Meta(ge=1, le=10_000)] = setting(20, "with --once: the most machines printed")
    interval_s: Annotated[float, Meta(ge=0.2, le=3600)] = setting(2.0, "how often it looks")
