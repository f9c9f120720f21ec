"""Shell: running a script of the ledger, on a ledger of this release's format.

A script (`scorer.ledger.store.script_text`) is sent by its digest; a server that does not know it yet gets the text.
Nothing is retried here; every transition may be repeated by its caller.

The ledger has a format number. A ledger of format 1 (release 0.1.0 wrote no number) is migrated when a script finds it.
One of a newer format is neither read nor written: `UnknownFormat`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import redis

from schemas.names import Names
from scorer.ledger.record.instance import in_this_format
from scorer.ledger.store.reader import LedgerReader, UnknownFormat
from scorer.ledger.store.script_text import SCRIPTS, script_text
from scorer.ledger.view.leavers import MOST
from scorer.wire import Wire

ENDED_MAX = 1_000_000
"""How many ended instances are kept by default."""
SLICE = 200
"""Records migrated by one script: the server serves no other client meanwhile."""

_unpacked = msgspec.msgpack.Decoder().decode


class ScriptRunner(LedgerReader):
    """Runs the scripts on the ledger of one prefix; migrates a ledger of format 1."""

    def __init__(
        self,
        wire: Wire,
        names: Names,
        *,
        log_length: int = 50_000,
        remember_s: float = 86_400.0,
        leavers_most: int = MOST,
        ended_max: int = ENDED_MAX,
        time_source: str = "redis.call('TIME')",
    ) -> None:
        super().__init__(wire, names)
        self._common = (log_length, f"{max(1, round(remember_s))} {ended_max}")
        self._former = (names.ledger("masters"), names.ledger("ports"))
        self.leavers_most = leavers_most
        """How many leavers are kept."""
        constants = {"CLOCK": time_source, "LEAVERS_MOST": str(leavers_most)}
        self._scripts = {name: script_text(name, **constants) for name in SCRIPTS}
        self._digests = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in self._scripts.items()}  # noqa: S324

    def _run(
        self,
        script: str,
        dry_run: bool,
        *arguments: str | bytes | float,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        keys = self._keys + self._former if script == "migrate" else self._keys
        call = (len(keys), *keys, int(dry_run), *self._common, *arguments)
        while True:
            (result,) = self.wire.ask([("EVALSHA", self._digests[script], *call)], meanwhile=meanwhile)
            if isinstance(result, redis.exceptions.NoScriptError):
                (result,) = self.wire.ask([("EVAL", self._scripts[script], *call)])
            if not isinstance(result, redis.ResponseError):
                return _unpacked(result)  # type: ignore[no-any-return]
            word, _, found = str(result).partition(" ")
            if word == "LEDGERFORMAT" and found != "1":
                raise UnknownFormat(self.head, found)
            if word not in ("LEDGERFORMAT", "LEDGERMIGRATING"):
                raise result
            self.open()
            meanwhile = None

    def open(self) -> int:
        """Begin the ledger, or migrate one of format 1; return how many records this call migrated.

        Other scorers may do the same meanwhile. A record takes some 100 us.

        Raises UnknownFormat.
        """
        taken = 0
        (state,) = self._run("migrate", False, "open")[3]
        while state == "migrating":
            for records in self._scan():
                arguments: list[str | bytes] = []
                for instance_id, record in records:
                    if (new := in_this_format(record)) is not None:
                        arguments += [instance_id, record, new]
                for first in range(0, len(arguments), 3 * SLICE):
                    self._run("migrate", False, "slice", *arguments[first : first + 3 * SLICE])
                taken += len(arguments) // 3
            (state,) = self._run("migrate", False, "close")[3]
        return taken
