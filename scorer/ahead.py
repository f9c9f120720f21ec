"""Ranking ahead: while nobody waits, make what the next decision will most likely need.

Deployers place the same kind of instance again and again. After an answer the ledger has changed by one machine; the
next decision would first bring the kept columns up to date and then rank. Both are done here between two queries, on
the very code and data that the next query would use, so a choice never depends on it: what was made ahead is taken
only for an equal request on the same snapshot, ledger and profile, within `AHEAD_S`. Otherwise it is thrown away.

While nothing but such instances is placed, one after the other, not even that: the ranking goes on as in a batch
(`scorer.identical.Course`), and an answer has the terms of the ranking that the run began with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from schemas.request import Request
from scorer.identical import Course
from scorer.instance import Instance
from scorer.ledger_view import LedgerView, instance_of
from scorer.profile import Profile
from scorer.rank import Ranking, rank, see
from scorer.snapshot import Integers, Snapshot

AHEAD_S = 0.25
"""A ranking older than this is made anew, though the snapshot be the same: its data have aged."""

RUN = 2
"""After so many alike placements with nothing else between them more are expected, and a course is made."""


@dataclass(eq=False)
class Continued(Ranking):
    """The ranking that a run of alike placements began with, and the machine that is the best by now."""

    base: Ranking
    row: int

    def best(self, count: int) -> Integers:
        """Return the one row that is known."""
        return np.array([self.row][:count], np.int64)

    def answer(self, top: int | None = None, explain_all: bool | None = None) -> dict[str, Any]:
        """Return the answer of the ranking it began with, this machine in front."""
        return self.base.answer_for(self.row)


class _Made:
    """A ranking made ahead, all it was made from, and how it goes on while only its own request is placed."""

    def __init__(
        self, request: Request, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float, run: int
    ) -> None:
        self.request, self.snapshot, self.ledger, self.profile, self.now_s = request, snapshot, ledger, profile, now_s
        self.ranking = rank(request, snapshot, ledger, profile, now_s)
        self._base = self.ranking
        self._placed = _plain(instance_of(request, "", 0.0))
        self.run = run
        """How often all that changed was one more such instance on the best machine."""
        self._course = Course(self.ranking) if run >= RUN and not request.explain else None
        if self._course is not None:
            self._course.next()  # the ranking's own
        self._note(ledger)

    def _note(self, ledger: LedgerView) -> None:
        """Remember the ledger that the ranking is of."""
        self._version, self._position = ledger.version, ledger.position
        self._chosen = self.ranking.chosen
        self._many = ledger.many(self._chosen) if self._chosen is not None else 0

    def current(self, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> bool:
        """Return whether the ranking is what `rank` would say now; follow a placement of its own request first."""
        return (
            self.snapshot is snapshot
            and self.ledger is ledger
            and 0.0 <= now_s - self.now_s <= AHEAD_S
            and (self._version == ledger.version or self._follow(ledger))
        )

    def _follow(self, ledger: LedgerView) -> bool:
        """Go on to the next best machine, if all that changed is one more such instance on the best one."""
        if not self._is_own(ledger):
            self.run = 0
            return False
        self.run += 1
        row = self._course.next() if self._course is not None else None
        if row is None:
            return False
        base = self._base
        self.ranking = Continued(
            base.request, base.profile, base.machines, base.feasible, base.total, base.verdicts, base.terms, base, row
        )
        self._note(ledger)
        return True

    def _is_own(self, ledger: LedgerView) -> bool:
        machine = self._chosen
        if machine is None or ledger.version != self._version + 1 or ledger.many(machine) != self._many + 1:
            return False
        newest = ledger.newest(machine)
        return (
            newest is not None
            and _plain(newest) == self._placed
            and ledger.changed_since(self._position) == [int(self.ranking.best(1)[0])]
        )


def _plain(record: Instance) -> Instance:
    """Return the record without what differs between two instances of one request."""
    return msgspec.structs.replace(record, id="", machine="", version=0, request="", reserved_at=0.0, expires_at=0.0)


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
        if made is not None and self._alike and made.profile is profile and made.current(snapshot, ledger, now_s):
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
        if self._made is not None and self._made.current(snapshot, ledger, now_s + AHEAD_S / 4):
            return
        run = self._made.run if self._made is not None else 0
        self._made = None
        request, profile = self._last
        try:
            if self._alike:
                self._made = _Made(request, snapshot, ledger, profile, now_s, run)
            else:
                see(request, snapshot, ledger, profile, now_s)
        except Exception:  # a query that asks the same is answered with it; here nobody asked
            self._last = None
