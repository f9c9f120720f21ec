"""Ranking ahead: what the last decision found serves the next one, while it is what a new one would say.

Deployers place the same kind of instance again and again, one after the other or many at once. After each the ledger
has changed by just what was chosen, so the next best machines are known as they are inside a batch
(`scorer.identical.Course`), without ranking anew; and while nobody waits the next ranking is made beforehand. Both use
the very code and data that the next query would use, so a choice never depends on it: what was made is taken only for
an equal request on the same snapshot and profile, on a ledger that changed by nothing but what it chose, within
`AHEAD_S`. Otherwise it is thrown away. An answer has the terms of the ranking that the run began with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from schemas.request import Request
from scorer import batch
from scorer.batch import Plan
from scorer.identical import Course, place_identical
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

    def answer_for(self, row: int) -> dict[str, Any]:
        """Return the answer of the ranking it began with, another machine in front."""
        return self.base.answer_for(row)


class _Run:
    """A ranking, all it was made from, and how it goes on while only its own request is placed."""

    def __init__(
        self,
        ranking: Ranking,
        snapshot: Snapshot,
        ledger: LedgerView,
        now_s: float,
        course: Course | None,
        *,
        placed: int = 0,
    ) -> None:
        self._ranking, self._snapshot, self._ledger, self._now_s = ranking, snapshot, ledger, now_s
        self.placed = placed
        """How many such instances the ledger took in on end, with the runs before."""
        self._request = _without_id(ranking.request)
        self._record = _plain(instance_of(ranking.request, "", 0.0))
        self._course = course
        """How it goes on after the ranking's own choice; None: it does not."""
        self._offered: list[int] = []
        """Rows chosen and not placed yet, in order."""
        self._fresh = True
        """Whether nothing was placed since the ranking."""
        self._version, self._position = ledger.version, ledger.position

    def current(self, request: Request, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float) -> bool:
        """Return whether it is of this request and holds; what was placed of its own choice is followed first."""
        return (
            self._snapshot is snapshot
            and self._ledger is ledger
            and self._ranking.profile is profile
            and 0.0 <= now_s - self._now_s <= AHEAD_S
            and self._request == request
            and self._catch_up()
        )

    def _catch_up(self) -> bool:
        """Return whether all that changed is that such instances came where they were offered."""
        many = self._ledger.version - self._version
        if many == 0:
            return True
        offered, came = Counter(self._offered[:many]), self._ledger.came_since(self._position)
        if came is None or Counter(came) != offered or not self._are_alike(offered):
            self.placed = 0
            return False
        del self._offered[:many]
        self.placed += many
        self._fresh = False
        self._version, self._position = self._ledger.version, self._ledger.position
        return True

    def _are_alike(self, came: Mapping[int, int]) -> bool:
        """Return whether the newest instances of these rows are of this request."""
        names = self._ranking.machines.roster.names
        newest = (record for row, count in came.items() for record in self._ledger.newest(names[row], count))
        return all(_plain(record) == self._record for record in newest)

    def rows(self, count: int) -> list[int] | None:
        """Return where the next ``count`` go; None where it does not go on, or there is no room for so many."""
        missing = count - len(self._offered)
        if missing > 0 and self._course is not None:
            self._offered += self._course.take(missing)
        if self._fresh and not self._offered:
            self._offered = self._ranking.best(1).tolist()
        return self._offered[:count] if len(self._offered) >= count else None

    def ranking(self, count: int = 1) -> Ranking | None:
        """Return the ranking for the next ``count``; None where it does not go on."""
        rows, of = self.rows(count), self._ranking
        if self._fresh and (rows or count == 1):
            return of
        if rows is None:
            return None
        return Continued(of.request, of.profile, of.machines, of.feasible, of.total, of.verdicts, of.terms, of, rows[0])


def _without_id(request: Request) -> Request:
    return msgspec.structs.replace(request, id="") if request.id else request


def _plain(record: Instance) -> Instance:
    """Return the record without what differs between two instances of one request."""
    return msgspec.structs.replace(record, id="", machine="", version=0, request="", reserved_at=0.0, expires_at=0.0)


class Ahead:
    """Ranks as `scorer.rank.rank` and plans as `scorer.batch.plan`; knows the last request, and how it goes on."""

    def __init__(self) -> None:
        self._run: _Run | None = None
        self._last: tuple[Request, Profile] | None = None
        self._alike = False

    def rank(self, request: Request, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float) -> Ranking:
        """Return the ranking made ahead, if it is of this request, or a new one. Raises what `rank` raises."""
        asked = _without_id(request)
        self._alike = self._last is not None and self._last[1] is profile and self._last[0] == asked
        if self._run is not None and self._run.current(asked, snapshot, ledger, profile, now_s):
            ranking = self._run.ranking()
            if ranking is not None:
                return ranking
        self._forget()
        ranking = rank(asked, snapshot, ledger, profile, now_s)
        self._last = (asked, profile)
        return ranking

    def plan(
        self,
        requests: Sequence[Request],
        snapshot: Snapshot,
        ledger: LedgerView,
        profile: Profile,
        now_s: float,
        held: Sequence[str] = (),
    ) -> Plan:
        """Return the plan of a batch: where the run goes on, or a new one. Raises what `plan` raises."""
        asked, count = _without_id(requests[0]), len(requests)
        special = held or asked.explain or asked.machines_max or asked.machines_min
        alike = not special and batch.identical(requests)
        if alike and self._run is not None and self._run.current(asked, snapshot, ledger, profile, now_s):
            rows, ranking = self._run.rows(count), self._run.ranking(count)
            if rows is not None and ranking is not None:
                names = ranking.machines.roster.names
                return Plan(tuple(names[row] for row in rows), (), ranking)
        self._forget()

        def place(first: Ranking, count: int) -> list[str | None] | None:
            run = _Run(first, snapshot, ledger, now_s, Course(first, count) if alike else None)
            rows = run.rows(count)
            if rows is None:
                return place_identical(first, count)
            self._run, self._last, self._alike = run, (asked, profile), True
            names = first.machines.roster.names
            return [names[row] for row in rows]

        return batch.plan(requests, snapshot, ledger, profile, now_s, held, place)

    def prepare(self, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> None:
        """Bring the columns up to date; rank the last request again if it was asked twice."""
        if self._last is None:
            return
        run, (request, profile) = self._run, self._last
        if run is not None and run.current(request, snapshot, ledger, profile, now_s + AHEAD_S / 4) and run.ranking():
            return
        placed = run.placed if run is not None else 0
        self._run = run = None
        try:
            if self._alike:
                ranking = rank(request, snapshot, ledger, profile, now_s)
                course = Course(ranking) if placed >= RUN and not request.explain else None
                self._run = _Run(ranking, snapshot, ledger, now_s, course, placed=placed)
                self._run.rows(1)
            else:
                see(request, snapshot, ledger, profile, now_s)
        except Exception:  # a query that asks the same is answered with it; here nobody asked
            self._last = None

    def _forget(self) -> None:
        """Let go of the ranking in hand: it would make the next change of the ledger copy the fleet.

        And of the last request: what cannot be ranked is not tried again.
        """
        self._run = self._last = None
