"""What the scorer counts of reuse."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from schemas.names import Names
from schemas.request import InvalidRequest
from schemas.rpc import Query
from scorer.ledger.follower import Follower
from scorer.ledger.scripts import Ledger
from scorer.metrics import Metrics
from scorer.placement.reasons import RANKED, REUSED, result
from scorer.ranking.catalogue import load_profiles
from scorer.rpc.service import ScorerService
from tests.scorer.fleets import fleet, machine
from tests.scorer.ledger.ledger_model import LedgerModel


class Scorer:
    """A service on a fleet of four machines and a ledger in memory."""

    def __init__(self) -> None:
        offline = fleet(*(machine(f"m{n}", usage={"cpu": n, "memory": n}) for n in range(4)))
        ledger = cast("Ledger", LedgerModel(lambda: offline.now_s))
        follower = Follower(ledger)
        follower.loaded = True
        self.metrics = Metrics()
        self.service = ScorerService(
            names=Names(),
            scorer="s",
            version="",
            follower=follower,
            ledger=ledger,
            source=cast("Any", SimpleNamespace(latest=offline.snapshot, ledger_machines=())),
            profiles=load_profiles(),
            metrics=self.metrics,
            same_server=True,
            clock=lambda: offline.now_s,
        )
        self.asked = 0

    def ask(self, method: str, **params: Any) -> None:
        """Answer one query, then use the idle time after it."""
        self.asked += 1
        query = Query(v=1, id=f"q{self.asked}", method=method, params=msgspec.Raw(msgspec.json.encode(params)))
        self.service.answer(query)
        self.service.prepare()

    def counted(self) -> dict[tuple[str, str], float]:
        """Return the counter by result and reason."""
        (family,) = self.metrics.reuse.collect()
        assert family.name == "windward_scorer_ranking_reuse"
        samples = [sample for sample in family.samples if sample.name.endswith("_total")]
        return {(sample.labels["result"], sample.labels["reason"]): sample.value for sample in samples}


def test_every_reason_is_there_before_it_is_counted() -> None:
    """A reader can tell a reason that never came from one that is not known."""
    assert Scorer().counted() == {(result(reason), reason): 0.0 for reason in (*REUSED, *RANKED)}


def test_each_answer_counts_its_rankings() -> None:
    """Alike placements: two new rankings, three that idle time made, then the next machine is known."""
    scorer = Scorer()
    for _ in range(8):
        scorer.ask("place", cpu=1, memory=1)
    scorer.ask("rank", cpu=1, memory=1)
    counted = {reason: count for (_, reason), count in scorer.counted().items() if count}
    assert counted == {"nothing_kept": 2.0, "unchanged": 3.0, "continued": 3.0, "whole_ranking": 1.0}


def test_an_answer_that_fails_is_counted_too() -> None:
    """A request that cannot be ranked was looked for first."""
    scorer = Scorer()
    with pytest.raises(InvalidRequest):
        scorer.ask("rank", window_s=7)
    assert scorer.counted()["ranked", "nothing_kept"] == 1.0
