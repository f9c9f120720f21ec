"""Wait until the fleet of a local stack has data: each machine by a recent sample, and one of them takes an instance.

While the stream app reads the history all samples are old, and a scorer places by what it knew last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ops.stack.servers.process import LocalError
from scorer.client import Client, HealthResult, RankResult, WindwardError

PATIENCE_S = 60.0
"""How long nothing may come nearer."""
_POLL_S = 0.25
_SAY_S = 5.0
_UNFIT_S = 5.0
"""How long a full fleet may take no instance before that is the answer."""
_OLD = ("stale", "without data")


@dataclass(frozen=True)
class FleetState:
    """What a scorer says of its fleet."""

    recent: int = 0
    """Machines known by a recent sample."""
    newest_at: float = 0.0
    """Time of the newest sample, epoch s."""
    unfit: str = "no scorer has answered"
    """Why no machine takes a small instance; "" when one does."""


def state_of(health: HealthResult, rank: RankResult, now_s: float) -> FleetState:
    """Return the state that two answers tell.

    >>> health = HealthResult(ready=True, scorer="a", version="1", uptime_s=1, machines=3, machines_with_data=3,
    ...     newest_sample_age_s=2.0, windows_s=[], instances=0, ledger_change=0, profiles=[], profile="")
    >>> state_of(health, RankResult(machine="m1", feasible=3), 100.0)
    FleetState(recent=3, newest_at=98.0, unfit='')
    """
    unfit = health.degraded or health.ledger_refusal or health.ledger_unaccepted
    old = sum(one.machines for one in rank.refusals if one.reason in _OLD)
    age_s = health.newest_sample_age_s
    return FleetState(
        recent=0 if health.degraded else health.machines - old,
        newest_at=0.0 if age_s is None else now_s - age_s,
        unfit=unfit or ("" if rank.machine else rank.summary or "no machine fits"),
    )


def look(client: Client) -> FleetState:
    """Ask a scorer."""
    try:
        return state_of(client.health(), client.rank(cpu=0.01, memory="1M", top=1), time.time())
    except WindwardError as error:
        return FleetState(unfit=error.message)


def await_fleet(
    machines: int, look: Callable[[], FleetState], say: Callable[[str], None], meanwhile: Callable[[], None]
) -> str:
    """Return when so many machines are known by recent samples: "", or why none of them takes an instance.

    ``meanwhile`` is called between two looks. Raises LocalError when nothing comes nearer for `PATIENCE_S`.
    """
    best = FleetState()
    nearer_at = said_at = time.monotonic()
    while True:
        state, now_s = look(), time.monotonic()
        if state.recent > best.recent or (not state.recent and state.newest_at > best.newest_at):
            best, nearer_at = state, now_s
        if state.recent >= machines and (not state.unfit or now_s - nearer_at > _UNFIT_S):
            return state.unfit
        if now_s - nearer_at > PATIENCE_S:
            found = f"{state.recent} of {machines} machines have recent data, unchanged for {PATIENCE_S:g} s"
            raise LocalError(f"the fleet is not ready: {found}" + (f"; {state.unfit}" if state.unfit else ""))
        if now_s - said_at > _SAY_S:
            said_at = now_s
            say(f"waiting for data: {state.recent:,} of {machines:,} machines")
        meanwhile()
        time.sleep(_POLL_S)
