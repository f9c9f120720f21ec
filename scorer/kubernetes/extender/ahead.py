"""Ahead: the ranking that the next question will need, made between two questions. Pure.

kube-scheduler asks about one pod after the other, and most pods come from one ReplicaSet: their requests differ by the
pod's uid and name alone. In modes ``filter`` and ``bind`` it asks two or three times about each. So the last ranking is
kept while nothing it was made from has changed. After an answer the scheduler has work of its own. In that time the
ranking is made again (where the last two pods were alike), or the columns are brought up to date.

At 5,000 nodes a ranking is half of what an answer costs. Not done by `scorer.placement.choosing.reuse`: that chooses
the next machines, and this needs the scores of all, with the pods that are under way counted.
"""

from __future__ import annotations

import msgspec

from schemas.rpc.request import Request
from scorer.kubernetes.pods_request import NAME
from scorer.placement.choosing.continuation import AGE_S_MAX
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.rank import rank, see
from scorer.ranking.ranking import Ranking

IDLE_S = 2.0
"""After so long without a question nothing is made beforehand."""


class Ahead:
    """Ranks as `rank` does, for a request without the pod's uid and name; keeps the last ranking."""

    def __init__(self) -> None:
        self._kept: tuple[Ranking, RankingInputs, int] | None = None
        """The last ranking, its inputs, and the position of the ledger it saw."""
        self._last: Request | None = None
        self._last_id = ""
        self._alike = False
        """Whether the last two pods were alike."""
        self._asked_s = 0.0

    def rank(self, request: Request, inputs: RankingInputs) -> Ranking:
        """Return the kept ranking where it holds, or a new one. Raises what `rank` raises."""
        labels = {name: value for name, value in request.labels.items() if name != NAME}
        asked = msgspec.structs.replace(request, id="", labels=labels)
        if request.id != self._last_id:
            self._alike = asked == self._last
        self._last = None
        ranking = self._ranked(asked, inputs)
        self._last, self._last_id, self._asked_s = asked, request.id, inputs.now_s
        return ranking

    def prepare(self, inputs: RankingInputs) -> None:
        """Make what the next question will need."""
        last, self._last = self._last, None  # what fails is not tried again
        if last is None or inputs.now_s - self._asked_s > IDLE_S:
            self._kept = None
            return
        if self._alike:
            self._ranked(last, inputs)
        elif not self._holds(last, inputs):
            self._kept = None
            see(last, inputs)
        self._last = last

    def _ranked(self, asked: Request, inputs: RankingInputs) -> Ranking:
        if not self._holds(asked, inputs):
            self._kept = None  # else the columns it has would be copied where they change
            self._kept = (rank(asked, inputs), inputs, inputs.seen_ledger.position)
        assert self._kept is not None
        return self._kept[0]

    def _holds(self, asked: Request, inputs: RankingInputs) -> bool:
        if self._kept is None:
            return False
        ranking, of, position = self._kept
        return (
            ranking.request == asked
            and of.snapshot is inputs.snapshot
            and of.profile is inputs.profile
            and of.seen_ledger is inputs.seen_ledger
            and position == inputs.seen_ledger.position
            and 0.0 <= inputs.now_s - of.now_s <= AGE_S_MAX
        )
