"""Shell: running a script of the ledger, on a ledger of this release's format.

A script (`scorer.ledger.store.script_text`) is sent by its digest; a server that does not know it yet gets the text.
Nothing is retried here; every transition may be repeated by its caller.

The ledger has a format number. One of another format is neither read nor written: `UnknownFormat`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import redis

from schemas.names import Names
from scorer.ledger.store.reader import LedgerReader, UnknownFormat
from scorer.ledger.store.script_text import SCRIPTS, script_text
from scorer.ledger.view.leavers import MOST
from scorer.wire import Wire

ENDED_MAX = 1_000_000
"""How many ended instances are kept by default."""
_unpacked = msgspec.msgpack.Decoder().decode


class ScriptRunner(LedgerReader):
    """Runs the scripts on the ledger of one prefix."""

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
        self._common = (log_length, max(1, round(remember_s)))
        self.leavers_most = leavers_most
        """How many leavers are kept."""
        constants = {"CLOCK": time_source, "LEAVERS_MOST": str(leavers_most), "ENDED_MOST": str(ended_max)}
        self._scripts = {name: script_text(name, **constants) for name in SCRIPTS}
        self._digests = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in self._scripts.items()}  # noqa: S324

    def _run(
        self,
        script: str,
        dry_run: bool,
        *arguments: str | bytes | float,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Any]:
        call = (len(self._keys), *self._keys, int(dry_run), *self._common, *arguments)
        (result,) = self.wire.ask([("EVALSHA", self._digests[script], *call)], meanwhile=meanwhile)
        if isinstance(result, redis.exceptions.NoScriptError):
            (result,) = self.wire.ask([("EVAL", self._scripts[script], *call)])
        if isinstance(result, redis.ResponseError):
            word, _, found = str(result).partition(" ")
            raise UnknownFormat(self.head, found) if word == "LEDGERFORMAT" else result
        return _unpacked(result)  # type: ignore[no-any-return]

    def open(self) -> None:
        """Begin the ledger where there is none, as any script does; raises UnknownFormat."""
        self._run("expire", False, 0)
