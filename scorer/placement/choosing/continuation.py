"""A kept ranking with its inputs, and the machines of the next instances of its request.

While only those instances are placed, each on the machine chosen for it, no new ranking is needed. The next machine is
found as inside a batch (`scorer.placement.choosing.copies`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.copies import Copies
from scorer.placement.choosing.reasons import Reason
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.ranking import ContinuedRanking, Ranking

AGE_S_MAX = 0.25
"""A ranking older than this is made anew even on the same snapshot, since its data have aged, s."""

COUNT_MIN = 16
"""The least number of further instances for which filters and scores are asked at once."""


class Continuation:
    """The last ranking as `Reuse` keeps it.

    ``ended``: why it serves only until its own choice is placed; None: it can be continued. ``placed``: how many
    instances of its request came into the ledger in a row before it.
    """

    def __init__(
        self,
        ranking: Ranking,
        inputs: RankingInputs,
        *,
        count: int = 1,
        ended: Reason | None = None,
        placed: int = 0,
    ) -> None:
        self.placed = placed
        """How many instances of its request came into the ledger in a row."""
        self.fresh = True
        """True while nothing was placed since the ranking."""
        self._ranking, self._inputs = ranking, inputs
        self._request = without_id(ranking.request)
        self._record = _plain(instance_of(ranking.request, "", 0.0))
        self._ended = ended
        self._copies = None if ended else Copies(ranking, max(count, COUNT_MIN), while_reserved=True)
        self._next: list[int] = []
        """Rows chosen and not placed yet, in order."""
        self._version, self._position = inputs.ledger.version, inputs.ledger.position

    def outdated(self, request: Request, inputs: RankingInputs) -> Reason | None:
        """Return why it does not hold for this request, given without its id; None: it holds.

        Instances placed since on the chosen machines are taken into account.
        """
        if self._request != request:
            return "other_request"
        if self._inputs.profile is not inputs.profile:
            return "profile_changed"
        if self._inputs.snapshot is not inputs.snapshot:
            return "snapshot_changed"
        if self._inputs.ledger is not inputs.ledger:
            return "ledger_reloaded"
        if not 0.0 <= inputs.now_s - self._inputs.now_s <= AGE_S_MAX:
            return "expired"
        return self._follow()

    def _follow(self) -> Reason | None:
        """Return None when only such instances came since, on the chosen machines; else the reason."""
        ledger = self._inputs.ledger
        many = ledger.version - self._version
        if many == 0:
            return None
        chosen, came = Counter(self._next[:many]), ledger.came_since(self._position)
        names = self._ranking.machines.roster.names
        there = {names[row]: count for row, count in chosen.items()}
        if came is None or Counter(came) != there or not self._are_alike(chosen):
            self.placed = 0
            return "instance_left" if came is None else "others_placed"
        del self._next[:many]
        self.placed += many
        self.fresh = False
        self._version, self._position = ledger.version, ledger.position
        return None

    def _are_alike(self, came: Mapping[int, int]) -> bool:
        """Return whether the newest instances of these rows are of this request."""
        names = self._ranking.machines.roster.names
        newest = (record for row, count in came.items() for record in self._inputs.ledger.newest(names[row], count))
        return all(_plain(record) == self._record for record in newest)

    def extend(self, count: int) -> Reason | None:
        """Choose machines until the next ``count`` are known; return why fewer are, None: they are."""
        missing = count - len(self._next)
        if missing > 0 and self._copies is not None:
            self._next += self._copies.next(missing)
        if self.fresh and not self._next:
            self._next = self._ranking.best(1).tolist()
        if len(self._next) >= count:
            return None
        return self._ended or (self._copies.obstacle if self._copies is not None else None) or "no_room"

    def machines(self, count: int) -> tuple[str, ...]:
        """Return the machines of the next ``count``, as far as it was extended."""
        names = self._ranking.machines.roster.names
        return tuple(names[row] for row in self._next[:count])

    def ranking(self) -> Ranking:
        """Return the ranking for the next instance; one that is not fresh must have been extended."""
        of = self._ranking
        if self.fresh:
            return of
        return ContinuedRanking(
            of.request, of.profile, of.machines, of.feasible, of.total, of.verdicts, of.terms, of, self._next[0]
        )


def without_id(request: Request) -> Request:
    """Return the request without its id, for comparison: the ids of alike instances differ."""
    return msgspec.structs.replace(request, id="") if request.id else request


def _plain(record: Instance) -> Instance:
    """Return the record without the fields that differ between instances of one request, for comparison."""
    return msgspec.structs.replace(
        record, id="", machine="", version=0, generation=0, request="", reserved_at=0.0, expires_at=0.0, rules=None
    )
