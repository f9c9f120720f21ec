"""``windward ledger``: check and repair the ledger, or accept one that was emptied."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar

from schemas.process.settings import setting
from schemas.process.verbs import load_verb
from scorer.background.checker import LastCheck
from scorer.client import WindwardError
from scorer.commands.shared import ask
from scorer.commands.shared.show import counted
from scorer.ledger.store.check import Check, Checked, mend
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.lease import Lease
from scorer.ledger.store.marker import Marker
from scorer.settings import ClientSettings, LedgerSettings
from scorer.wire import Wire

_LEASE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class CheckSettings(ClientSettings, LedgerSettings):
    """Compare the sums, counts and times of expiry that the scripts keep with those of the instances.

    Scorers may place and release meanwhile. Exit code 1: something differs and was not repaired.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward ledger check", "windward ledger check --repair")

    repair: bool = setting(False, "write those of the instances")


@dataclass(frozen=True, kw_only=True)
class AcceptSettings(ClientSettings, LedgerSettings):
    """Accept the ledger as it is, so that scorers place again.

    Scorers refuse to place when the ledger has begun anew while instances are known to have been there. Import an
    inventory first (`windward instances import FILE --apply`), or accept that they are gone.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward ledger accept",)


SETTINGS = {"check": CheckSettings, "accept": AcceptSettings}


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the subcommand."""
    _, settings = load_verb("ledger", SETTINGS, argv, environ)
    return ask.run(settings, "ledger", _check if isinstance(settings, CheckSettings) else _accept, "the ledger")


def _check(settings: CheckSettings) -> int:
    with ask.open_ledger(settings) as ledger:
        if not settings.repair:
            found = Check(ledger).run()
        else:
            lease = Lease(ledger, "check", f"{socket.gethostname()}-{os.getpid()}-repair", _LEASE_S)
            if (number := lease.take()) is None:
                raise WindwardError("ABORTED", "another check is running: try again in a minute")
            try:
                found = mend(ledger, number)
            except PermissionError as error:
                raise WindwardError("ABORTED", str(error)) from None
            LastCheck(ledger).write(found)
            lease.give_up()
    summary = dataclasses.asdict(found) | {
        "differences": [{one.kind: one.name, "what": one.what} for one in found.differences]
    }
    ask.tell(settings, summary, lambda *_: _words(found))
    return ask.OK if found.repaired == len(found.differences) else ask.FAILED


def _words(found: Checked) -> str:
    lines = [f"{one.kind} {one.name}: {one.what}" for one in found.differences]
    busy = f", {found.busy} changed at each read and were not compared" if found.busy else ""
    counts = f"{counted(found.machines, 'machine')} and {counted(found.clusters, 'cluster')}{busy}"
    differ = f"{len(found.differences)} {'differs' if len(found.differences) == 1 else 'differ'}"
    return "\n".join([*lines, f"{counts}: {differ}, {found.repaired} repaired"])


def _accept(settings: AcceptSettings) -> int:
    with ask.open_ledger(settings) as ledger, closing(Wire(settings.redis_arguments())) as windows:
        follower = Follower(ledger)
        follower.poll()
        follower.require()
        windows.ask([Marker(settings.names).write(follower.epoch, len(follower.view))])
    found = {"accepted": True, "instances": len(follower.view)}
    ask.tell(settings, found, lambda *_: f"accepted: the ledger has {counted(found['instances'], 'instance')}")
    return ask.OK
