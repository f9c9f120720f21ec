"""``windward fold``: print the windows of recorded samples, with the code of the stream app.

The file holds the messages of the samples topic, one JSON object a line (``-`` is standard input). ``--json`` prints
one object that ``windward rank --fleet-file`` reads:

    {"now": 1790000000.0, "windows_s": [300, 900, 3600],
     "machines": [{"name": "m1", "at": ..., "end": ..., "boot": ..., "age_s": 0, "window_age_s": -3, "interval_s": 10,
                   "skew_s": 0, "capacity": {"cpu": 64, ...}, "labels": {},
                   "windows": {"300": {"cpu": {"mean": ..., "std": ..., "max": ..., "p50": ..., "p90": ..., "p95": ...,
                                               "p99": ..., "filled": 30, "coverage": 1.0, "warming": false}, ...}, ...},
                   "peak_today": {"cpu": ...}, "peak_yesterday": {"cpu": ...}, "peak_since": ...,
                   "classes": {"prod": {"cpu": ...}}}],
     "counts": {"accepted": 360, ...},
     "refused": [{"line": 3, "reason": "malformed", "detail": "..."}]}

``now`` is the newest event time in the file; usage by class is over the longest window.
Amounts are in base units; what is unknown is null. Lines refused are named on stderr too. Exit 1 when no line was used.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from schemas.messages.sample import MachineFacts, Rejected, decode
from schemas.names import WINDOWS_S
from schemas.process.connections import CommonSettings
from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Column, Screen, readable, screen, table
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.tables.window_table import PERCENTILES, WARMING_COVERAGE, WindowTable, aligned, decode_table
from schemas.values.numbers import amount, duration, finite
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.table import Table
from streams.fold.windows import check_windows
from streams.state.partition import Partition

BATCH = 10_000


@dataclass(frozen=True, kw_only=True)
class FoldSettings(CommonSettings):
    """Print the windows of recorded samples."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward fold docs/examples/samples.jsonl",
        "windward fold docs/examples/samples.jsonl --json | windward rank --fleet-file /dev/stdin --cpu 2",
    )

    file: str = setting(help="file with one message a line; - is standard input", positional=True, metavar="FILE")
    windows_s: tuple[int, ...] = setting(WINDOWS_S, "windows, ascending multiples of the slot")
    time_zone: str = setting("UTC", "zone whose days the daily peaks are of")
    json: bool = setting(False, "print one JSON object")
    wide: bool = setting(False, "show every column, however narrow the terminal is")

    def __post_init__(self) -> None:
        check_windows(self.windows_s)
        Zone(self.time_zone)


SETTINGS = FoldSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    settings = load_settings(FoldSettings, "fold", argv, environ)
    try:
        lines = sys.stdin.buffer.readlines() if settings.file == "-" else Path(settings.file).read_bytes().splitlines()
    except OSError as error:
        raise SettingsError(f"file: {settings.file} cannot be read: {error.strerror}") from None
    result = fold_lines(lines, settings.windows_s, settings.time_zone)
    for refused in result["refused"]:
        said = readable(f"line {refused['line']}: {refused['reason']}: {refused['detail']}")
        print(said, file=sys.stderr)  # noqa: T201
    if settings.json:
        print(json.dumps(result, allow_nan=False))  # noqa: T201
    else:
        _show(result, screen(wide=settings.wide))
    return 0 if result["machines"] else 1


def fold_lines(lines: Iterable[bytes], windows_s: tuple[int, ...], time_zone: str) -> dict[str, Any]:
    """Return the JSON object described in the module's docstring; a record's time is the end of its sample."""
    partition = Partition(0, Table(windows_s, Zone(time_zone)))
    arrived = _read(lines)
    counts: dict[str, int] = {}
    refused = []
    for start in range(0, len(arrived), BATCH):
        outcome = partition.fold(arrived[start : start + BATCH])
        for name, count in outcome.counts.items():
            counts[name] = counts.get(name, 0) + count
        refused += [
            {"line": message.offset + 1, "reason": one.reason, "detail": one.detail} for message, one in outcome.refused
        ]
    partition.refresh_table()
    windows = decode_table(partition.table.encode(partition.ring, {})) if len(partition.ring) else None
    return {
        "now": float(partition.ring.at.max()) if len(partition.ring) else None,
        "windows_s": list(windows_s),
        "machines": _machines(windows, partition.facts, float(partition.ring.at.max())) if windows else [],
        "counts": {name: count for name, count in sorted(counts.items()) if count},
        "refused": refused,
    }


def _read(lines: Iterable[bytes]) -> list[Arrived]:
    """Return the non-empty lines; an unreadable one gets the time of the line before."""
    arrived: list[Arrived] = []
    recorded_at = 0.0
    for number, line in enumerate(lines):
        if raw := line.strip():
            with suppress(Rejected):
                recorded_at = decode(raw).at
            arrived.append(Arrived(number, raw, recorded_at, None))
    return arrived


def _machines(table: WindowTable, facts: Mapping[str, bytes], now_s: float) -> list[dict[str, Any]]:
    columns = {name: column for name in table.columns if (column := aligned(table, name)) is not None}
    rows = []
    for m, machine in enumerate(table.machines):
        known = facts.get(machine)
        about = decode(known) if known else None
        row: dict[str, Any] = {
            "name": machine,
            **{name: finite(columns[name][m]) for name in ("at", "end", "boot", "interval_s")},
            "age_s": now_s - float(columns["at"][m] - columns["skew"][m]),
            "window_age_s": now_s - float(columns["end"][m]),
            "skew_s": finite(columns["skew"][m]),
            "capacity": {r: v for i, r in enumerate(RESOURCES) if (v := finite(columns["capacity"][i, m])) is not None},
            "labels": about.labels if isinstance(about, MachineFacts) else {},
            "windows": {
                str(window_s): {
                    resource: _statistics(columns, w, r, m)
                    for r, resource in enumerate(RESOURCES)
                    if columns["filled"][w, r, m]
                }
                for w, window_s in enumerate(table.header.windows_s)
            },
            "peak_today": _by_resource(columns["peak_today"][:, m]),
            "peak_yesterday": _by_resource(columns["peak_yesterday"][:, m]),
            **{f"peak_{day}_ago_s": _ago_s(columns, day, m, now_s) for day in ("today", "yesterday")},
            "peak_since": finite(columns["peak_since"][m]),
            "classes": {
                name: by_resource
                for name in PRIORITY_CLASSES
                if f"class_{name}" in columns and (by_resource := _by_resource(columns[f"class_{name}"][-1, :, m]))
            },
        }
        rows.append(row)
    return rows


def _statistics(columns: Mapping[str, Any], w: int, r: int, m: int) -> dict[str, Any]:
    coverage = float(columns["coverage"][w, r, m])
    return {
        **{name: finite(columns[name][w, r, m]) for name in ("mean", "std", "max")},
        **{f"p{q}": finite(columns["percentile"][w, r, i, m]) for i, q in enumerate(PERCENTILES)},
        "filled": int(columns["filled"][w, r, m]),
        "coverage": coverage,
        "warming": coverage < WARMING_COVERAGE,
    }


def _ago_s(columns: Mapping[str, Any], day: str, m: int, now_s: float) -> dict[str, float]:
    return _by_resource(now_s - columns["peak_day"][m] - columns[f"peak_{day}_s"][:, m].astype(np.float64))


def _by_resource(values: Any) -> dict[str, float]:
    return {r: v for r, value in zip(RESOURCES, values, strict=True) if (v := finite(value)) is not None}


def _show(result: Mapping[str, Any], screen: Screen) -> None:
    columns = [
        Column("machine"), Column("window"), Column("resource", left=True), Column("mean"), Column("std", 2),
        Column("p95", 1), Column("max", 3), Column("of", 1), Column("covered", 4), Column("notes", left=True),
    ]  # fmt: skip
    rows = []
    for row in result["machines"]:
        for window_s, resources in row["windows"].items():
            for resource, s in resources.items():
                amounts = [s[name] for name in ("mean", "std", "p95", "max")] + [row["capacity"].get(resource)]
                rows.append(
                    [
                        row["name"], duration(float(window_s)), resource, *(amount(resource, one) for one in amounts),
                        f"{s['coverage']:.0%}", "warming" if s["warming"] else "-",
                    ]
                )  # fmt: skip
    print(table(columns, rows, screen))  # noqa: T201
    print("  ".join(f"{name} {count}" for name, count in result["counts"].items()))  # noqa: T201
