"""Staleness of the whole fleet: while the pipeline is silent, machines are ranked by their last known load.

A machine's data is stale when its newest sample is older than the profile's ``stale_s`` and than three of its own
intervals. When few machines are stale, the fault is theirs, and the `fresh` filter refuses them. When 90 % or more are
stale, the fault is in the pipeline (broker, stream app, Redis). Under ``stale = "last-known"`` the usage is then that
of the last window, with the credits of all instances placed since, and every answer warns.

Rejected as the default: to refuse all machines, which turns a broken broker into an outage of every deployer. Also
rejected: to rank by requests alone, by which a loaded fleet with an empty ledger looks idle.
"""

from __future__ import annotations

import math

import numpy as np

from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot

SILENT_SHARE = 0.9
"""The pipeline is silent when at least this share of the machines with data is stale."""
_INTERVALS_MAX = 3.0


def stale_machines(snapshot: Snapshot, stale_s: float, now_s: float) -> int:
    """Return how many machines with data have none that is younger than ``stale_s``."""
    old = int(np.count_nonzero(snapshot.seen_at < now_s - stale_s))
    return old - (len(snapshot) - snapshot.machines_with_data)


def is_silent(snapshot: Snapshot, stale_s: float, now_s: float) -> bool:
    """Return whether the pipeline is silent; False where no machine ever had data."""
    known = snapshot.machines_with_data
    enough = math.ceil(SILENT_SHARE * known)
    if not known or stale_machines(snapshot, stale_s, now_s) < enough:
        return False
    return known - int(np.count_nonzero(now_s <= fresh_until_s(snapshot, stale_s))) >= enough


def any_fresh(snapshot: Snapshot, profile: Profile, now_s: float) -> bool:
    """Return whether any machine has a sample younger than ``stale_s``."""
    return now_s - snapshot.newest_at <= profile.stale_s


def fresh_until_s(snapshot: Snapshot, stale_s: float) -> Floats:
    """Return [M]: the time from which on each machine is stale, unless data arrive before; -inf without data."""
    return snapshot.seen_at + np.fmax(stale_s, _INTERVALS_MAX * snapshot.column("interval_s"))


def heard_until_s(until_s: Floats) -> float:
    """Return the time from which on the pipeline is silent, unless data arrive before; of machines with data only."""
    if not until_s.size:
        return math.inf
    place = math.ceil(SILENT_SHARE * until_s.size) - 1
    return float(np.partition(until_s, place)[place])


def degraded(snapshot: Snapshot, profile: Profile, now_s: float) -> str:
    """Return what is wrong with the data as a whole, in words; "" where nothing is."""
    if not len(snapshot):
        return "no machine is known"
    if not snapshot.machines_with_data:
        return "no machine has data"
    if now_s <= heard_until_s(fresh_until_s(snapshot, profile.stale_s)[snapshot.has_data]):
        return ""
    age_s = now_s - snapshot.newest_at
    return f"at least {SILENT_SHARE:.0%} of the machines have stale data; the newest sample is {age_s:.0f} s old"
