"""Rankings under a built-in profile, and fleets that several tests rank."""

from __future__ import annotations

from typing import Any

from scorer.commands.shared.fleet_file import FleetState
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from scorer.ranking.tables import Tables
from tests.scorer.fleets import fleet, machine, request

PROFILES = load_profiles()


def ranked(
    offline: FleetState, profile: str | Profile = "windward", kept: Tables | None = None, **asked: Any
) -> Ranking:
    """Return the ranking of a fleet under a profile."""
    chosen = PROFILES.choose(profile) if isinstance(profile, str) else profile
    return rank(request(**asked), offline.inputs(chosen, kept))


def mixed() -> FleetState:
    """Return five machines of which none takes much: three busy, two stale."""
    busy = [machine(f"busy{n}", usage={"cpu": 9.5, "memory": 10}) for n in range(3)]
    return fleet(*busy, *(machine(f"old{n}", usage={"cpu": 1, "memory": 1}, age_s=900) for n in range(2)))


def small_fleet() -> FleetState:
    """Return two machines that differ in labels, in a taint, and in what runs there."""
    return fleet(
        machine(
            "a", labels={"disk": "ssd", "image-x": "yes"}, operator={"taints": [{"key": "old", "effect": "avoid"}]}
        ),
        machine("b", labels={"disk": "hdd", "rack": "r1"}),
        instances=[{"id": "1", "machine": "a", "cluster": "c"}],
    )
