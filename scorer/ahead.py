"""Ranking ahead: while nobody waits, make what the next decision will most likely need.

Deployers place the same kind of instance again and again. After an answer the ledger has changed by one machine; the
next decision would first bring the kept columns up to date and then rank. Both are done here between two queries, on
the very code and data that the next query would use, so an answer never depends on it: what was made ahead is taken
only for an equal request on the same snapshot, ledger and profile, within `AHEAD_S`. Otherwise it is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from schemas.request import Request
from scorer.ledger_view import LedgerView
from scorer.profile import Profile
from scorer.rank import Ranking, rank, see
from scorer.snapshot import Snapshot

AHEAD_S = 0.05
"""A ranking older than this is made anew: data have aged. As long as a scorer may be without a new snapshot."""


@dataclass(frozen=True, eq=False)
class _Made:
    """A ranking and all it was made from."""

    request: Request
    snapshot: Snapshot
    ledger: LedgerView
    version: int
    profile: Profile
    now_s: float
    ranking: Ranking


class Ahead:
    """Ranks as `scorer.rank.rank`; knows the last request, and one ranking made ahead."""

    def __init__(self) -> None:
        self._made: _Made | None = None
        self._last: tuple[Request, Profile] | None = None
        self._alike = False

    def rank(self, request: Request, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float) -> Ranking:
        """Return the ranking made ahead, if it is of this request, or a new one. Raises what `rank` raises."""
        asked = msgspec.structs.replace(request, id="") if request.id else request
        self._alike = self._last is not None and self._last[1] is profile and self._last[0] == asked
        made = self._made
        if (
            made is not None
            and self._alike
            and made.snapshot is snapshot
            and made.ledger is ledger
            and made.version == ledger.version
            and made.profile is profile
            and 0.0 <= now_s - made.now_s <= AHEAD_S
            and made.request == asked
        ):
            return made.ranking
        self._made = made = None  # a ranking in hand makes the next change of the ledger copy the fleet
        self._last = None  # what cannot be ranked is not tried again
        ranking = rank(asked, snapshot, ledger, profile, now_s)
        self._last = (asked, profile)
        return ranking

    def prepare(self, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> None:
        """Bring the columns up to date; rank the last request again if it was asked twice."""
        if self._last is None:
            return
        made = self._made
        if (
            made is not None
            and made.snapshot is snapshot
            and made.ledger is ledger
            and made.version == ledger.version
            and now_s - made.now_s < AHEAD_S / 2
        ):
            return
        self._made = made = None
        request, profile = self._last
        try:
            if not self._alike:
                see(request, snapshot, ledger, profile, now_s)
                return
            ranking = rank(request, snapshot, ledger, profile, now_s)
        except Exception:  # a query that asks the same is answered with it; here nobody asked
            self._last = None
            return
        self._made = _Made(request, snapshot, ledger, ledger.version, profile, now_s, ranking)
