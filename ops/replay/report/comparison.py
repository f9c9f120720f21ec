"""Policies compared on the same worlds: ratios to a baseline, world by world, with an interval over the worlds.

A world is a family of load and a seed. For a figure x, with the policy's and the baseline's value in world w:

    d_w = log((x_policy + e) / (x_baseline + e)),   ratio = exp(mean d),   interval = exp(mean d ± t s / √n)

t is Student's for 95 % and n - 1 degrees of freedom, s the standard deviation of the d. e is one machine-minute as a
share of the smallest world: a world without any hot minute does not make a ratio infinite. A single world has no
interval. Over all families the worlds are pooled, each counting once.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from ops.replay.workload import WorkloadError
from schemas.values.errors import field_error, shortened
from schemas.values.read_json import read_as

RATIOS = ("std", "hot80", "hot90", "hot100", "lost", "on_hot")
"""Figures (`ops.replay.report.measures`) that are compared as ratios; the others are shown as they are."""
MEMORY_RATIOS, NIC_RATIOS = ("mem_std", "mem90", "mem100"), ("nic_std", "nic90", "nic100")
"""Further ratios in worlds with memory, with a network."""
CLASS_RATIOS = ("hosted", "hosted_batch", "kept_batch", "hot90_prod", "on_hot_prod", "lost_prod")
"""Further ratios in worlds with batch."""
RESOLUTION = 1e-6
"""The resolution of a result that states none."""

_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom; 1.96 beyond."""


Figures = dict[str, Annotated[float, Meta(ge=0)]]


class Result(msgspec.Struct, frozen=True):
    """One policy in one world, as ``--json`` prints it."""

    family: str
    seed: int
    policy: str
    reference: bool
    steady: Figures
    fill: Figures | None = None
    resolution: Annotated[float, Meta(gt=0)] = RESOLUTION
    """One machine-minute as a share of the steady stage."""
    refusals: dict[str, int] = {}
    """Number of instances by the main reason of their first refusal, in all stages."""

    @property
    def stages(self) -> dict[str, Figures]:
        return {"steady": self.steady} if self.fill is None else {"fill": self.fill, "steady": self.steady}


class _Results(msgspec.Struct):
    worlds: list[Result]


@dataclass(frozen=True)
class Ratio:
    ratio: float
    low: float | None
    high: float | None
    """The 95 % interval; None of a single world."""
    worlds: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.ratio:.2f}"
        return f"{self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}]"

    @property
    def tells(self) -> bool:
        """Whether the interval excludes 1; False for a single world, which has no interval."""
        return self.low is not None and self.high is not None and not self.low < 1 < self.high


def ratio_of(pairs: Sequence[tuple[float, float]], offset: float) -> Ratio:
    """Return the geometric mean of the ratios first / second of the pairs, with its interval.

    >>> str(ratio_of([(2.0, 4.0), (1.0, 2.0)], 0.0))
    '0.50 [0.50, 0.50]'
    """
    logs = [log((mine + offset) / (other + offset)) for mine, other in pairs]
    mean = fmean(logs)
    if len(logs) < 2:
        return Ratio(exp(mean), None, None, len(logs))
    student = _STUDENT[len(logs) - 2] if len(logs) <= len(_STUDENT) + 1 else 1.96
    half = student * stdev(logs) / sqrt(len(logs))
    return Ratio(exp(mean), exp(mean - half), exp(mean + half), len(logs))


@dataclass(frozen=True)
class Row:
    """One policy over some worlds."""

    policy: str
    reference: bool
    figures: Mapping[str, float]
    """Means over the worlds, of figures that all of them have."""
    ratios: Mapping[str, Ratio]
    worlds: int


def once(results: Sequence[Result]) -> list[Result]:
    """Return the results without duplicates of one policy in one world."""
    found: dict[tuple[str, int, str], Result] = {}
    for one in results:
        found.setdefault((one.family, one.seed, one.policy), one)
    return list(found.values())


def compare(results: Sequence[Result], baseline: str, stage: str = "steady", family: str = "") -> list[Row]:
    """Return one row per policy, in the order of the results, references last; of one ``family``, or of all."""
    chosen = [one for one in results if stage in one.stages and (not family or one.family == family)]
    base = {(one.family, one.seed): one for one in chosen if one.policy == baseline}
    rows = []
    for policy in dict.fromkeys(one.policy for one in sorted(chosen, key=lambda one: one.reference)):
        mine = [one for one in chosen if one.policy == policy]
        paired = [(one, base[one.family, one.seed]) for one in mine if (one.family, one.seed) in base]
        offset = max(one.resolution for one in mine)
        shared = [name for name in mine[0].stages[stage] if all(name in one.stages[stage] for one in mine)]
        rows.append(
            Row(
                policy,
                mine[0].reference,
                {name: fmean(one.stages[stage][name] for one in mine) for name in shared},
                {
                    name: ratio_of([(a.stages[stage][name], b.stages[stage][name]) for a, b in paired], offset)
                    for name in (*RATIOS, *MEMORY_RATIOS, *NIC_RATIOS, *CLASS_RATIOS)
                    if paired and all(name in one.stages[stage] for pair in paired for one in pair)
                },
                len(mine),
            )
        )
    return rows


def as_json(results: Sequence[Result], baseline: str) -> dict[str, Any]:
    """Return all results as data for JSON: each world, and the comparison by family and stage."""
    families = list(dict.fromkeys(one.family for one in results))
    stages = list(dict.fromkeys(stage for one in results for stage in one.stages))
    return {
        "baseline": baseline,
        "worlds": [{key: said for key, said in asdict(one).items() if said is not None} for one in results],
        "comparison": {
            stage: {
                family or "all": [
                    {key: said for key, said in dataclasses.asdict(row).items() if key != "worlds"}
                    for row in compare(results, baseline, stage, family)
                ]
                for family in ("", *families)
            }
            for stage in stages
        },
    }


_NEEDED = (*RATIOS, "refused_first")


def read_results(path: Path) -> list[Result]:
    """Return the worlds in a file of results; raises WorkloadError."""
    try:
        found = read_as(path.read_bytes(), _Results)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    except msgspec.DecodeError as error:
        what = shortened(field_error(error))
        raise WorkloadError(f"{path.name}: {what}; expected what `windward replay --json` prints") from None
    for number, world in enumerate(found.worlds):
        for stage, figures in world.stages.items():
            if lacking := [name for name in _NEEDED if name not in figures]:
                raise WorkloadError(f"{path.name}: worlds[{number}].{stage}: has no {lacking[0]}")
    return found.worlds
