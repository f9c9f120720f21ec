"""Small fleets for tests: a machine is a few words, a score or a filter is asked directly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from schemas.request import Request, read_request
from scorer.fleet_file import OfflineFleet, read_fleet
from scorer.machines import Machines
from scorer.profile import Sight
from scorer.rank import fleet_of

CASES = Path(__file__).parent / "cases"


def cases(name: str, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of one table of a peer."""
    rows = json.loads((CASES / f"{name}.json").read_text())["cases"]
    return [row for row in rows if kind is None or row.get("kind") == kind]


def by_name(row: dict[str, Any]) -> str:
    """Return the id of a row in pytest's output."""
    return row["name"]


def machine(name: str = "m", cpu: Any = 10.0, memory: Any = 100.0, **more: Any) -> dict[str, Any]:
    """Return a machine with this capacity; `usage` and the rest as in a fleet file."""
    capacity = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": name, "capacity": capacity | more.pop("capacity", {}), **more}


def fleet(*machines: dict[str, Any], **more: Any) -> OfflineFleet:
    """Return the fleet of these machines."""
    return read_fleet({"machines": list(machines), **more})


def request(**params: Any) -> Request:
    """Return a request."""
    return read_request(params)


def see(offline: OfflineFleet, asked: Request | None = None, sight: Sight | None = None) -> Machines:
    """Return the machines as a decision sees them."""
    seen = fleet_of(offline.snapshot, offline.ledger, sight or Sight())
    return Machines(seen, asked or request(), offline.now_s)


def scores(
    plugin: Any, offline: OfflineFleet, asked: Request | None = None, sight: Sight | None = None
) -> dict[str, float]:
    """Return what a score says of each machine."""
    asked = asked or request()
    values = plugin(asked, see(offline, asked, sight))
    assert np.isfinite(values).all()
    return dict(zip(offline.snapshot.names, map(float, values), strict=True))


def allowed(
    plugin: Any, offline: OfflineFleet, asked: Request | None = None, sight: Sight | None = None
) -> dict[str, bool]:
    """Return whom a filter lets pass."""
    asked = asked or request()
    machines = see(offline, asked, sight)
    if not getattr(plugin, "wanted", lambda *_: True)(asked, machines):
        return dict.fromkeys(offline.snapshot.names, True)
    return dict(zip(offline.snapshot.names, map(bool, plugin(asked, machines)), strict=True))
