"""``windward replay``: compare profiles on the same instances, in simulated time, without a server.

    windward replay TRACE|WORKLOAD|RECORDING|RESULTS.json ... --profile windward --profile mine.toml

`docs/replay.md` has the sources, the references and what the table says. Every profile meets the same arrivals, with
the windows, credits, limits and ranking of a live scorer. A source that ends in .json has the results of an earlier run
(--json): they are added to the tables. A policy's result in a world that is there twice counts once.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ops.replay.report.comparison import Result, as_json, once, read_results
from ops.replay.report.measures import measure
from ops.replay.report.report import markdown, print_report
from ops.replay.settings import ReplaySettings
from ops.replay.simulator.interfaces import Policy
from ops.replay.simulator.moves import Evicting, Moving
from ops.replay.simulator.policies import runs
from ops.replay.simulator.simulation import Outcome, simulate
from ops.replay.sources import worlds
from ops.replay.workload import Workload, WorkloadError
from schemas.process.settings import SettingsError, load_settings
from schemas.process.tables import screen
from scorer.ranking.class_sums import by_class_filter
from scorer.ranking.profiles.catalogue import DEFAULT, Profiles, load_profiles, read_profile
from scorer.ranking.profiles.profile import Profile, ProfileError

SETTINGS = ReplaySettings


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
            print(line, file=sys.stderr)  # noqa: T201
        if settings.markdown:
            print(markdown(results, baseline))  # noqa: T201
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
        profile = _read(catalogue, name)
        if profile.name in found:
            raise SettingsError(
                f"profile: {found[profile.name]} and {name} are both named {profile.name!r}; rename one"
            )
        found[profile.name] = name
        profiles.append(profile)
    return profiles


def _read(catalogue: Profiles, name: str) -> Profile:
    return read_profile(Path(name)) if name.endswith(".toml") else catalogue.choose(name)


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
                policy, mover, evictor = running.pop(0)
                bar.update(task, description=f"{world.name} {world.seed}: {policy.name}")
                outcome = simulate(
                    world,
                    policy,
                    mover=mover,
                    evictor=evictor,
                    retry_minutes=round(settings.retry / 60),
                    progress=partial(_show, bar, task, done, world.minutes),
                )
                done += 1
                results.append(_result(outcome, policy))
    return results


def _show(bar: Progress, task: TaskID, done: float, minutes: int, minute: int) -> None:
    bar.update(task, completed=done + minute / minutes)


def _changes(settings: ReplaySettings, profiles: Sequence[Profile]) -> tuple[list[Moving], list[Evicting]]:
    movings = [
        Moving(share=percent / 100, gain_min=settings.gain_min, copy_gbit=settings.copy_gbit)
        for percent in dict.fromkeys(settings.rebalance)
    ]
    evicting = [Evicting(round(every_s / 60), _evicts_by(settings)) for every_s in dict.fromkeys(settings.evict)]
    if evicting and not any(map(by_class_filter, profiles)):
        raise SettingsError("evict: no profile counts by class; give the filter `fits` of one a table `classes`")
    return movings, evicting


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
    reasons: Counter[str] = Counter()
    for why, count in outcome.refusals.items():
        reasons[main_reason(why)] += count
    return Result(world.name, world.seed, policy.name, policy.reference, measure(outcome), resolution, reasons)


def main_reason(why: str) -> str:
    """Return the reason that refused most machines.

    >>> main_reason("0/3 feasible: 2 too much cpu promised, 1 stale"), main_reason("no machine has room")
    ('too much cpu promised', 'no machine has room')
    """
    return why.partition(" feasible: ")[2].partition(", ")[0].partition(" ")[2] or why
