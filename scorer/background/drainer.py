"""Shell: has what stays on machines that are being drained planned again, until they are empty.

    every 30 s: which machines do operators' rules say are drained (`Draining`), and which of them hold instances?
                -> take the lease `drain` -> give this scorer's own loop a query `drain`, with ``again``

So a mover alone empties a machine: what found no target, whose move was refused, failed or ran out, gets one as soon as
there is one. The loop answers the query in steps, as an operator's: others wait no longer for it. It plans only what is
still being drained when it is taken. Its answer has no reader, and ends by itself.

Chosen over a process of its own, which an operator would have to run; over the mover, which would need an operator's
rights; and over the operators' list, on which a scorer's user may not push.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque

import msgspec
import redis

from schemas.messages.operator import DEFAULT, drained
from schemas.names import Names
from schemas.rpc.draining import Draining
from schemas.rpc.envelope import Query
from scorer.background.thread import BackgroundThread
from scorer.ledger.record.transition import UnknownFormat
from scorer.ledger.store.check import instances_on
from scorer.ledger.store.lease import Lease
from scorer.ledger.store.scripts import Ledger
from scorer.wire import AWAY, Wire

log = logging.getLogger("windward.scorer")

_DEADLINE_S = 60.0


class Drainer(BackgroundThread):
    """Looks every ``every_s``; ``wire`` is to the server of operators' rules, ``own`` where the loop takes queries."""

    def __init__(
        self, ledger: Ledger, wire: Wire, names: Names, scorer: str, every_s: float, own: deque[bytes]
    ) -> None:
        super().__init__("drainer", ledger.wire, wire)
        self._ledger, self._wire, self._names, self._every_s, self._own = ledger, wire, names, every_s, own
        self._lease = Lease(ledger, "drain", scorer, 2 * every_s)

    def run(self) -> None:
        """Look until `stop`."""
        while not self.stopping.wait(self._every_s):
            try:
                self.look(time.time())
            except (*AWAY, UnknownFormat):  # the follower reports these
                continue
            except redis.ResponseError as error:
                log.warning("scorer.drain.refused", extra={"values": {"error": str(error)}})

    def look(self, now_s: float) -> int:
        """Ask for the plans that are due; return how many queries."""
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
        if not asked or self._own or self._lease.take() is None:
            return 0
        for number, (how, machines) in enumerate(asked):
            params = {"machines": machines, "apply": True, "again": True, **msgspec.structs.asdict(how)}
            query = Query(
                id=f"drain-{now_s:.3f}-{number}",
                method="drain",
                deadline=now_s + _DEADLINE_S,
                params=msgspec.Raw(msgspec.json.encode(params)),
            )
            self._own.append(msgspec.json.encode(query))
        return len(asked)
