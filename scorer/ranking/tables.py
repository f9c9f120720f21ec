"""The tables of one ledger, one for each load model: computed when a profile first needs it, then updated.

Passed to every ranking as a part of its inputs. One thread updates it. Where a new snapshot needs whole tables,
`prepare` computes them on another thread, beside the tables in use. The next decision takes them over and applies the
ledger's changes since.
"""

import weakref
import zoneinfo
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np

from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.view import LedgerView
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.machines.table import Basis, Model, Table
from scorer.ranking.machines.what_if import NOTHING, WhatIf
from scorer.ranking.profiles.profile import LoadModel, Profile
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot

TABLES_MAX = 16
"""So many tables are kept; the one that was not asked for the longest is dropped first: 6 MB with 5,000 machines."""


class Tables:
    """The tables of one ledger on the newest snapshot."""

    def __init__(self) -> None:
        self._residents: Residents | None = None
        self._tables: dict[object, Table] = {}
        self._prepared: dict[object, Table] = {}
        """Made on another thread, and not yet in use."""
        self._what_ifs: weakref.WeakKeyDictionary[Overlay, WhatIf] = weakref.WeakKeyDictionary()
        self.kept: dict[tuple[str, bool], Any] = {}
        """By profile, the `Room` of `scorer.ranking.survive`: to compute it for each decision costs more than that."""
        self._learned: tuple[object, object, Estimate] | None = None
        """Learned factors, the estimate that they were put into, and the result."""

    def residents(self, snapshot: Snapshot, ledger: LedgerView) -> Residents:
        """Return the instances of a ledger by the rows of a snapshot; drop the tables of another ledger or roster."""
        found = self._residents
        if found is None or found.ledger is not ledger or found.roster is not snapshot.roster:
            prepared = [one for one in list(self._prepared.values()) if one.residents.ledger is ledger]
            own = next((one.residents for one in prepared if one.residents.roster is snapshot.roster), None)
            found = self._residents = own or Residents(ledger, snapshot.roster)
            self._tables.clear()
        return found

    def table(self, snapshot: Snapshot, ledger: LedgerView, model: Model, profile: Profile, now_s: float) -> Table:
        """Return the table of a load model, up to date."""
        snapshot = snapshot.origin
        residents = self.residents(snapshot, ledger)
        basis = self._basis(snapshot, model, profile, now_s)
        table = self._tables.pop(model.key, None)
        prepared = self._prepared.pop(model.key, None)
        for one in (table, prepared):
            if one is not None and one.residents is residents and one.follow(snapshot, basis):
                break
        else:
            before = frozenset() if table is None else table.needs
            one = Table(model, snapshot, residents, basis._replace(needs=basis.needs | before))
            for _ in one.steps():
                pass
            one.follow(snapshot, basis)
        if len(self._tables) >= TABLES_MAX:
            del self._tables[next(iter(self._tables))]
        self._tables[model.key] = one
        return one

    def prepare(self, snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float) -> Iterator[None]:
        """Compute the whole tables that a profile needs for a new snapshot, in steps; not on the decisions' thread."""
        for load_model in profile.load_models:
            model = model_of(load_model, snapshot)
            table, basis = self._tables.get(model.key), self._basis(snapshot, model, profile, now_s)
            own = table is not None and table.residents.ledger is ledger
            if table is not None and own and table.may_follow(snapshot, basis):
                continue
            alike = own and table is not None and table.residents.roster is snapshot.roster
            residents = table.residents if table is not None and alike else Residents(ledger, snapshot.roster)
            made = Table(model, snapshot, residents, basis)
            yield from made.steps()
            self._prepared[model.key] = made

    def what_if(self, overlay: Overlay | None, snapshot: Snapshot) -> WhatIf:
        """Return the patches of an overlay, or of the cordons of a snapshot without one."""
        if overlay is None:
            return NOTHING if snapshot is snapshot.origin else WhatIf()
        found = self._what_ifs.get(overlay)
        if found is None:
            found = self._what_ifs[overlay] = WhatIf(overlay)
        return found

    def _basis(self, snapshot: Snapshot, model: Model, profile: Profile, now_s: float) -> Basis:
        return Basis(self._in_force(snapshot, model), _days(profile, now_s), profile.needs(snapshot.rules))

    def _in_force(self, snapshot: Snapshot, model: Model) -> Estimate:
        """Return the estimate of a load model with learned factors; cached while both are unchanged."""
        learned = snapshot.learned
        if not (model.learned and learned):
            return model.estimate
        known = self._learned  # two threads ask, of two snapshots
        if known is None or known[0] is not learned or known[1] is not model.estimate:
            estimate = LoadModel(estimate=model.estimate, learned=True).estimate_with(learned)
            known = self._learned = (learned, model.estimate, estimate)
        return known[2]


def model_of(load_model: LoadModel, snapshot: Snapshot, window_s: int = 0, *, requests_alone: bool = False) -> Model:
    """Return the settings that the rows of a load model depend on; ``window_s``: that of the request, 0 for none."""
    wanted_s = window_s if window_s and snapshot.windows_s else load_model.window_s(snapshot.windows_s)
    of = (wanted_s, load_model.credits, load_model.debits, requests_alone)
    key = (*of, load_model.learned, load_model.estimate.key)
    return Model(*of, load_model.estimate, load_model.learned, key)


def _days(profile: Profile, now_s: float) -> Floats:
    return _days_of(profile.time_zone, now_s // 900)


@lru_cache(maxsize=64)
def _days_of(time_zone: str, quarter: float) -> Floats:
    """Return [D, 2]: start and end of today and yesterday; the same array within a quarter of an hour."""
    today, yesterday = (day_start_s(quarter * 900, day, time_zone) for day in ("today", "yesterday"))
    return np.array([[today, np.inf], [yesterday, today]])


def day_start_s(now_s: float, day: str, time_zone: str) -> float:
    """Return the start of ``today`` or ``yesterday`` in a time zone; days with a clock change have 23 or 25 hours.

    >>> day_start_s(1_700_000_000.0, "today", "UTC"), day_start_s(1_700_000_000.0, "yesterday", "UTC")
    (1699920000.0, 1699833600.0)
    """
    return _day_start_s(now_s // 900 * 900, day, time_zone)  # days begin at quarters of an hour, everywhere


@lru_cache(maxsize=64)
def _day_start_s(now_s: float, day: str, time_zone: str) -> float:
    zone = zoneinfo.ZoneInfo(time_zone)
    midnight = datetime.fromtimestamp(now_s, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if day == "today":
        return midnight.timestamp()
    before = datetime.fromtimestamp(midnight.timestamp() - 1, zone)
    return before.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
