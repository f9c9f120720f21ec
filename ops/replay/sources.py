"""The sources of a replay: worlds from traces, workloads, recordings of a live fleet and the time of these."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from ops.record.entry import RecordingError
from ops.record.folder import is_recording
from ops.record.reading import extent
from ops.replay.recorded.recorded import read_recorded
from ops.replay.settings import ReplaySettings
from ops.replay.traces.formats import read_lives, read_trace
from ops.replay.traces.openb import Lives
from ops.replay.traces.trace import Trace, part_of
from ops.replay.workload import Workload, WorkloadError
from ops.replay.worlds.workload_file import is_workload, read_workload, workload_name
from ops.replay.worlds.worlds import Shape, build_world, with_batch
from schemas.process.settings import SettingsError


def worlds(settings: ReplaySettings, missing: list[str]) -> Iterator[Callable[[], Workload]]:
    """Yield a function that makes each world; a trace is read once. Data that a recording lacks goes to ``missing``.

    Raises WorkloadError for two sources of one name: their results could not be told apart.
    """
    lives = read_lives(Path(settings.lifetimes) if settings.lifetimes else None)
    shape = Shape(
        machines=settings.machines, days=settings.days, lives=settings.lives, load=settings.load,
        requests=settings.requests, memory=settings.memory, memory_load=settings.memory_load,
        nic=settings.nic, nic_load=settings.nic_load,
        asks=settings.asks, unlike=settings.unlike, peaks=settings.peaks, grow=settings.grow,
    )  # fmt: skip
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
    return with_batch(world, settings.batch) if settings.batch else world


def _span_s(settings: ReplaySettings, path: Path) -> tuple[float, float]:
    try:
        return between(extent(path), settings.last, settings.since, settings.until)
    except RecordingError as error:
        raise WorkloadError(f"record_dir: {error}") from None
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _recorded(path: Path, span_s: tuple[float, float], missing: list[str]) -> Workload:
    world, lacks = read_recorded(path, *span_s)
    missing += lacks.lines(world)
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
