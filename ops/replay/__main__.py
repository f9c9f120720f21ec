"""``windward replay``: compare profiles on the same instances, in simulated time, without a server.

    windward replay TRACE|WORKLOAD|RECORDING|RESULTS.json ... --profile windward --profile mine.toml

`docs/replay.md` has the sources, the references and what the table says. Every profile meets the same arrivals, with
the windows, credits, limits and ranking of a live scorer. A source that ends in .json has the results of an earlier run
(--json): they are added to the tables. A policy's result in a world that is there twice counts once.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ops.record.entry import RecordingError
from ops.record.folder import RECORD_DIR, extent, is_recording
from ops.replay.recorded.recorded import read_recorded
from ops.replay.report.comparison import Result, as_json, once, read_results
from ops.replay.report.measures import measure
from ops.replay.report.report import markdown, print_report
from ops.replay.simulator.interfaces import Policy
from ops.replay.simulator.moves import Moving
from ops.replay.simulator.policies import runs
from ops.replay.simulator.simulation import RETRY_MINUTES, Outcome, simulate
from ops.replay.traces.formats import Lives, read_lives, read_trace
from ops.replay.traces.trace import Part, Trace, part_of
from ops.replay.workload import Workload, WorkloadError
from ops.replay.worlds.workload_file import is_workload, read_workload, workload_name
from ops.replay.worlds.worlds import MEMORY_LOAD, NIC_LOAD, Asks, Shape, build_world, with_batch, with_roles
from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import readable, readable_lines, screen
from schemas.values.numbers import duration
from scorer.ranking.inputs import by_class_filter
from scorer.ranking.profiles.catalogue import DEFAULT, load_profiles, read_profile
from scorer.ranking.profiles.profile import Profile, ProfileError


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


SETTINGS = ReplaySettings


def worlds(settings: ReplaySettings, missing: list[str]) -> Iterator[Callable[[], Workload]]:
    """Yield a function that makes each world; a trace is read once. Data that a recording lacks goes to ``missing``.

    Raises WorkloadError for two sources of one name: their results could not be told apart.
    """
    lives = read_lives(Path(settings.lifetimes) if settings.lifetimes else None)
    shape = Shape(**{one.name: getattr(settings, one.name) for one in fields(Shape) if one.name != "per_machine"})
    names: dict[str, Path] = {}

    def unique(name: str, path: Path) -> None:
        if name in names:
            raise WorkloadError(f"sources: {names[name]} and {path} are both named {name!r}; rename one")
        names[name] = path

    recorded = [path for path in settings.paths if not settings.sources or is_recording(path)]
    for given in ("last", "since", "until"):
        if getattr(settings, given) and not recorded:
            raise SettingsError(f"{given}: none of the sources is a recording of `windward record`")
    for path in settings.paths:
        if path in recorded:
            unique(path.name, path)
            span_s = _span_s(settings, path)
            yield lambda path=path, span_s=span_s: _recorded(path, span_s, missing)  # type: ignore[misc]
            continue
        if is_workload(path):
            unique(workload_name(path.name), path)
            yield lambda path=path: read_workload(path)  # type: ignore[misc]
            continue
        trace = part_of(read_trace(path), settings.part)
        unique(trace.family, path)
        for seed in range(settings.first_seed, settings.first_seed + settings.seeds):
            yield lambda trace=trace, seed=seed: _made(settings, trace, lives, shape, seed)  # type: ignore[misc]


def _made(settings: ReplaySettings, trace: Trace, lives: Lives, shape: Shape, seed: int) -> Workload:
    world = build_world(trace, lives, shape, seed)
    world = with_roles(world, settings.roles) if settings.roles else world
    return with_batch(world, settings.batch, round(settings.batch_every / 60)) if settings.batch else world


def _span_s(settings: ReplaySettings, path: Path) -> tuple[float, float]:
    try:
        return between(extent(path), settings.last, settings.since, settings.until)
    except RecordingError as error:
        raise WorkloadError(f"record_dir: {error}") from None
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _recorded(path: Path, span_s: tuple[float, float], missing: list[str]) -> Workload:
    world, lacks = read_recorded(path, *span_s)
    missing += lacks
    return world


def moment(text: str) -> float:
    """Return a moment as epoch s: ISO 8601, UTC where it names no zone, or epoch seconds.

    >>> moment("2026-11-22T09:00"), moment("2026-11-22 10:00+01:00"), moment("1795338000")
    (1795338000.0, 1795338000.0, 1795338000.0)

    Raises ValueError.
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            message = f"expected a time such as 2026-11-22T09:00 (UTC) or epoch seconds, got {text!r}"
            raise ValueError(message) from None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if not 0 <= seconds < 1e11:
        raise ValueError(f"expected epoch seconds, got {text!r}")
    return seconds


def between(whole: tuple[float, float], last_s: float | None, since: str, until: str) -> tuple[float, float]:
    """Return the two moments, by default those of the recording (``whole``); raises ValueError naming the setting.

    >>> between((0.0, 1e6), 3600.0, "", ""), between((0.0, 1e6), None, "5000", "1e4")
    ((996400.0, 1000000.0), (5000.0, 10000.0))
    """
    found = {"since": whole[0], "until": whole[1]}
    for name, text in (("since", since), ("until", until)):
        if text:
            try:
                found[name] = moment(text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    if last_s is not None:
        if since:
            raise ValueError("last: does not go together with since")
        found["since"] = found["until"] - last_s
    if found["since"] >= whole[1] or found["until"] <= whole[0]:
        name = "since" if found["since"] >= whole[1] else "until"
        first, last = (datetime.fromtimestamp(at, UTC).isoformat(timespec="minutes")[:16] for at in whole)
        raise ValueError(f"{name}: the recording is from {first} to {last} (UTC)")
    if found["until"] - found["since"] < 120:
        raise ValueError(f"until: expected two minutes at least after since, got {found['until'] - found['since']:g} s")
    return found["since"], found["until"]


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    settings = load_settings(ReplaySettings, "replay", argv, environ)
    missing: list[str] = []
    try:
        results = [one for path in settings.results for one in read_results(path)]
        baseline = settings.baseline or (results[0].policy if results else "")
        if settings.paths:
            profiles = _profiles(settings)
            baseline = profiles[0].name
            results += _replay(settings, profiles, list(worlds(settings, missing)))
        results = once(results)
    except (WorkloadError, ProfileError) as error:
        raise SettingsError(str(error)) from None
    if not results:
        raise SettingsError("sources: there are no results in these files")
    policies = dict.fromkeys(one.policy for one in results)
    if baseline not in policies:
        raise SettingsError(f"baseline: no policy {baseline!r} in these files; there are {', '.join(policies)}")
    if settings.json:
        print(json.dumps(as_json(results, baseline) | {"missing": missing}, allow_nan=False))  # noqa: T201
    else:
        for line in missing:
            print(readable(line), file=sys.stderr)  # noqa: T201
        if settings.markdown:
            print(readable_lines(markdown(results, baseline)))  # noqa: T201
        else:
            print_report(results, baseline, screen(wide=settings.wide))
    return 0


def _profiles(settings: ReplaySettings) -> list[Profile]:
    """Return the profiles to compare, the baseline first."""
    catalogue = load_profiles(settings.profiles)
    names = settings.profile or (DEFAULT, *catalogue.by_name)
    found: dict[str, str] = {}
    profiles = []
    for name in dict.fromkeys((settings.baseline, *names) if settings.baseline else names):
        profile = read_profile(Path(name)) if name.endswith(".toml") else catalogue.choose(name)
        if profile.name in found:
            raise SettingsError(
                f"profile: {found[profile.name]} and {name} are both named {profile.name!r}; rename one"
            )
        found[profile.name] = name
        profiles.append(profile)
    return profiles


def _replay(
    settings: ReplaySettings, profiles: Sequence[Profile], worlds: Sequence[Callable[[], Workload]]
) -> list[Result]:
    """Return the results of every policy in every world."""
    movings, evicting = _changes(settings, profiles)
    results: list[Result] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("making the first world", total=None)
        done = 0.0
        for make in worlds:
            world = make()
            running = runs(world, profiles, profiles[0].name, movings, evicting)
            bar.update(task, total=len(worlds) * len(running))
            while running:  # what a policy keeps is dropped after its run
                policy, changer = running.pop(0)
                bar.update(task, description=f"{world.name} {world.seed}: {policy.name}")
                outcome = simulate(
                    world,
                    policy,
                    changer,
                    retry_minutes=round(settings.retry / 60),
                    progress=lambda minute: bar.update(task, completed=done + minute / world.minutes),  # noqa: B023
                )
                done += 1
                results.append(_result(outcome, policy))
    return results


def _changes(settings: ReplaySettings, profiles: Sequence[Profile]) -> tuple[list[Moving], list[int]]:
    """Return the rates of moves, and the minutes between two evictions."""
    movings = [
        Moving(share=percent / 100, gain_min=settings.gain_min, copy_gbit=settings.copy_gbit)
        for percent in dict.fromkeys(settings.rebalance)
    ]
    evicting = [round(every_s / 60) for every_s in dict.fromkeys(settings.evict)]
    if evicting and not any(map(by_class_filter, profiles)):
        raise SettingsError("evict: no profile counts by class; give the filter `fits` of one a table `classes`")
    return movings, evicting


def _result(outcome: Outcome, policy: Policy) -> Result:
    world = outcome.workload
    resolution = 1.0 / (len(world.machines) * max(world.minutes - world.fill_minutes, 1))
    reasons: Counter[str] = Counter()
    for why, count in outcome.refusals.items():
        reasons[main_reason(why)] += count
    found = measure(outcome)
    return Result(
        world.name, world.seed, policy.name, policy.reference, found["steady"], found.get("fill"), resolution, reasons
    )


def main_reason(why: str) -> str:
    """Return the reason that refused most machines.

    >>> main_reason("0/3 feasible: 2 too much cpu promised, 1 stale"), main_reason("no machine has room")
    ('too much cpu promised', 'no machine has room')
    """
    return why.partition(" feasible: ")[2].partition(", ")[0].partition(" ")[2] or why
