"""How a pod is placed: by which profile nodes are ranked, and what the ledger reserves. Pure.

Kubernetes' own filters check selectors, taints, affinity, ports and amounts before the scheduler calls an extender. So
the profile is used without Windward's filters of these (`profile_for`). Only mode ``bind`` keeps `fits`, which gives
the limit that the ledger upholds.
"""

from dataclasses import replace
from typing import Literal

import msgspec

from schemas.rpc.request import Request
from scorer.ledger.record.instance import request_digest
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.view.view import instance_of
from scorer.placement.placer import candidates
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import Ranking

Mode = Literal["score", "filter", "bind"]
LEFT_TO_KUBERNETES = ("machine_name", "taints", "selector", "fits", "ports", "affinity", "anti_affinity")
"""The filters for rules of the pod itself, which kube-scheduler checks."""
RESERVED_S = 60.0
"""How long a reservation waits for its pod to be seen bound."""
_ANY_VERSION = -1


def profile_for(profile: Profile, mode: Mode) -> Profile:
    """Return a profile without the filters that are left to Kubernetes."""
    left = [name for name in LEFT_TO_KUBERNETES if mode != "bind" or name != "fits"]
    return replace(profile, filters=tuple(each for each in profile.filters if each.filter.name not in left))


def reservation(request: Request, node: str, ranking: Ranking) -> Wanted:
    """Return the step for the ledger: a reservation on this node alone, within the limits of the profile's filters.

    Versions are not compared: the scheduler has chosen, and only hard limits are checked. A node that the fleet does
    not know has no limits. Ports have none: the scheduler tells protocols and addresses apart.
    """
    row = ranking.machines.roster.index.get(node)
    if row is None:
        offered = [Candidate(node, _ANY_VERSION)]
    else:
        asked = msgspec.structs.replace(request, ports=()) if request.ports else request
        offered = candidates(lambda _: _ANY_VERSION, ranking, [row], asked)
    record = instance_of(request, "", ranking.machines.now_s, digest=request_digest(request))
    return Wanted(record, RESERVED_S, offered)
