"""Settings of the replay lab."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from ops.record.folder import RECORD_DIR
from ops.replay.simulator.moves import Moving
from ops.replay.simulator.simulation import RETRY_MINUTES
from ops.replay.traces.trace import Part
from ops.replay.worlds.worlds import MEMORY_LOAD, NIC_LOAD, Asks
from schemas.process.settings import setting
from schemas.values.numbers import duration


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """Compare profiles on the same instances, in simulated time, without a server.

    A TRACE is a public load trace or any recording that `windward fleet` plays: worlds are made from its series. A
    WORKLOAD has instances and a fleet of its own: an .npz, or a folder of instances.csv, usage.csv and machines.csv.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward replay TRACE --machines 200 --days 3 --seeds 4",
        "windward replay WORKLOAD.npz --profile windward --profile mine.toml",
        "windward replay --last 7d --profile mine.toml        # on the recording of this fleet",
    )

    ONE_CALL: ClassVar[bool] = True

    sources: tuple[str, ...] = setting(
        (), "traces, workloads of your own, or recordings of `windward record`", positional=True,
        metavar="TRACE|WORKLOAD|RECORDING",
    )  # fmt: skip
    record_dir: Path = setting(RECORD_DIR, "the recording that is replayed when a time but no source is given")
    last: Annotated[float, Meta(ge=120)] | None = setting(
        None, "replay the end of a recording, of this length: 7d", duration=True
    )
    since: str = setting("", "replay a recording from this time on: 2026-11-22T09:00 (UTC), or epoch seconds")
    until: str = setting("", "until this time; default: the end of the recording", metavar="TIME")
    profile: tuple[str, ...] = setting(
        (), "profile to compare, a name or a .toml file; all built-in ones if none is given", metavar="NAME|FILE"
    )
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own", metavar="PATH")
    baseline: str = setting(
        "",
        "profile that the others are compared with, a name or a .toml file (default: the first)",
        metavar="NAME|FILE",
    )
    machines: Annotated[int, Meta(ge=2, le=5_000)] = setting(200, "machines of a world made from a trace")
    days: Annotated[int, Meta(ge=1, le=60)] = setting(3, "its days; of more than one the first is history")
    seeds: Annotated[int, Meta(ge=1, le=1_000)] = setting(2, "worlds made from each trace")
    first_seed: Annotated[int, Meta(ge=0)] = setting(1, "seed of the first of them")
    lifetimes: str | None = setting(
        None, "table of requests with sizes and lives (openb); assumed ones without it", metavar="FILE"
    )
    lives: Annotated[float, Meta(ge=0.1, le=1_000)] = setting(10.0, "factor by which these lives are lengthened")
    load: Annotated[float, Meta(gt=0, le=1)] = setting(0.65, "mean CPU demand, as a share of the fleet's cores")
    requests: Annotated[float, Meta(gt=0, le=1)] = setting(0.8, "sum of the requests, as a share of the fleet's cores")
    asks: Asks = setting(
        "sizes",
        "what requests say: a VM's size; informed, the 95th percentile of the own use; misled, 3 or 0.5 times that",
    )
    unlike: bool = setting(False, "machines of 8 to 128 cores in place of 16 to 96")
    peaks: bool = setting(False, "six businesses whose instances peak together and come in waves")
    roles: Annotated[float, Meta(ge=0, le=1)] = setting(
        0.0,
        "clusters of three masters and replicas that use this share of a master: with moves, roles are exchanged, too",
    )
    batch: Annotated[float, Meta(ge=0, le=10)] = setting(
        0.0, "add instances of class batch, of the same trace, that would ask for this share of the fleet's cores"
    )
    batch_every: Annotated[float, Meta(ge=60, le=86_400)] = setting(
        240.0, "time between its bursts; of an hour or more: no instance of batch runs longer than this", duration=True
    )
    evict: tuple[float, ...] = setting(
        (),
        "time between evictions by `drain --evict`: profiles that count by class are run with them, too",
        duration=True,
    )
    memory: bool = setting(False, "request and measure memory, too, if the trace has it")
    memory_load: Annotated[float, Meta(gt=0, le=1)] = setting(
        MEMORY_LOAD, "mean memory demand, as a share of the fleet's memory"
    )
    nic: bool = setting(False, "request and measure the network, too; the trace must have its rates")
    nic_load: Annotated[float, Meta(gt=0, le=1)] = setting(
        NIC_LOAD, "mean network demand, as a share of the machines' line rates"
    )
    part: Part = setting("all", "which machines and days of a trace are used")
    rebalance: tuple[Annotated[float, Meta(gt=0, le=100)], ...] = setting(
        (),
        "per cent of the instances that may move in an hour: profiles but the baseline are run with moves, too",
        metavar="PERCENT",
    )
    gain_min: Annotated[float, Meta(ge=0, le=1)] | None = setting(
        None, "least gain of a move, in place of each profile's own, as a part of a machine of mean size"
    )
    copy_gbit: Annotated[float, Meta(ge=0)] = setting(
        Moving.copy_gbit, "rate at which a move copies the instance's memory, Gbit/s; 0: moves cost nothing"
    )
    retry: float = setting(60.0 * RETRY_MINUTES, "time until a refused instance asks again", duration=True)
    json: bool = setting(False, "print one JSON object")
    markdown: bool = setting(False, "print the tables as a page in Markdown has them")
    wide: bool = setting(False, "show every column, however narrow the terminal is")

    def __post_init__(self) -> None:
        if not self.sources and not (self.last or self.since or self.until):
            raise ValueError("sources: name a trace, a workload or a recording, or give last, since or until")
        if self.roles and self.batch:
            raise ValueError("roles: does not go together with batch")
        for name, times in (
            ("evict", self.evict), ("retry", (self.retry,)), ("batch_every", (self.batch_every,)),
        ):  # fmt: skip
            if wrong := [one for one in times if one < 60 or one % 60]:
                raise ValueError(f"{name}: expected whole minutes, such as 5m, got {duration(wrong[0])}")

    @property
    def results(self) -> list[Path]:
        """The sources that are results of earlier runs."""
        return [Path(source) for source in self.sources if source.endswith(".json")]

    @property
    def paths(self) -> list[Path]:
        if not self.sources:
            return [self.record_dir]
        return [Path(source) for source in self.sources if not source.endswith(".json")]
