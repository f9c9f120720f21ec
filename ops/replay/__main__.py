"""``windward replay``: compare profiles on the same instances, in simulated time, without a server.

    windward replay TRACE ... --lifetimes openb_requests.csv.gz --machines 200 --days 3 --seeds 4 --plot page.png
    windward replay WORKLOAD.npz --profile windward --profile mine.toml

A TRACE is a public load trace or any recording that `windward fleet` plays: worlds are made from its series (fleet,
arrivals in bursts, lives, loads scaled; `ops.replay.worlds`), one a seed. A WORKLOAD has instances and a fleet of its
own: an .npz, or a folder of instances.csv, usage.csv and machines.csv (`ops.replay.workload_file`).

    windward replay --last 7d --profile mine.toml

Replays the instances of a live fleet. The source is a recording of ``windward record`` (`ops.replay.recorded`): the
folder ``record_dir``, or one that is named. Data that it lacks is reported on stderr.

    windward replay A.json B.json

A source that ends in .json has the results of an earlier run (--json): they are added to the tables. A policy's result
in a world that is there twice counts once.

Every profile meets the same arrivals, in simulated time, with the windows, credits, limits and ranking of a live
scorer. The references are always there: any feasible machine at random, a packer that knows the true peaks, and an
oracle that knows the whole future. The table has ratios to the baseline with 95 % intervals over the worlds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ops.replay.calibration import Chances
from ops.replay.comparison import Result, as_json, once
from ops.replay.contenders import Contenders
from ops.replay.evictions import Evicting
from ops.replay.measures import measure
from ops.replay.plots import save_page, save_reliability
from ops.replay.policies import Policy
from ops.replay.rebalancing import Moving
from ops.replay.report import markdown, print_report
from ops.replay.results_file import read_results
from ops.replay.settings import ReplaySettings
from ops.replay.simulation import Outcome, simulate
from ops.replay.sources import is_recorded, worlds
from ops.replay.workload import Workload, WorkloadError
from schemas.process.settings import SettingsError, load_settings
from schemas.process.terminal import screen
from scorer.ranking.catalogue import Profiles, load_profiles, read_profile
from scorer.ranking.class_sums import by_class_filter
from scorer.ranking.profile import Profile, ProfileError
from scorer.ranking.third_party import PluginError

SETTINGS = ReplaySettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the command."""
    settings = load_settings(ReplaySettings, "replay", argv, environ)
    try:
        profiles = _profiles(settings) if settings.paths else []
        earlier = [Path(source) for source in settings.sources if source.endswith(".json")]
        stated = _observed(settings, profiles[0]) if profiles else None
        missing: list[str] = []
        results, drawn = _replay(settings, profiles, list(worlds(settings, missing)), stated) if profiles else ([], [])
        results = once([one for path in earlier for one in read_results(path)] + results)
    except WorkloadError as error:
        raise SettingsError(str(error)) from None
    except (ProfileError, PluginError) as error:
        raise SettingsError(str(error)) from None
    if not results:
        raise SettingsError("sources: there are no results in these files")
    baseline = settings.baseline or results[0].policy
    if settings.plot and drawn:
        _drawn("plot", settings.plot, lambda path: save_page(drawn, path))
    if stated is not None and settings.reliability:
        name = profiles[0].name
        _drawn("reliability", settings.reliability, lambda path: save_reliability(stated.found(), name, path))
    if not settings.json:
        for line in missing:
            print(line, file=sys.stderr)  # noqa: T201
    if settings.json:
        print(json.dumps(as_json(results, baseline) | {"missing": missing}, allow_nan=False))  # noqa: T201
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
    found = [_read(catalogue, name) for name in names]
    return (
        sorted(found, key=lambda one: one.name != (settings.baseline or "windward")) if not settings.profile else found
    )


def _read(catalogue: Profiles, name: str) -> Profile:
    return read_profile(Path(name)) if name.endswith(".toml") else catalogue.choose(name)


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
        task = bar.add_task("making the first world", total=None)
        done = 0.0
        for number, make in enumerate(worlds):
            world = make()
            bar.update(task, total=len(worlds) * contenders.count(world))
            for policy, mover, evictor in contenders.of(world):
                bar.update(task, description=f"{world.name} {world.seed}: {policy.name}")
                stated = chances.of(policy) if chances is not None else None
                outcome = simulate(
                    world,
                    policy,
                    mover=mover,
                    evictor=evictor,
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
    recorded = any(is_recorded(settings, path) for path in settings.paths)
    evicting = [Evicting(minutes, _evicts_by(settings)) for minutes in settings.evict]
    baseline = settings.baseline or profiles[0].name
    return Contenders(profiles, baseline, movings, evicting, recorded=recorded)


def _evicts_by(settings: ReplaySettings) -> Profile | None:
    if not settings.evict_profile:
        return None
    found = _read(load_profiles(settings.profiles), settings.evict_profile)
    if by_class_filter(found) is None:
        raise SettingsError(f"evict_profile: {found.name} counts all classes together; give `fits` a table `classes`")
    return found


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
