"""Reference policies of worlds with batch: prod without batch, and batch whose future usage is known.

- ``NAME, prod alone``: the profile, and no batch is placed.
- ``NAME, batch known``: the profile, one that counts by class, for prod. Batch goes to a machine on which the true
  demand of those placed so far, with it, stays at or below 90 % in every minute of its life; of these to the fullest at
  its peak. It does not know later instances, and nothing is evicted. Of a queue it skips those that ask for at least as
  much as one refused in the same minute (`ops.replay.play.queue`), so it is no upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ops.replay.play.fleet import HOT
from ops.replay.play.policies import Moment, ProfilePolicy
from ops.replay.play.references import loads
from schemas.rpc.request import Request
from scorer.ranking.profiles.profile import Profile


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
        _, after = loads(rows, instance, moment)
        if not after.shape[1]:
            return [None]
        peak = after.max(axis=1)
        fitting = np.where(peak <= HOT, peak, -np.inf)
        best = int(np.argmax(fitting))
        return [best] if np.isfinite(fitting[best]) else [None]
