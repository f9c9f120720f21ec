"""The policies of each world: profiles, by the product's code, and references, which may know the future.

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

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ops.replay.simulator.interfaces import Changer, Moment, Policy
from ops.replay.simulator.moves import ByAdvice, Moving, Rebalancer
from ops.replay.simulator.true_fleet import HOT
from ops.replay.workload import Workload
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.limits import Limit, adds, mosts_in_script, scales_in_script
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.plan import plan
from scorer.placement.choosing.trial import ranked
from scorer.placement.placer import CANDIDATES
from scorer.ranking.explain import summary
from scorer.ranking.filters.fits import Fits
from scorer.ranking.inputs import RankingInputs, by_class_filter
from scorer.ranking.profiles.profile import PlacedFilter, Profile
from scorer.ranking.rank import limits, rank
from scorer.snapshot.arrays import Floats, Integers
from scorer.snapshot.snapshot import Snapshot


class ProfilePolicy(Policy):
    """A profile, as a scorer with a ledger of its own would apply it."""

    def __init__(self, profile: Profile, name: str = "") -> None:
        super().__init__()
        self.name = name or profile.name
        self.profile = profile
        self.learns = any(model.learned for model in profile.load_models)
        self.counts_by_class = by_class_filter(profile) is not None

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Rank one request, plan several; candidates that the ledger's limits refuse are skipped."""
        inputs = moment.inputs(self.profile, self._tables)
        snapshot, ledger = inputs.snapshot, inputs.ledger
        if len(requests) > 1:
            planned = plan(requests, inputs)
            for position, why in planned.reasons.items():
                self._refused(instances[position], lambda why=why: why)  # type: ignore[misc]
            return [None if machine is None else snapshot.roster.index[machine] for machine in planned.machines]
        request = requests[0]
        ranking = ranked(request, inputs)
        rows = [int(row) for row in ranking.best(CANDIDATES)]
        record = instance_of(request, "", moment.now_s)
        for row, allowed in zip(rows, limits(ranking, rows, request), strict=True):
            if upheld(allowed, record, ledger.on_machine(snapshot.names[row])):
                return [row]
        self._refused(instances[0], lambda: summary(ranking))
        return [None]


def upheld(allowed: Sequence[Limit], record: Instance, held: Sequence[Instance]) -> bool:
    """Return whether a machine with these instances may take one more, as the reserve script decides it."""
    for limit in allowed:
        added = adds(record, limit.measure)
        if added:
            taken = added + sum(adds(each, limit.measure) for each in held)
            (most,) = mosts_in_script([limit], scales_in_script([(1, *limit.measure)]))
            if 0 <= most < taken:
                return False
    return True


EVENNESS = 0.01
"""Weight of the sum of squares against heat: it decides among machines that stay cool."""
_BY_REQUESTS = Profile(name="by requests", filters=(PlacedFilter(Fits(basis="requests")),), stale="requests")


class Reference(Policy):
    """Chooses among the machines on which the request fits; subclasses implement the choice."""

    reference = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._generator = np.random.default_rng([seed, 77])
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
            self._refused(instances[0], lambda: "no machine has room for what is asked")
            return [None]
        return [self._pick(rows, instances[0], moment)]

    def _pick(self, rows: Integers, instance: int, moment: Moment) -> int:
        raise NotImplementedError


class RandomFeasible(Reference):
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
    """Greedy on heat, with the future load of all placed instances known."""

    name = "oracle"

    def _pick(self, rows: Integers, instance: int, moment: Moment) -> int:
        now, added, capacity = loads(rows, instance, moment)
        now, after = now / capacity, (now + added) / capacity
        heat = np.maximum(after - HOT, 0.0).sum(axis=1) - np.maximum(now - HOT, 0.0).sum(axis=1)
        uneven = np.einsum("mt,mt->m", after, after) - np.einsum("mt,mt->m", now, now)
        return int(rows[np.argmin(capacity[:, 0] * (heat + EVENNESS * uneven))])


class AsRecorded(RandomFeasible):
    """The machine that the live fleet used, even if it does not fit; any feasible machine where that is not known."""

    name = "as recorded"

    def choose(self, instances: Sequence[int], requests: Sequence[Request], moment: Moment) -> list[int | None]:
        """Choose for the first only."""
        row = int(moment.fleet.workload.placed_on[instances[0]])
        return [row] if row >= 0 else super().choose(instances, requests, moment)


REFERENCES = (RandomFeasible, BestFitByPeak, Oracle)


def loads(rows: Integers, instance: int, moment: Moment) -> tuple[Floats, Floats, Floats]:
    """Return [rows, t] CPU demand without the instance, [t] the instance's, [rows, 1] cores; t: minutes of its life."""
    fleet, first = moment.fleet, moment.minute
    last = min(first + int(fleet.workload.life[instance]), fleet.workload.minutes)
    at = fleet.cpu
    return fleet.load[at][rows, first:last], fleet.demand(instance, first, last)[at], fleet.capacity[at][rows, None]


def peaks(rows: Integers, instance: int, moment: Moment) -> Floats | None:
    """Return [rows] each machine's highest future load with the instance; None if it has no minute in the workload."""
    now, added, capacity = loads(rows, instance, moment)
    return ((now + added) / capacity).max(axis=1) if added.size else None


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


class Run(NamedTuple):
    """A policy, with its moves or evictions."""

    policy: Policy
    changer: Changer | None = None


def runs(
    world: Workload,
    profiles: Sequence[Profile],
    baseline: str,
    movings: Sequence[Moving],
    evicting: Sequence[int] = (),
) -> list[Run]:
    """Return the profiles, with and without moves of their instances; the baseline's are not moved, unless it is alone.

    Profiles that count by class also take part with evictions, every ``evicting`` minutes.
    In a world with batch there are two references. One is the first profile, with all batch refused. The other is the
    first profile that counts by class, with batch placed by the true demand. A profile with one sum for all classes is
    not used there, since batch would take prod's room. A recorded world has its recorded placement as a reference, too.
    """
    found = [Run(ProfilePolicy(profile)) for profile in profiles]
    for profile in [one for one in profiles if one.name != baseline] or profiles:
        for moving in movings:
            name = f"{profile.name} + {100 * moving.share:g} %/h"
            found.append(Run(ProfilePolicy(profile, name), Rebalancer(profile, moving, world)))
    by_class = [one for one in profiles if by_class_filter(one) is not None]
    for profile in by_class:
        for minutes in evicting:
            policy = ProfilePolicy(profile, f"{profile.name}, evict {minutes} min")
            found.append(Run(policy, ByAdvice(profile, world, minutes)))
    if world.placed_on.size:
        found.append(Run(AsRecorded(world.seed)))
    if not world.lower.any():
        return [*found, *(Run(kind(world.seed)) for kind in REFERENCES)]
    return [*found, Run(ProdAlone(profiles[0])), *(Run(KnowingBatch(one)) for one in by_class[:1])]
