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

With ``--oracles`` each has one part of that knowledge, so that the worth of each part is known:

- ``oracle, mean use known``: of the new instance only the mean of its use over its life.
- ``oracle, use unknown``: it counts with what the instances that run now use of what they asked for, in the mean.
- ``oracle, one hour``: as the oracle, and t are the next 60 minutes alone.
- ``NAME, use known``: the profile, and each request says as ``expected`` the mean of its use over its life.

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
from dataclasses import replace
from typing import ClassVar, Literal

import msgspec
import numpy as np

from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.roles import Moment
from ops.replay.play.true_fleet import HOT
from ops.replay.workload import Workload
from schemas.resources import CPU, RESOURCES
from schemas.rpc.request import Request
from scorer.ranking.filters.fits import Fits
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import PlacedFilter, Profile
from scorer.ranking.rank import rank
from scorer.ranking.tables import Tables
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
    counts_by_class = False
    profile = None

    def __init__(self, seed: int = 0) -> None:
        self.refusals: Counter[str] = Counter()
        self._generator = np.random.default_rng([seed, 77])
        self._known: set[int] = set()
        self._tables = Tables()
        self._snapshot: Snapshot | None = None

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Choose for the first only."""
        if self._snapshot is None:
            self._snapshot = moment.measuring.empty_snapshot()
        ranking = rank(
            requests[0], RankingInputs(self._snapshot, moment.ledger, _BY_REQUESTS, moment.now_s, self._tables)
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
    use: ClassVar[Literal["known", "mean", "unknown"]] = "known"
    minutes_max: ClassVar[int] = 1 << 40

    def _pick(self, rows: Integers, instance: int, moment: Moment) -> int:
        now, added, capacity = loads(rows, instance, moment, self.minutes_max)
        if self.use == "mean" and added.size:
            added = np.full_like(added, added.mean())
        elif self.use == "unknown":
            added = np.full_like(added, usual_use(instance, moment))
        now, after = now / capacity, (now + added) / capacity
        heat = np.maximum(after - HOT, 0.0).sum(axis=1) - np.maximum(now - HOT, 0.0).sum(axis=1)
        uneven = np.einsum("mt,mt->m", after, after) - np.einsum("mt,mt->m", now, now)
        return int(rows[np.argmin(capacity[:, 0] * (heat + EVENNESS * uneven))])


class OracleOfMeans(Oracle):
    """The oracle that knows only the mean of the new instance's use."""

    name = "oracle, mean use known"
    use = "mean"


class OracleOfThoseThere(Oracle):
    """The oracle that knows nothing of the new instance but what it asks for."""

    name = "oracle, use unknown"
    use = "unknown"


class OracleOfOneHour(Oracle):
    """The oracle that sees one hour ahead."""

    name = "oracle, one hour"
    minutes_max = 60


class AsRecorded(RandomFeasible):
    """The machine that the live fleet used, even if it does not fit; any feasible machine where that is not known."""

    name = "as recorded"

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Choose for the first only."""
        row = int(moment.fleet.workload.placed_on[instances[0]])
        return [row] if row >= 0 else super().choose(instances, requests, moment)


REFERENCES = (RandomFeasible, BestFitByPeak, Oracle)
PARTS = (OracleOfMeans, OracleOfThoseThere, OracleOfOneHour)
"""Oracles that know a part of what `Oracle` knows."""


def loads(
    rows: Integers, instance: int, moment: Moment, minutes_max: int = Oracle.minutes_max
) -> tuple[Floats, Floats, Floats]:
    """Return [rows, t] CPU demand without the instance, [t] the instance's, [rows, 1] cores.

    t: the minutes of its life, at most ``minutes_max``.
    """
    fleet, first = moment.fleet, moment.minute
    last = min(first + min(int(fleet.workload.life[instance]), minutes_max), fleet.workload.minutes)
    at = fleet.cpu
    return fleet.load[at][rows, first:last], fleet.demand(instance, first, last)[at], fleet.capacity[at][rows, None]


def peaks(rows: Integers, instance: int, moment: Moment) -> Floats | None:
    """Return [rows] the highest of these with the instance; None when it has no minute in the workload."""
    now, added, capacity = loads(rows, instance, moment)
    return ((now + added) / capacity).max(axis=1) if added.size else None


def usual_use(instance: int, moment: Moment) -> float:
    """Return the cores that it uses, if of its request it uses the part that those that run now use of theirs."""
    fleet, requests = moment.fleet, moment.fleet.workload.asked[CPU]
    asked = float(requests[fleet.running(moment.minute)].sum())
    used = float((fleet.load - fleet.overhead)[fleet.cpu, :, moment.minute].sum())
    return float(requests[instance]) * (used / asked if asked > 0 else 1.0)


class Told(ProfilePolicy):
    """A profile in a world of `told`."""

    reference = True

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile, f"{profile.name}, use known")


def told(world: Workload) -> Workload:
    """Return the world whose requests say as ``expected`` the mean use, over a life that begins with the first try."""
    requests = []
    for instance, (start, life) in enumerate(zip(world.start.tolist(), world.life.tolist(), strict=True)):
        first = max(start, 0)
        last = min(first + life, world.minutes)
        measured = np.flatnonzero(world.measured).tolist() if last > first else ()
        means = {RESOURCES[row]: float(world.usage.of(instance, row, first, last).mean()) for row in measured}
        requests.append(msgspec.structs.replace(world.request(instance), expected=means))
    return replace(world, requests=requests)


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
