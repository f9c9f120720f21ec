"""The machines of one decision, under each load model of its profile."""

from __future__ import annotations

from schemas.rpc.request import InvalidRequest, Request
from scorer.ranking.columns.table import COLUMNS
from scorer.ranking.estimates.credits import Credits
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept, LoadModelKey
from scorer.ranking.machines.machines import NOTHING, UNOWNED, Fleet, Machines
from scorer.ranking.machines.owner import Owner
from scorer.ranking.profiles.profile import LoadModel, Profile
from scorer.ranking.staleness import silent
from scorer.snapshot.snapshot import Snapshot

_ESTIMATES = Owner("estimates")


class Seen:
    """The machines under each load model, made when first asked for.

    Raises InvalidRequest for a ``window_s`` that the snapshot does not have.
    """

    def __init__(self, request: Request, inputs: RankingInputs) -> None:
        self._request = request
        self._inputs = inputs
        snapshot, profile, now_s = inputs.snapshot, inputs.profile, inputs.now_s
        self._requests_alone = profile.stale == "requests" and not _any_fresh(snapshot, profile, now_s)
        self._last_known = profile.stale == "last-known" and silent(snapshot, profile.stale_s, now_s, inputs.kept)
        self._machines: dict[int, Machines] = {}

    def machines(self, load_model: LoadModel | None = None, owner: Owner = UNOWNED) -> Machines:
        """Return the machines under one load model (None: the profile's); from now on they keep values for ``owner``.

        The request's own window is for the profile's load model.
        """
        own = self._inputs.profile.load_model
        load_model = load_model or own
        machines = self._machines.get(id(load_model))
        if machines is None:
            window_s = self._request.window_s if load_model is own else 0
            fleet = fleet_of(self._inputs, load_model, window_s, requests_alone=self._requests_alone)
            fleet.last_known = self._last_known
            machines = self._machines[id(load_model)] = Machines(fleet, self._request, self._inputs.now_s)
        machines.owner = owner
        return machines


def _any_fresh(snapshot: Snapshot, profile: Profile, now_s: float) -> bool:
    """Return whether any machine has a sample younger than ``stale_s``."""
    seen_at = snapshot.seen_at
    return bool(seen_at.size) and bool(now_s - seen_at.max() <= profile.stale_s)


def fleet_of(
    inputs: RankingInputs, load_model: LoadModel | None = None, window_s: int = 0, *, requests_alone: bool = False
) -> Fleet:
    """Return the fleet under a load model (None: the profile's), its kept columns up to date with the ledger.

    Raises InvalidRequest for a ``window_s`` that the snapshot does not have.
    """
    snapshot, load_model = inputs.snapshot, load_model or inputs.profile.load_model
    if window_s and snapshot.windows_s and window_s not in snapshot.windows_s:
        there = ", ".join(map(str, snapshot.windows_s))
        raise InvalidRequest(f"window_s: no window of {window_s} s is kept; there are {there}")
    wanted_s = window_s if window_s and snapshot.windows_s else load_model.window_s(snapshot.windows_s)
    estimate = _estimate(snapshot, load_model, inputs.kept)
    key = LoadModelKey(wanted_s, load_model.credits, load_model.debits, estimate.key, requests_alone)
    shelf, rows = inputs.kept.shelf(snapshot, inputs.seen_ledger, key)
    fleet = Fleet(Credits(load_model.credits, estimate, snapshot), key, shelf, COLUMNS)
    if rows is not None:
        shelf.renew(Machines(fleet, NOTHING, 0.0, rows=rows))
    return fleet


def _estimate(snapshot: Snapshot, load_model: LoadModel, kept: Kept) -> Estimate:
    """Return the estimate of a load model with what was learned, made once for a snapshot."""
    if not (load_model.learned and snapshot.learned):
        return load_model.estimate
    found: Estimate = kept.of_snapshot(
        snapshot, (_ESTIMATES, load_model.estimate.key), lambda: load_model.estimate_with(snapshot.learned)
    )
    return found
