"""``windward ledger``: check and repair the ledger, or accept one that was emptied."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from schemas.process.settings import load_settings, setting
from schemas.process.verbs import chosen
from scorer.background.checker import LastCheck
from scorer.client import WindwardError
from scorer.commands.shared import ask
from scorer.ledger.record.transition import UnknownFormat
from scorer.ledger.store.check import Check, Checked, mend
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.lease import Lease
from scorer.ledger.store.marker import Marker
from scorer.ledger.store.scripts import Ledger
from scorer.settings import ClientSettings, LedgerSettings
from scorer.wire import AWAY, Wire

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
    verb, rest = chosen("ledger", SETTINGS, argv, environ)
    settings: CheckSettings | AcceptSettings = load_settings(
        SETTINGS[verb], f"ledger {verb}", rest, environ, table="ledger", table_fields=("repair",)
    )
    wire, other = Wire(settings.ledger_arguments()), Wire(settings.redis_arguments())
    ledger = Ledger(wire, settings.names, **settings.ledger_bounds())
    try:
        if isinstance(settings, CheckSettings):
            return _check(settings, ledger)
        return _accept(settings, ledger, other)
    except AWAY as error:
        return ask.unreachable("the ledger", error, "ledger", settings)
    except UnknownFormat as error:
        return ask.report(WindwardError("FAILED_PRECONDITION", str(error)), "ledger", settings)
    except PermissionError as error:
        return ask.report(WindwardError("ABORTED", str(error)), "ledger", settings)
    finally:
        wire.close()
        other.close()


def _check(settings: CheckSettings, ledger: Ledger) -> int:
    if not settings.repair:
        found = Check(ledger).run()
    else:
        number = Lease(ledger, "check", f"{socket.gethostname()}-{os.getpid()}-repair", _LEASE_S).take()
        if number is None:
            raise PermissionError("another check is running: try again in a minute")
        found = mend(ledger, number)
        LastCheck(ledger).write(found)
    print(json.dumps(_summary(found)) if settings.json else _words(found))  # noqa: T201
    return ask.OK if found.repaired == len(found.differences) else ask.FAILED


def _summary(found: Checked) -> dict[str, object]:
    return {
        "machines": found.machines,
        "clusters": found.clusters,
        "differences": [{one.kind: one.name, "what": one.what} for one in found.differences],
        "busy": found.busy,
        "repaired": found.repaired,
    }


def _words(found: Checked) -> str:
    lines = [f"{one.kind} {one.name}: {one.what}" for one in found.differences]
    busy = f", {found.busy} changed at each read and were not compared" if found.busy else ""
    counts = f"{found.machines} machines and {found.clusters} clusters{busy}"
    return "\n".join([*lines, f"{counts}: {len(found.differences)} differ, {found.repaired} repaired"])


def _accept(settings: AcceptSettings, ledger: Ledger, windows: Wire) -> int:
    follower = Follower(ledger)
    follower.poll()
    follower.require()
    windows.ask([Marker(settings.names).write(follower.epoch, len(follower.view))])
    found = {"accepted": True, "instances": len(follower.view)}
    print(json.dumps(found) if settings.json else f"accepted: the ledger has {len(follower.view)} instances")  # noqa: T201
    return ask.OK
