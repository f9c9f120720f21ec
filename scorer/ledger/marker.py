"""The marker: a key on the windows' server with the ledger's epoch and how many instances it had.

A ledger on a server of its own may be empty after a restart: it then has another epoch, and the marker says how many
instances there were. When one server keeps both and is emptied, the marker is lost, too. This looks like a first start.
"""

from __future__ import annotations

import time
from typing import Any

from schemas.names import Names
from scorer.wire import Command

_WRITE_S = 1.0


class Marker:
    """Reads the marker with each turn of the loop, and writes it when the number of instances has changed."""

    def __init__(self, names: Names) -> None:
        self._key = names.ledger_marker
        self._written: tuple[str, int] | None = None
        self._written_at = 0.0
        self.refusal = ""
        """Why nothing may be placed on this ledger; "" when it may."""

    def read(self) -> Command:
        """Return the command whose answer `accept` takes."""
        return ("GET", self._key)

    def accept(self, answer: Any, epoch: str, instances: int) -> list[Command]:
        """Compare the marker with the ledger as it was read; return the commands that update the marker."""
        known, _, count = answer.decode().partition(" ") if isinstance(answer, bytes) else ("", "", "0")
        if known and known != epoch and int(count):
            self.refusal = (
                f"the ledger has begun anew: it has {instances} instances and had {count}. Restore it or import an "
                "inventory (windward instances import), then run `windward ledger accept`"
            )
            return []
        self.refusal = ""
        if isinstance(answer, Exception) or not epoch or (self._written == (epoch, instances) and known):
            return []
        if known == epoch and time.monotonic() < self._written_at + _WRITE_S and bool(instances) == bool(int(count)):
            return []
        self._written_at = time.monotonic()
        return [self.write(epoch, instances)]

    def write(self, epoch: str, instances: int) -> Command:
        """Return the command that marks a ledger as the expected one."""
        self._written = (epoch, instances)
        return ("SET", self._key, f"{epoch} {instances}")
