"""The metrics of `windward evictor`."""

from schemas.process.metrics import Table, counter, gauge
from scorer.kubernetes.evictor.rules import DECLINED, WAITS

REPLACED = ("target", "elsewhere", "unseen")
"""Where the replacement came: to the held node; to another; none was seen while the node was held."""


class Metrics(Table):
    """Its metrics, in a registry of their own; every known label begins at 0."""

    PROCESS = "evictor"

    evicted = counter("windward_evictor_evicted", "Pods evicted")
    would = counter("windward_evictor_dry_runs", "Evictions that were tried alone, without --apply")
    declined = counter("windward_evictor_declined", "Proposals declined, by reason", reason=DECLINED)
    replaced = counter("windward_evictor_replaced", "Evicted pods by where their replacement came", where=REPLACED)
    waiting = gauge("windward_evictor_waiting", "Proposals that wait, by reason", reason=WAITS)
    open = gauge("windward_evictor_open", "Evicted pods whose replacement was not seen yet")
    up = gauge("windward_evictor_up", "1 while the last turn could ask Redis, scorer and API server")
