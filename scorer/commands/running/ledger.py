"""``windward ledger``: check and repair the ledger, write it to a file and restore it, or accept an emptied one."""

import dataclasses
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from schemas.process.settings import SettingsError, load_verb, setting
from schemas.values.numbers import counted
from scorer.background.checker import LastCheck
from scorer.client import WindwardError
from scorer.commands.shared import ask
from scorer.ledger.store.backup import backup, read_backup, restore
from scorer.ledger.store.check import Check, Checked, mend
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.marker import Marker
from scorer.ledger.store.reconcile import InventoryError
from scorer.ledger.store.scripts import Lease
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

    Scorers refuse to place when the ledger has begun anew while instances are known to have been there, or is empty
    while agents report instances. Import an inventory first (`windward instances import FILE --apply`), or accept that
    these are not in the ledger.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward ledger accept",)


@dataclass(frozen=True, kw_only=True)
class ExportSettings(ClientSettings, LedgerSettings):
    """Write all instances and reservations to a file, as they are after one change of the ledger.

    The file has JSON lines, which `windward instances import` reads, too. The first has the position of that change,
    from which `windward events --after` goes on. Nothing stands still meanwhile. Instances whose record cannot be
    read are named, and missing in the file. Exit code 1: there are any.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward ledger export ledger.jsonl",)

    file: str = setting(help="the file; it is replaced when the new one is whole", positional=True, metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class RestoreSettings(ClientSettings, LedgerSettings):
    """Write the instances of a file of `windward ledger export` that the ledger does not have.

    What is there stays as it is. Instances keep their generation and start, whatever the limits say. A reservation is
    made again for what is left of its time. Then run `windward ledger accept`, so that scorers place again.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward ledger restore ledger.jsonl",)

    file: str = setting(help="the file", positional=True, metavar="FILE")
    into_empty: bool = setting(False, "refuse a ledger that has any instance")


SETTINGS = {"check": CheckSettings, "accept": AcceptSettings, "export": ExportSettings, "restore": RestoreSettings}


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    verb, settings = load_verb("ledger", SETTINGS, argv, environ)
    work: dict[str, Callable[[Any], int]]
    work = {"check": _check, "accept": _accept, "export": _export, "restore": _restore}
    return ask.run(settings, "ledger", work[verb], "the ledger")


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
        ledger.expire()  # begins a ledger where none is, so that there is an epoch
        follower = Follower(ledger)
        follower.poll()
        follower.require()
        windows.ask([Marker(settings.names).write(follower.epoch, len(follower.view))])
    found = {"accepted": True, "instances": len(follower.view)}
    ask.tell(settings, found, lambda *_: f"accepted: the ledger has {counted(found['instances'], 'instance')}")
    return ask.OK


def _export(settings: ExportSettings) -> int:
    path = Path(settings.file)
    part = path.with_name(f".{path.name}.part")
    try:
        with ask.open_ledger(settings) as ledger, part.open("wb") as file:
            count = sum(1 for _ in map(file.write, backup(ledger))) - 1
            file.flush()
            os.fsync(file.fileno())
            torn = dict[str, bytes]()
            for _ in ledger.pages(torn):
                pass
        part.replace(path)
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise SettingsError(f"export: {path}: {error.strerror}") from None
    found = {"instances": count, "file": str(path), "bytes": path.stat().st_size, "torn": sorted(torn)}
    words = [f"{counted(count, 'instance')} in {path}"]
    words += [f"{name}: its record is damaged; see windward ledger check" for name in sorted(torn)]
    ask.tell(settings, found, lambda *_: "\n".join(words))
    return ask.FAILED if torn else ask.OK


def _restore(settings: RestoreSettings) -> int:
    try:
        with Path(settings.file).open("rb") as file:
            head, instances = read_backup(file)
    except (OSError, InventoryError) as error:
        raise SettingsError(f"restore: {settings.file}: {getattr(error, 'strerror', error)}") from None
    with ask.open_ledger(settings) as ledger:
        if settings.into_empty and (there := len(ledger.all_instances())):
            raise WindwardError("FAILED_PRECONDITION", f"the ledger has {counted(there, 'instance')}, and is not empty")
        done = restore(ledger, instances)
    found = {**done._asdict(), "at": head.at, "position": head.position}
    words = f"{done.written} restored, {done.known} were there, {done.expired} reservations have expired since"
    ask.tell(settings, found, lambda *_: f"{words}; now run: windward ledger accept")
    return ask.OK
