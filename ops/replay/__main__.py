"""``windward replay``: what would each profile have done with the same instances, in simulated time, without a server.

    windward replay TRACE ... --lifetimes openb_requests.csv.gz --machines 200 --days 3 --seeds 4 --plot page.png
    windward replay WORKLOAD.npz --profile windward --profile mine.toml

A TRACE is a public load trace or any recording that `windward fleet` plays: worlds are made from its series (fleet,
arrivals in bursts, lives, loads scaled; `ops.replay.worlds`), one a seed. A WORKLOAD has instances and a fleet of its
own: an .npz, or a folder of instances.csv, usage.csv and machines.csv (`ops.replay.workload_file`).

    windward replay A.json B.json

A source that ends in .json has the results of an earlier run (--json): they join those of the others in the tables.

Every profile meets the same arrivals, in simulated time, with the windows, credits, limits and ranking of a live
scorer. The references are always there: any feasible machine at random, a packer that knows the true peaks, and an
oracle that knows the whole future. The table has ratios to the baseline with 95 % intervals over the worlds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ops.replay.calibration import Chances
from ops.replay.comparison import Result, as_json
from ops.replay.contenders import Contenders
from ops.replay.measures import measure
from ops.replay.plots import save_page, save_reliability
from ops.replay.policies import Policy
from ops.replay.rebalancing import Moving
from ops.replay.report import markdown, print_report
from ops.replay.results_file import read_results
from ops.replay.simulation import RETRY_MINUTES, Outcome, simulate
from ops.replay.traces.find import read_lives, read_trace
from ops.replay.traces.trace import Part, part_of
from ops.replay.workload import Workload, WorkloadError
from ops.replay.workload_file import is_workload, read_workload
from ops.replay.worlds import Shape, build_world
from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.terminal import screen
from scorer.ranking.catalogue import load_profiles, read_profile
from scorer.ranking.plugins import PluginError
from scorer.ranking.profile import Profile, ProfileError
from scorer.rebalance.plan import Bounds


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """Compare profiles on the same instances, in simulated time, without a server.

    A TRACE is a public load trace or any recording that `windward fleet` plays: worlds are made from its series. A
    WORKLOAD has instances and a fleet of its own: an .npz, or a folder of instances.csv, usage.csv and machines.csv.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward replay TRACE --machines 200 --days 3 --seeds 4 --plot page.png",
        "windward replay WORKLOAD.npz --profile windward --profile mine.toml",
    )

    sources: tuple[str, ...] = setting(
        (), "traces, or workloads of your own", positional=True, metavar="TRACE|WORKLOAD"
    )
    profile: tuple[str, ...] = setting(
        (), "profile to compare, a name or a .toml file; all built-in ones if none is given", metavar="NAME|FILE"
    )
    profiles: tuple[str, ...] = setting((), "profile files or directories of your own", metavar="PATH")
    baseline: str = setting("", "profile that the others are compared with (default: the first)")
    machines: Annotated[int, Meta(ge=2, le=5_000)] = setting(200, "machines of a world made from a trace")
    days: Annotated[int, Meta(ge=1, le=60)] = setting(3, "its days; of more than one the first is history")
    seeds: Annotated[int, Meta(ge=1, le=1_000)] = setting(2, "worlds made from each trace")
    first_seed: Annotated[int, Meta(ge=0)] = setting(1, "seed of the first of them")
    lifetimes: str | None = setting(
        None, "table of requests with sizes and lives (openb); assumed ones without it", metavar="FILE"
    )
    lives: Annotated[float, Meta(gt=0)] = setting(10.0, "those lives are made so many times as long")
    load: Annotated[float, Meta(gt=0, le=1)] = setting(0.65, "mean CPU demand, as a share of the fleet's cores")
    requests: Annotated[float, Meta(gt=0, le=1)] = setting(0.8, "what is asked for, likewise")
    memory: bool = setting(False, "memory is asked for and measured, too, where the trace has it")
    part: Part = setting("all", "which machines and days of a trace are used")
    rebalance: tuple[Annotated[float, Meta(gt=0, le=100)], ...] = setting(
        (), "run every profile but the baseline also with so many of its instances moved an hour, at most",
        metavar="PERCENT",
    )  # fmt: skip
    gain_min: Annotated[float, Meta(ge=0, le=1)] = setting(
        Bounds.gain_min, "least gain of a move, as a part of a machine of mean size"
    )
    copy_gbit: Annotated[float, Meta(ge=0)] = setting(
        Moving.copy_gbit, "a move copies the instance's memory at so many Gbit/s; 0: moves cost nothing"
    )
    retry_minutes: Annotated[int, Meta(ge=1)] = setting(RETRY_MINUTES, "a refused instance asks again after so many")
    plot: str | None = setting(None, "draw the first world into this file, .png, .svg or .pdf", metavar="FILE")
    reliability: str | None = setting(
        None, "draw how far the chances that the first profile states can be relied on, over all worlds", metavar="FILE"
    )
    json: bool = setting(False, "print one JSON object")
    markdown: bool = setting(False, "print the tables as a page in Markdown has them")
    wide: bool = setting(False, "show every column, however narrow the terminal is")

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError("sources: name a trace or a workload")


SETTINGS = ReplaySettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the command."""
    settings = load_settings(ReplaySettings, "replay", argv, environ)
    try:
        profiles = _profiles(settings)
        earlier = [Path(source) for source in settings.sources if source.endswith(".json")]
        stated = _observed(settings, profiles[0])
        results, drawn = _replay(settings, profiles, list(_worlds(settings)), stated)
        results = [one for path in earlier for one in read_results(path)] + results
    except WorkloadError as error:
        raise SettingsError(str(error)) from None
    except (ProfileError, PluginError) as error:
        raise SettingsError(str(error)) from None
    baseline = settings.baseline or results[0].policy
    if settings.plot and drawn:
        _drawn("plot", settings.plot, lambda path: save_page(drawn, path))
    if stated is not None and settings.reliability:
        name = profiles[0].name
        _drawn("reliability", settings.reliability, lambda path: save_reliability(stated.found(), name, path))
    if settings.json:
        print(json.dumps(as_json(results, baseline), allow_nan=False))  # noqa: T201
    elif settings.markdown:
        print(markdown(results, baseline))  # noqa: T201
    else:
        print_report(results, baseline, screen(wide=settings.wide))
    return 0


def _profiles(settings: ReplaySettings) -> list[Profile]:
    """Return the profiles to compare, the baseline first."""
    catalogue = load_profiles(settings.profiles)
    names = settings.profile or tuple(catalogue.by_name)
    names = tuple(dict.fromkeys((settings.baseline, *names) if settings.baseline else names))
    found = [read_profile(Path(name)) if name.endswith(".toml") else catalogue.choose(name) for name in names]
    return (
        sorted(found, key=lambda one: one.name != (settings.baseline or "windward")) if not settings.profile else found
    )


def _worlds(settings: ReplaySettings) -> Iterator[Callable[[], Workload]]:
    """Yield what makes each world; a trace is read once."""
    lives = read_lives(Path(settings.lifetimes) if settings.lifetimes else None)
    shape = Shape(
        machines=settings.machines, days=settings.days, lives=settings.lives, load=settings.load,
        requests=settings.requests, memory=settings.memory,
    )  # fmt: skip
    for source in settings.sources:
        path = Path(source)
        if path.suffix == ".json":
            continue
        if is_workload(path):
            yield lambda path=path: read_workload(path)  # type: ignore[misc]
            continue
        trace = part_of(read_trace(path), settings.part)
        for seed in range(settings.first_seed, settings.first_seed + settings.seeds):
            yield lambda trace=trace, seed=seed: build_world(trace, lives, shape, seed)  # type: ignore[misc]


def _replay(
    settings: ReplaySettings,
    profiles: Sequence[Profile],
    worlds: Sequence[Callable[[], Workload]],
    chances: Chances | None,
) -> tuple[list[Result], list[Outcome]]:
    """Return the results of every policy in every world, and the outcomes of the first world."""
    contenders = _contenders(settings, profiles)
    results: list[Result] = []
    drawn: list[Outcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("making the first world", total=len(worlds) * len(contenders))
        done = 0.0
        for number, make in enumerate(worlds):
            world = make()
            for policy, mover in contenders.of(world):
                bar.update(task, description=f"{world.name} {world.seed}: {policy.name}")
                stated = chances.of(policy) if chances is not None else None
                outcome = simulate(
                    world,
                    policy,
                    mover=mover,
                    observer=stated or (lambda moment: None),
                    retry_minutes=settings.retry_minutes,
                    progress=lambda minute, done=done: bar.update(  # type: ignore[misc]
                        task,
                        completed=done + minute / world.minutes,  # noqa: B023
                    ),
                )
                done += 1
                if chances is not None and stated is not None:
                    chances.take(stated, outcome)
                results.append(_result(outcome, policy))
                if settings.plot and number == 0:
                    drawn.append(outcome)
    return results, drawn


def _contenders(settings: ReplaySettings, profiles: Sequence[Profile]) -> Contenders:
    movings = [
        Moving(share=percent / 100, gain_min=settings.gain_min, copy_gbit=settings.copy_gbit)
        for percent in settings.rebalance
    ]
    return Contenders(profiles, settings.baseline or profiles[0].name, movings)


def _result(outcome: Outcome, policy: Policy) -> Result:
    world = outcome.workload
    resolution = 1.0 / (len(world.machines) * max(world.minutes - world.fill_minutes, 1))
    return Result(world.name, world.seed, policy.name, policy.reference, measure(outcome), resolution)


def _observed(settings: ReplaySettings, profile: Profile) -> Chances | None:
    if settings.reliability is None:
        return None
    try:
        return Chances(profile)
    except ValueError as error:
        raise SettingsError(f"reliability: {error}") from None


def _drawn(name: str, path: str, save: Callable[[Path], None]) -> None:
    try:
        save(Path(path))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{name}: {path} cannot be written: {error}") from None
