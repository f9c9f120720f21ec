"""Demands of a request that no filter of the profile checks: such a request is refused, not silently reduced.

Each filter names the fields of a request that it upholds, in ``looks_at``. Fields that restrict where an instance may
go (`DEMANDS`) are upheld or refused. Fields that describe an instance, such as ``maxmemory`` and ``cluster_masters``,
may be given to any profile; so may preferences. `windward profiles check` tells all that one does not look at.

A query is refused before it is ranked. A plan for instances of the ledger refuses nothing: one whose rules the
profile does not look at gets no other machine, and is told with this reason (`scorer.placement.choosing.trial`). Pods
that kube-scheduler places are ranked by any profile: it upholds their rules itself (`scorer.kubernetes.extender`).
"""

from collections.abc import Sequence

from schemas.rpc.request import InvalidRequest, Request
from scorer.ranking.profiles.profile import Profile

DEMANDS = ("machine", "not_on", "selector", "ports", "affinity", "anti_affinity")


def why_ignored(request: Request, profile: Profile) -> str:
    """Return the demand of a request that the profile does not check; "" without one."""
    ignores = profile.ignores
    for field in DEMANDS if ignores else ():
        if field in ignores and getattr(request, field):
            missing = f"profile {profile.name!r} has no filter {ignores[field]!r}, and would ignore it"
            return f"{field}: {missing}; add the filter to the profile, or leave {field} out"
    return ""


def check_looked_at(requests: Sequence[Request], profile: Profile) -> None:
    """Raise InvalidRequest for the first request with a demand that the profile does not check."""
    for request in requests if profile.ignores else ():
        if why := why_ignored(request, profile):
            raise InvalidRequest(why)
