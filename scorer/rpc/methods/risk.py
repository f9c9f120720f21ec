"""Answer of ``risk``: the machines that will soon be hot (`scorer.planning.soon_hot`), and what heats each."""

from typing import Any

import numpy as np

from schemas.resources import CPU
from schemas.rpc.parameters import Risk
from schemas.rpc.results import Heating, RiskResult, SoonHot
from scorer.planning.soon_hot import chances, loads_of, margins
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.staleness import fresh_until_s
from scorer.rpc.methods.parameters import read_params
from scorer.snapshot.usage_columns import pair_digest


@quiet
def risk(params: dict[str, Any], inputs: RankingInputs) -> RiskResult:
    """Return the first machines by chance, of those with fresh data."""
    asked: Risk = read_params(Risk, params)
    snapshot = inputs.snapshot
    recent, mean, std = loads = loads_of(snapshot)
    margin = margins(recent, mean, std, asked.limit)
    fresh = np.isfinite(margin) & (fresh_until_s(snapshot, inputs.profile.stale_s) >= inputs.now_s)
    first = np.argsort(np.where(fresh, margin, np.inf), kind="stable")[: min(asked.top, int(fresh.sum()))]
    chance = chances(margin[first], asked.within_s)
    found = []
    for row, said, *load in zip(first.tolist(), chance.tolist(), *(one[first].tolist() for one in loads), strict=True):
        cores = float(snapshot.allocatable[CPU, row])
        heating = _instances(inputs, row)
        other = max(0.0, load[0] * cores - sum(one.cpu for one in heating))
        found.append(
            SoonHot(
                machine=snapshot.names[row], chance=said, recent=load[0], mean=load[1], std=load[2], allocatable=cores,
                instances=heating, other=other,
            )
        )  # fmt: skip
    return RiskResult(total=int(fresh.sum()), within_s=asked.within_s, limit=asked.limit, machines=found)


def _instances(inputs: RankingInputs, row: int) -> list[Heating]:
    """Return the measured instances of a machine, the largest use first."""
    columns, name = inputs.snapshot.usages.columns, inputs.snapshot.names[row]
    ids = [one.id for one in inputs.ledger.held_on(name)]
    digests = np.array([pair_digest(name, each) for each in ids], np.int64)
    rows = columns.rows(digests, np.full(len(ids), inputs.snapshot.column("at")[row]))
    used = columns.take(columns.recent, rows)[CPU].tolist()
    measured = [Heating(id=each, cpu=cpu) for each, cpu in zip(ids, used, strict=True) if cpu >= 0]
    return sorted(measured, key=lambda one: -one.cpu)
