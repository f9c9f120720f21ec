"""The plan of a fleet by the settings of its profile, whichever rule they name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scorer.ledger.view import LedgerView
from scorer.ranking.kept import Kept
from scorer.ranking.profile import Profile
from scorer.rebalance.leaving import leaving
from scorer.rebalance.rounds import Rounds
from scorer.rebalance.world import Plan, bounds_of, rebalance, wish_of
from scorer.snapshot.snapshot import Snapshot


def advice(
    snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float, kept: Kept | None = None,
    rounds: Rounds | None = None, pending: Mapping[str, str] | None = None, stay: Collection[str] = (),
) -> Plan:  # fmt: skip
    """Return the moves that the profile's ``[rebalance]`` asks for; nothing is changed but what ``rounds`` remembers.

    ``rounds``: the memory of earlier rounds; None: this is the only one. ``pending``: instance id to target, moves that
    are on their way and are seen as made. ``stay``: ids of instances that stay where they are.
    """
    settings = profile.rebalance
    if settings.rule == "thresholds":
        return leaving(snapshot, ledger, profile, settings, now_s, rounds, pending, stay)
    wish, bounds = wish_of(settings, stay), bounds_of(settings, len(ledger))
    return rebalance(snapshot, ledger, profile, wish, bounds, now_s, kept, rounds, pending)
