"""The inputs of a ranking other than the request: one type for live queries, files, replays and what-ifs.

A what-if (`scorer.placement.choosing.trial`) has the same value with an overlay: proposed changes of the ledger.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from schemas.resources import PRIORITY_CLASSES
from schemas.rpc.request import InvalidRequest, Request
from scorer.classes.strategy import ASKED, MEASURED
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView
from scorer.ranking.filters.fits import Fits
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.profile import LoadModel, Profile
from scorer.ranking.staleness import is_silent
from scorer.ranking.tables import Tables, model_of
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.snapshot import Snapshot

quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore")
"""Decorator that silences numpy's warnings: NaN means unknown."""


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
        what_if = inputs.tables.what_if(inputs.overlay, snapshot)
        if what_if.overlay is not None or snapshot is not snapshot.origin:
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
