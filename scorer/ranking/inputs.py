"""The inputs of a ranking other than the request: one type for live queries, files, replays and what-ifs.

A what-if (`scorer.placement.choosing.trial`) has the same value with an overlay: proposed changes of the ledger.
"""

import zoneinfo
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np

from schemas.resources import PRIORITY_CLASSES
from schemas.rpc.request import InvalidRequest, Request
from scorer.classes.strategy import ASKED, MEASURED
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.view import LedgerView
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.filters.fits import Fits
from scorer.ranking.machines import NOTHING, Basis, Machines, Model, Table, WhatIf
from scorer.ranking.profiles.profile import LoadModel, Profile
from scorer.ranking.staleness import is_silent
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.snapshot import Snapshot

quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore")
"""Decorator that silences numpy's warnings: NaN means unknown."""


TABLES_MAX = 16
"""So many tables are kept; the one that was not asked for the longest is dropped first: 6 MB with 5,000 machines."""


class Tables:
    """The tables of one ledger, one for each load model: computed when a profile first needs it, then updated.

    One thread updates them. Where a new snapshot needs whole tables, `prepare` computes them on another thread, beside
    the tables in use. The next decision takes them over and applies the ledger's changes since.
    """

    def __init__(self) -> None:
        self._residents: Residents | None = None
        self._tables: dict[object, Table] = {}
        self._prepared: dict[object, Table] = {}
        """Made on another thread, and not yet in use."""
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
            basis = self._basis(snapshot, model, profile, now_s)
            there = [self._tables.get(model.key), self._prepared.get(model.key)]
            own = [one for one in there if one is not None and one.residents.ledger is ledger]
            if any(one.changed(snapshot, basis) is not None for one in own):
                continue
            residents = next((one.residents for one in own if one.residents.roster is snapshot.roster), None)
            needs = basis.needs.union(*(one.needs for one in own))
            made = Table(model, snapshot, residents or Residents(ledger, snapshot.roster), basis._replace(needs=needs))
            yield from made.steps()
            self._prepared[model.key] = made

    def _basis(self, snapshot: Snapshot, model: Model, profile: Profile, now_s: float) -> Basis:
        days = _days_of(profile.time_zone, now_s // 900)
        return Basis(self._in_force(snapshot, model), days, profile.needs(snapshot.rules))

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


@dataclass(eq=False)
class RankingInputs:
    snapshot: Snapshot
    ledger: LedgerView
    profile: Profile
    now_s: float
    tables: Tables = field(default_factory=Tables)
    """The rows of the machines, which follow snapshots and ledger; without any they are made for this ranking."""
    overlay: Overlay | None = None
    """Proposed changes of the ledger, which stays as it is; None: there are none."""
    what_if: WhatIf = NOTHING
    """The rows of the overlay. Tables that held them by overlay kept both for ever, since one names the other."""

    def __post_init__(self) -> None:
        if self.overlay is not self.what_if.overlay:
            self.what_if = NOTHING if self.overlay is None else WhatIf(self.overlay)

    def by(self, profile: Profile) -> "RankingInputs":
        """Return the same inputs for another profile."""
        return replace(self, profile=profile)

    def on(self, overlay: Overlay) -> "RankingInputs":
        """Return the same inputs with proposed changes of their ledger."""
        return replace(self, overlay=overlay)


InputsOf = Callable[[str, str], RankingInputs]
"""Returns the inputs of a ranking by a profile: its name, and the text of its file, if it is given."""


@dataclass(frozen=True)
class FleetState:
    """The state of a fleet at one time: of a file, or of the running one (`scorer.live.live_fleet`)."""

    snapshot: Snapshot
    ledger: LedgerView
    now_s: float

    def inputs(self, profile: Profile, tables: Tables | None = None) -> RankingInputs:
        """Return the inputs of a ranking by a profile; ``tables``: the existing ones of this ledger, None: new ones."""
        return RankingInputs(self.snapshot, self.ledger, profile, self.now_s, tables or Tables())


class Seen:
    """The machines under each load model, computed at the first access.

    Raises InvalidRequest for a ``window_s`` that the snapshot does not have.
    """

    def __init__(self, request: Request, inputs: RankingInputs, *, by_load: bool = False) -> None:
        """``by_load``: the load is used however old the data is."""
        self._request = request
        self._inputs = inputs
        profile = inputs.profile
        alone = profile.stale == "requests" and not by_load
        silent = is_silent(inputs.snapshot, profile.stale_s, inputs.now_s)
        self._requests_alone = alone and (silent or not inputs.snapshot.machines_with_data)
        self._last_known = silent and profile.stale == "last-known"
        self._machines: dict[int, Machines] = {}

    def machines(self, load_model: LoadModel | None = None) -> Machines:
        """Return the machines under one load model (None: the profile's).

        The request's own window is for the profile's load model.
        """
        own = self._inputs.profile.load_model
        load_model = load_model or own
        found = self._machines.get(id(load_model))
        if found is None:
            window_s = self._request.window_s if load_model is own else 0
            found = self._machines[id(load_model)] = self._made(load_model, window_s)
        return found

    def _made(self, load_model: LoadModel, window_s: int) -> Machines:
        inputs, snapshot = self._inputs, self._inputs.snapshot
        if window_s and snapshot.windows_s and window_s not in snapshot.windows_s:
            there = ", ".join(map(str, snapshot.windows_s))
            raise InvalidRequest(f"window_s: no window of {window_s} s is kept; there are {there}")
        model = model_of(load_model, snapshot, window_s, requests_alone=self._requests_alone)
        table = inputs.tables.table(snapshot, inputs.ledger, model, inputs.profile, inputs.now_s)
        what_if = inputs.what_if
        if what_if is NOTHING and snapshot is not snapshot.origin:
            what_if = WhatIf()
        if what_if is not NOTHING:
            what_if.follow(table, snapshot)
        found = Machines(table, what_if, snapshot, self._request, inputs.now_s, last_known=self._last_known)
        found.find_means()
        return found


def machines_of(inputs: RankingInputs, load_model: LoadModel | None = None, window_s: int = 0) -> Machines:
    """Return the machines under a load model (None: the profile's), without a request; data of any age count.

    Raises InvalidRequest for a ``window_s`` that the snapshot does not have.
    """
    return Seen(Request(window_s=window_s), inputs, by_load=True).machines(load_model)


@dataclass(frozen=True)
class ClassSums:
    """C classes in the order of `PRIORITY_CLASSES`, R resources, M machines."""

    promised: Floats
    """[C, R, M] The requests of each class's instances."""
    counted: Floats
    """[C, R, M] What is compared with ``most``: the class's sum; for free with batch's."""
    most: Floats
    """[C, R, M] The most that may be allocated; NaN where unknown, and for a resource that is not sold by class."""
    used: Floats
    """[C, R, M] What the instances of each class use, as measured; NaN where no report is current."""
    old: Bools
    """[M] Where data is too old to reclaim anything."""
    sold: tuple[int, ...]
    """The rows of the resource axis that are sold by class."""


def by_class_filter(profile: Profile) -> Fits | None:
    """Return the profile's filter that counts by class; None where all classes are one sum."""
    return next((each for each in profile.all_of(Fits) if each.classes is not None), None)


@quiet
def class_sums(inputs: RankingInputs) -> ClassSums | None:
    """Return the sums by the profile's rules; None where it counts all classes together."""
    fits = by_class_filter(inputs.profile)
    if fits is None or fits.classes is None:
        return None
    sold, placed = fits.classes.rows, next(each for each in inputs.profile.filters if each.filter is fits)
    machines = machines_of(inputs, placed.load_model)
    promised = machines.of_classes[ASKED]
    counted = np.tile(promised.sum(axis=0), (len(PRIORITY_CLASSES), 1, 1))
    most = np.full_like(promised, np.nan)
    for code, name in enumerate(PRIORITY_CLASSES):
        by_class = fits.by_class(machines.of(Request(priority_class=name)))  # type: ignore[arg-type]
        assert by_class is not None
        of = [PRIORITY_CLASSES.index(each) for each in by_class.counted]
        counted[code][sold] = promised[of][:, sold].sum(axis=0)
        most[code][sold] = by_class.most[sold]
        old = by_class.old
    used = np.where(machines.has_report, machines.of_classes[MEASURED], np.nan)
    return ClassSums(promised, counted, most, used, old, tuple(sold))
