"""Shell: has what stays on machines that are being drained planned again, until they are empty.

    every 30 s: which machines do operators' rules say are drained (`Draining`), and which of them hold instances?
                -> take the lease `drain` -> a query `drain` for each way of draining, with ``again``

So a mover alone empties a machine: what found no target, whose move was refused, failed or ran out, gets one as soon as
there is one. Only what is still being drained when it is planned is moved.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from schemas.messages.operator import DEFAULT, drained
from schemas.rpc.envelope import Query
from schemas.rpc.request import Draining
from scorer.ledger.store.check import instances_on
from scorer.ledger.store.lease import Lease
from scorer.ledger.store.scripts import Ledger
from scorer.planner.settings import PlannerSettings
from scorer.wire import Wire

_DEADLINE_S = 60.0


class Drainer:
    """Looks for what is due; ``wire`` is to the server of operators' rules."""

    def __init__(self, ledger: Ledger, wire: Wire, settings: PlannerSettings) -> None:
        self._ledger, self._wire, self._names = ledger, wire, settings.names
        self._lease = Lease(ledger, "drain", settings.holder, 2 * settings.drain_s)

    def due(self, now_s: float) -> list[Query]:
        """Return the queries for what is due; none while another planner holds the lease."""
        entries: list[bytes] = self._wire.one("HGETALL", self._names.operator)
        rules = dict(zip(entries[::2], entries[1::2], strict=True))
        of_all = rules.get(DEFAULT.encode())
        found = defaultdict[Draining, list[str]](list)
        for name, raw in rules.items():
            if b'"drain"' in raw and name != DEFAULT.encode() and (how := drained(raw, of_all)) is not None:
                found[how].append(name.decode())
        held = instances_on(self._ledger, [name for names in found.values() for name in names]) if found else {}
        asked = [(how, [name for name in names if name in held]) for how, names in found.items()]
        asked = [(how, names) for how, names in asked if names]
        if not asked or self._lease.take() is None:
            return []
        return [
            Query(
                id=f"drain-{now_s:.3f}-{number}",
                method="drain",
                deadline=now_s + _DEADLINE_S,
                params=msgspec.Raw(msgspec.json.encode(
                    {"machines": machines, "apply": True, "again": True, **msgspec.structs.asdict(how)}
                )),
            )
            for number, (how, machines) in enumerate(asked)
        ]  # fmt: skip
