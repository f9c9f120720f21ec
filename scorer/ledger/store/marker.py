"""The marker, an epoch guard: a key on the windows' server with the ledger's epoch and its number of instances.

A ledger on a server of its own may be empty after a restart: it then has another epoch, and the marker says how many
instances there were. When one server keeps both and is emptied, the marker is lost, too: a scorer that runs writes
again the marker that it saw. A scorer that starts then checks the agents' reports. Where they show instances
that are older than the ledger, it places nothing until an inventory is imported or the ledger accepted. So it is at a
first start on a fleet whose agents report instances. A ledger that never had an instance gets no marker but by
`windward ledger accept`. An unreadable marker is ignored, and written again. It is written at most once a second, so
its number may be older than a scorer's.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from schemas.names import Names
from scorer.wire import Command

log = logging.getLogger("windward.scorer")

_WRITE_S = 1.0
_DO = "Restore it or import an inventory (windward instances import), or accept it as it is: windward ledger accept"


class Marker:
    """Reads the marker in each turn of the loop, and writes it when the number of instances has changed."""

    def __init__(self, names: Names) -> None:
        self._key = names.ledger_marker
        self._written: tuple[str, int] | None = None
        self._written_at = 0.0
        self._seen = self._running = ("", 0)
        """The epoch and the instances of the ledger that was accepted; and what agents reported beside an empty one."""
        self._unreadable = b""
        self.refusal = ""
        """Why nothing may be placed on this ledger; "" when it may."""

    def read(self) -> Command:
        """Return the command whose answer `accept` takes."""
        return ("GET", self._key)

    def accept(self, answer: Any, epoch: str, instances: int, reported: Callable[[], int] = lambda: 0) -> list[Command]:
        """Compare the marker with the ledger; return the commands that update the marker.

        ``reported`` returns how many instances agents report that ran before the ledger began. It is called only where
        an empty ledger has no marker.
        """
        known, count = _read(answer)
        if isinstance(answer, bytes) and not known and answer != self._unreadable:
            self._unreadable = answer
            log.warning("scorer.ledger.marker_unreadable", extra={"values": {"stored": repr(answer)[:80]}})
        emptied = answer is None and self._seen[1] > 0 and self._seen[0] != epoch
        if emptied:
            known = self._seen[0]
        if known == self._seen[0] and known != epoch:
            count = self._seen[1] or count
        if known and known != epoch and count:
            self.refusal = f"the ledger has begun anew: it has {instances} instances and had {count}. {_DO}"
            return [("SET", self._key, f"{known} {count}")] if emptied else []
        if known != epoch and not instances and not isinstance(answer, Exception):
            kept = self._running[1] if self._running[0] == epoch else 0  # reports that end do not end the refusal
            running = reported() or kept
            if running and not kept:
                log.error("scorer.ledger.empty", extra={"values": {"reported": running}})
            self._running = epoch, running
            self.refusal = f"the ledger is empty, and agents report {running} instances. {_DO}" if running else ""
            return []
        self.refusal, self._seen = "", (epoch, instances)
        if isinstance(answer, Exception) or not epoch or (self._written == (epoch, instances) and known):
            return []
        if known == epoch and time.monotonic() < self._written_at + _WRITE_S and bool(instances) == bool(count):
            return []
        self._written_at = time.monotonic()
        return [self.write(epoch, instances)]

    def write(self, epoch: str, instances: int) -> Command:
        """Return the command that marks a ledger as the expected one."""
        self._written = (epoch, instances)
        return ("SET", self._key, f"{epoch} {instances}")


def _read(answer: Any) -> tuple[str, int]:
    r"""Return epoch and number of instances; "" and 0 without a readable marker.

    >>> _read(b"ab12 3"), _read(b"\xff"), _read(b"ab12"), _read(None)
    (('ab12', 3), ('', 0), ('', 0), ('', 0))
    """
    try:
        known, _, count = answer.decode("ascii").partition(" ") if isinstance(answer, bytes) else ("", "", "0")
        return known, int(count)
    except ValueError:
        return "", 0
