"""Silence of the pipeline: while no data arrive, machines are ranked by their last known load.

A machine's data is stale when its newest sample is older than the profile's ``stale_s`` and than three of its own
intervals. While any machine's data is fresh, the other machines are at fault, however many: the `fresh` filter refuses
them. When no data is fresh, the stream's workers decide. If they were ready, with nothing left to read, for longer than
``stale_s``, the machines are silent themselves. Else the pipeline is (a worker, the broker, Redis). Under ``stale =
"last-known"`` the usage is then that of the last window, with the credits of all instances placed since, and every
answer warns. Where nothing is known of the workers, as in a file, no fresh data means a silent pipeline.

Rejected: a share of stale machines as the sign. With 61 of 1,001 machines fresh, an instance went to one that had been
silent for six minutes.

Rejected as the default: to refuse all machines, which turns a broken broker into an outage of every deployer. Also
rejected: to rank by requests alone, by which a loaded fleet with an empty ledger looks idle.
"""

import numpy as np

from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot

_INTERVALS_MAX = 3.0


def stale_machines(snapshot: Snapshot, stale_s: float, now_s: float) -> int:
    """Return how many of the machines with data have no data younger than ``stale_s``."""
    old = int(np.count_nonzero(snapshot.seen_at < now_s - stale_s))
    return old - (len(snapshot) - snapshot.machines_with_data)


def is_silent(snapshot: Snapshot, stale_s: float, now_s: float) -> bool:
    """Return whether the pipeline is silent; False where no machine ever had data."""
    if not snapshot.machines_with_data or any_fresh(snapshot, stale_s, now_s):
        return False
    return not snapshot.pipeline.is_up(now_s, stale_s)


def fresh_until_s(snapshot: Snapshot, stale_s: float) -> Floats:
    """Return [M]: the time at which each machine becomes stale, unless data arrive before; -inf without data."""
    return snapshot.seen_at + np.fmax(stale_s, _INTERVALS_MAX * snapshot.column("interval_s"))


def any_fresh(snapshot: Snapshot, stale_s: float, now_s: float) -> bool:
    """Return whether any machine's data is fresh.

    No data is newer than the last write, whatever a machine's clock says.
    """
    if now_s <= min(snapshot.newest_at, snapshot.written_at) + stale_s:
        return True
    ahead_s = np.maximum(snapshot.seen_at - snapshot.written_at, 0.0)
    return bool((now_s <= fresh_until_s(snapshot, stale_s) - ahead_s).any())


def degraded(snapshot: Snapshot, profile: Profile, now_s: float) -> str:
    """Return the fault of the data as a whole, in words; "" without one."""
    if not len(snapshot):
        return "no machine is known"
    if not snapshot.machines_with_data:
        return "no machine has data"
    if any_fresh(snapshot, profile.stale_s, now_s):
        return ""
    who = "the pipeline" if is_silent(snapshot, profile.stale_s, now_s) else "every agent, while the stream runs,"
    return f"{who} is silent: the newest sample is {now_s - snapshot.newest_at:.0f} s old"
