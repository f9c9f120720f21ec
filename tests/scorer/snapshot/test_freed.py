"""A snapshot is freed as soon as no one reads it, without the cyclic collector: it holds megabytes of windows."""

from __future__ import annotations

import gc
import weakref

from scorer.commands.shared.fleet_file import read_fleet
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from scorer.ranking.tables import Tables
from tests.scorer.fleets import machine, request


def test_a_snapshot_and_a_ranking_of_it_are_freed_at_once() -> None:
    """Nothing that they hold refers back to them."""
    profile, kept = load_profiles().choose(), Tables()
    offline = read_fleet({"machines": [machine("m1", 8, 64e9, usage={"cpu": 1, "memory": 1e9})]})
    gc.collect()
    gc.disable()
    try:
        ranking = rank(request(cpu=1, memory=1e9), offline.inputs(profile, kept))
        ends = [weakref.ref(each) for each in (ranking, ranking.machines.table, offline.snapshot)]
        del ranking, kept, offline
        assert [end() for end in ends] == [None] * len(ends)
    finally:
        gc.enable()
