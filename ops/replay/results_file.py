"""Results of earlier runs, as ``windward replay --json`` prints them: a long comparison can be made in parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ops.replay.comparison import Result
from ops.replay.workload import WorkloadError

_STAGES = ("fill", "steady")


def read_results(path: Path) -> list[Result]:
    """Return the worlds in a file of results; raises WorkloadError."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise WorkloadError(f"{path.name}: is no JSON: {error}") from None
    worlds = found.get("worlds") if isinstance(found, dict) else None
    if not isinstance(worlds, list):
        raise WorkloadError(f"{path.name}: has no worlds: expected what `windward replay --json` prints")
    return [_result(path.name, number, world) for number, world in enumerate(worlds, 1)]


def _result(source: str, number: int, world: Any) -> Result:
    try:
        return Result(
            family=str(world["family"]),
            seed=int(world["seed"]),
            policy=str(world["policy"]),
            reference=bool(world["reference"]),
            stages={name: {k: float(v) for k, v in world[name].items()} for name in _STAGES if name in world},
            resolution=float(world.get("resolution", 1e-6)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorkloadError(f"{source}: worlds, row {number}: {type(error).__name__}: {error}") from None
