"""What the recorder reads of a ranking's inside."""

from __future__ import annotations

from typing import Any

from scorer.kubernetes.extender.extender import profile_for
from scorer.kubernetes.extender.verbs import kept, scored
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.ranking import Ranking
from scorer.ranking.tables import Tables

__all__ = ["extended", "first_refusals", "kept", "scored", "tables_of"]


def tables_of() -> dict[str, Any]:
    """Return what keeps the rows of the machines, as an argument of the inputs."""
    return {"tables": Tables()}


def first_refusals(ranking: Ranking) -> list[str]:
    """Return by machine the first filter that refuses it and why; "" where none does."""
    found = (ranking.verdict_of(row) for row in range(len(ranking.machines)))
    return ["" if why is None else f"{why[0].filter.name}: {why[1]}" for why in found]


def extended(profile: Profile, mode: str) -> Profile:
    """Return a profile as the extender has it in a mode."""
    return profile_for(profile, mode)  # type: ignore[arg-type]
