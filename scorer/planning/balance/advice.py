"""The plan of a fleet by the rule that its profile names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scorer.ledger.view.view import LedgerView
from scorer.planning.balance.by_overload import Plan, bounds_of, rebalance, wish_of
from scorer.planning.balance.by_thresholds import leaving
from scorer.planning.balance.rounds import Rounds
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.snapshot import Snapshot


def advice(
    snapshot: Snapshot, ledger: LedgerView, profile: Profile, now_s: float, kept: Kept | None = None,
    rounds: Rounds | None = None, pending: Mapping[str, str] | None = None, stay: Collection[str] = (),
) -> Plan:  # fmt: skip
    """Return the moves by the profile's ``[rebalance]``; nothing is changed but the state in ``rounds``.

    ``rounds``: the state of earlier rounds; None: this is the only one. ``pending``: instance id to target, moves under
    way that count as made. ``stay``: ids of instances that do not move.
    """
    settings = profile.rebalance
    if settings.rule == "thresholds":
        return leaving(snapshot, ledger, profile, settings, now_s, rounds, pending, stay)
    wish, bounds = wish_of(settings, stay), bounds_of(settings, len(ledger))
    return rebalance(snapshot, ledger, profile, wish, bounds, now_s, kept, rounds, pending)
