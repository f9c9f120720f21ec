"""Reference policies: random choice, a packer by true peaks, and an oracle that knows the future.

A recorded fleet has one more, ``as recorded``: the machines that its instances really had. The others admit by
requests only: a machine is feasible when the sum of requests stays at or below its capacity.

- ``random feasible``: any feasible machine.
- ``best fit by true peak``: the machine whose true peak over the instance's life, with it, comes nearest to 90 % of its
  capacity without exceeding it; if all exceed it, the one with the lowest peak. It packs.
- ``oracle``: greedy on heat. With L(t) the demand over capacity that the machine will have of the instances placed so
  far, u(t) the instance's, t the minutes of its life:

      cost = cores * sum over t of  max(0, L + u - 0.9) - max(0, L - 0.9) + 0.01 ((L + u)² - L²)

  It knows what those placed will use, and nothing of instances still to come.

Worlds with batch have two others:

- ``NAME, prod alone``: the profile, and no batch is placed.
- ``NAME, batch known``: the profile, one that counts by class, for prod. Batch goes to a machine on which the true
  demand of those placed so far, with it, stays at or below 90 % in every minute of its life; of these to the fullest at
  its peak. It does not know later instances, and nothing is evicted. Of a queue it skips those that ask for at least as
  much as one refused in the same minute, so it is no upper bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.roles import Moment
from ops.replay.play.true_fleet import HOT
from schemas.resources import CPU
from schemas.rpc.request import Request
from scorer.ranking.filters.fits import Fits
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import PlacedFilter, Profile
from scorer.ranking.rank import rank
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.snapshot import Snapshot

EVENNESS = 0.01
"""Weight of the sum of squares against heat: it decides among machines that stay cool."""
_BY_REQUESTS = Profile(name="by requests", filters=(PlacedFilter(Fits(basis="requests")),), stale="requests")


class Reference:
    """Chooses among the machines on which the request fits; subclasses implement the choice."""

    name = ""
    reference = True
    learns = False
    looks_at_instances = False
    counts_by_class = False
    profile = None

    def __init__(self, seed: int = 0) -> None:
        self.refusals: Counter[str] = Counter()
        self._generator = np.random.default_rng([seed, 77])
        self._known: set[int] = set()
        self._kept = Kept()
        self._snapshot: Snapshot | None = None

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Choose for the first only."""
        if self._snapshot is None:
            self._snapshot = moment.measuring.empty_snapshot()
        ranking = rank(
            requests[0], RankingInputs(self._snapshot, moment.ledger, _BY_REQUESTS, moment.now_s, self._kept)
        )
        rows = np.flatnonzero(ranking.feasible)
        if not rows.size:
            if instances[0] not in self._known:
                self._known.add(instances[0])
                self.refusals["no machine has room for what is asked"] += 1
            return [None]
        return [self._pick(rows, instances[0], moment)]

    def _pick(self, rows: Integers, instance: int, moment: Moment) -> int:
        raise NotImplementedError


class RandomFeasible(Reference):
    """Any feasible machine."""

    name = "random feasible"

    def _pick(self, rows: Integers, instance: int, moment: Moment) -> int:
        return int(rows[self._generator.integers(rows.size)])


class BestFitByPeak(Reference):
    """The fullest machine that stays below 90 %, by the true peak."""

    name = "best fit by true peak"

    def _pick(self, rows: Integers, instance: int, moment: Moment) -> int:
        peak = peaks(rows, instance, moment)
        if peak is None:
            return int(rows[0])
        fitting = np.where(peak <= HOT, peak, -np.inf)
        return int(rows[np.argmax(fitting) if np.isfinite(fitting).any() else np.argmin(peak)])


class Oracle(Reference):
    """Greedy on heat, knowing the future of all that is placed."""

    name = "oracle"

    def _pick(self, rows: Integers, instance: int, moment: Moment) -> int:
        now, after = loads(rows, instance, moment)
        heat = np.maximum(after - HOT, 0.0).sum(axis=1) - np.maximum(now - HOT, 0.0).sum(axis=1)
        uneven = np.einsum("mt,mt->m", after, after) - np.einsum("mt,mt->m", now, now)
        cores = moment.fleet.workload.capacity[CPU][rows]
        return int(rows[np.argmin(cores * (heat + EVENNESS * uneven))])


class AsRecorded(RandomFeasible):
    """The machine that the live fleet used, even if it does not fit; any feasible machine where that is not known."""

    name = "as recorded"

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Choose for the first only."""
        row = int(moment.fleet.workload.placed_on[instances[0]])
        return [row] if row >= 0 else super().choose(instances, requests, moment)


REFERENCES = (RandomFeasible, BestFitByPeak, Oracle)


def loads(rows: Integers, instance: int, moment: Moment) -> tuple[Floats, Floats]:
    """Return [rows, t] CPU demand over capacity in the instance's life, without and with it."""
    fleet, first = moment.fleet, moment.minute
    last = min(first + int(fleet.workload.life[instance]), fleet.workload.minutes)
    at = fleet.cpu
    capacity = fleet.capacity[at][rows, None]
    now = fleet.load[at][rows, first:last] / capacity
    return now, now + fleet.demand(instance, first, last)[at] / capacity


def peaks(rows: Integers, instance: int, moment: Moment) -> Floats | None:
    """Return [rows] the highest of these with the instance; None when it has no minute in the workload."""
    _, after = loads(rows, instance, moment)
    return after.max(axis=1) if after.shape[1] else None


class ProdAlone(ProfilePolicy):
    """A profile that places prod and mid only."""

    reference = True

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile, f"{profile.name}, prod alone")

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Refuse batch and free; choose by the profile for the others."""
        if moment.fleet.workload.lower[instances[0]]:
            return self._batch(instances[0], moment)
        return super().choose(instances, requests, moment)

    def _batch(self, instance: int, moment: Moment) -> list[int | None]:
        return [None]


class KnowingBatch(ProdAlone):
    """A profile for prod and mid; batch is placed by the true demand of all instances."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.name = f"{profile.name}, batch known"

    def _batch(self, instance: int, moment: Moment) -> list[int | None]:
        rows = np.arange(len(moment.fleet.workload.machines))
        peak = peaks(rows, instance, moment)
        if peak is None or peak.min() > HOT:
            return [None]
        return [int(np.argmax(np.where(peak <= HOT, peak, -np.inf)))]
