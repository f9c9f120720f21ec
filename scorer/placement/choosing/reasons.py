"""Why the kept ranking served the next placement, or did not: one reason for each case.

Reasons are values here; the service counts them (``windward_scorer_ranking_reuse_total``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Reason = Literal[
    "unchanged", "continued",
    "nothing_kept", "other_request", "profile_changed", "snapshot_changed", "ledger_reloaded", "expired",
    "others_placed", "instance_left", "few_alike", "explained", "scope", "normalisation", "out_of_range", "no_room",
    "unlike", "ties_drawn", "machines_limited", "retried", "whole_ranking",
]  # fmt: skip

REUSED: Mapping[Reason, str] = MappingProxyType(
    {
        "unchanged": "nothing was placed since the ranking",
        "continued": "what was placed since is what the ranking chose, and the next machine is known",
    }
)
"""Reasons for using the kept ranking."""

RANKED: Mapping[Reason, str] = MappingProxyType(
    {
        "nothing_kept": "no ranking is kept: a first request, or no idle time since",
        "other_request": "the request differs by more than its id",
        "profile_changed": "the profile is another one, or was read again",
        "snapshot_changed": "the machines' load was read again",
        "ledger_reloaded": "the whole ledger was read again",
        "expired": "the ranking is older than a ranking may be",
        "others_placed": "an instance came that is not of this request, or to another machine than the one chosen",
        "instance_left": "an instance left or its record changed, or more changed than is kept",
        "few_alike": "too few requests of the kind in a row to expect more",
        "explained": "every answer is to have the terms of its own ranking",
        "scope": "a filter or score depends on more than a machine's own columns and on means of the fleet",
        "normalisation": "a score is spread by rank",
        "out_of_range": "a score of scope means would be clipped: machines are loaded beyond what they have",
        "no_room": "fewer machines than instances are left",
        "unlike": "the instances of a batch differ by more than their ids",
        "ties_drawn": "the profile draws among equally good machines for each instance",
        "machines_limited": "a batch is to use at most, or at least, so many machines",
        "retried": "a part of the batch is placed already",
        "whole_ranking": "more than the best machine is asked for, and it changed since the ranking",
    }
)
"""Reasons for a new ranking."""

LASTING: frozenset[Reason] = frozenset({"scope", "normalisation", "out_of_range"})
"""Reasons that hold for the request, whatever is kept."""


def result(reason: Reason) -> Literal["reused", "ranked"]:
    """Return the result that goes with this reason."""
    return "reused" if reason in REUSED else "ranked"
