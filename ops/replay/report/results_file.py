"""Results of earlier runs, as ``windward replay --json`` prints them: a long comparison can be made in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ops.replay.report.comparison import RATIOS, RESOLUTION, Result
from ops.replay.workload import WorkloadError
from schemas.values.errors import field_error, shortened
from schemas.values.read_json import read_as

_NEEDED = (*RATIOS, "refused_first")
_Figures = dict[str, Annotated[float, Meta(ge=0)]]


class _World(msgspec.Struct):
    family: str
    seed: int
    policy: str
    reference: bool
    steady: _Figures
    fill: _Figures | None = None
    resolution: Annotated[float, Meta(gt=0)] = RESOLUTION


class _Results(msgspec.Struct):
    worlds: list[_World]


def read_results(path: Path) -> list[Result]:
    """Return the worlds in a file of results; raises WorkloadError."""
    try:
        found = read_as(path.read_bytes(), _Results)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        what = shortened(field_error(error))
        raise WorkloadError(f"{path.name}: {what}; expected what `windward replay --json` prints") from None
    return [_result(f"{path.name}: worlds[{number}]", world) for number, world in enumerate(found.worlds)]


def _result(source: str, world: _World) -> Result:
    stages = {"steady": world.steady} if world.fill is None else {"fill": world.fill, "steady": world.steady}
    for stage, figures in stages.items():
        lacking = next((name for name in _NEEDED if name not in figures), None)
        if lacking is not None:
            raise WorkloadError(f"{source}.{stage}: has no {lacking}")
    return Result(world.family, world.seed, world.policy, world.reference, stages, world.resolution)
