"""The fleets of the pages: machines and instances as in a fleet file, ranked by the product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.rpc.request import read_request
from scorer.commands.shared.fleet_file import read_fleet
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking

CAPACITY = {"cpu": 32.0, "memory": 128e9, "nic": 1.25e9, "disk": 1.0}


def machine(name: str, cpu: float = 0.3, std: float = 0.0, memory: float = 0.3, **more: Any) -> dict[str, Any]:
    """Return a machine of 32 cores and 128 GB, with its loads as shares of what it has."""
    usage = {
        "cpu": {"mean": 32 * cpu, "std": 32 * std},
        "memory": {"mean": 128e9 * memory, "std": 0.0},
        "nic": {"mean": 1e8, "std": 0.0},
        "disk": {"mean": 0.1, "std": 0.0},
    }
    return {"name": name, "capacity": CAPACITY, "usage": usage} | more


def ranked(
    machines: Sequence[Mapping[str, Any]],
    request: Mapping[str, Any],
    profile: Profile,
    instances: Sequence[Mapping[str, Any]] = (),
) -> Ranking:
    """Return the ranking of this fleet for this request."""
    fleet = read_fleet({"machines": list(machines), "instances": list(instances)})
    return rank(read_request(dict(request)), fleet.inputs(profile))
