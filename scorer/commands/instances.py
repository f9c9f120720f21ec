"""``windward instances``: list, show, release and import instances.

    windward instances [list] [--machine m1] [--cluster c] [--label app=x] ...
    windward instances show ID
    windward instances release ID ...
    windward instances import FILE [--apply]

The file of an import is the full inventory: JSON lines, or one JSON list, of objects with ``id``, ``machine`` and the
fields of a request (``cpu``, ``memory``, ``ports``, ``cluster``, ``role``, ...). The difference from the ledger is
printed; with ``--apply`` the ledger is made to say the same, whatever its limits: a fact is not refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from schemas.settings import SettingsError, load_settings, setting
from scorer.client import WindwardError
from scorer.commands import asking
from scorer.commands import confirm as confirm_command
from scorer.inventory import Difference, InventoryError, apply, difference, read_inventory
from scorer.ledger import Ledger
from scorer.settings import ClientSettings, LedgerSettings
from scorer.wire import AWAY, Wire


@dataclass(frozen=True, kw_only=True)
class InstancesSettings(ClientSettings, LedgerSettings):
    """List, show, release or import instances: `instances [list]`, `show ID`, `release ID ...`, `import FILE`."""

    words: tuple[str, ...] = setting((), "list (default), show ID, release ID ... or import FILE", positional=True)
    machine: str = setting("", "only those on this machine")
    state: Literal["", "reserved", "confirmed"] = setting("", "only those in this state")
    cluster: str = setting("", "only those of this cluster")
    role: str = setting("", "only those of this role")
    kind: str = setting("", "only those of this kind")
    labels: dict[str, str] = setting({}, "only those with these labels", metavar="KEY=VALUE")
    after: str = setting("", "only those after this id, as the next page", metavar="ID")
    limit: Annotated[int, Meta(ge=1, le=10_000)] = setting(1000, "at most so many")
    dry_run: bool = setting(False, "with release: only say what would happen")
    apply: bool = setting(False, "with import: change the ledger")
    reservations: bool = setting(False, "with import: end reservations, too, that the inventory does not have")


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Do what the first word says."""
    settings = load_settings(InstancesSettings, "instances", argv, environ, __doc__ or "")
    verb, *rest = settings.words or ("list",)
    if verb == "list" and not rest:
        fields = ("machine", "state", "cluster", "role", "kind", "labels", "after", "limit")
        params = {name: value for name in fields if (value := getattr(settings, name))}
        return asking.ask(settings, "instances", params, show)[0]
    if verb == "show" and len(rest) == 1:
        return _show_one(settings, rest[0])
    if verb == "release" and rest:
        return max(
            asking.ask(settings, "release", {"id": one, "dry_run": settings.dry_run}, confirm_command.show)[0]
            for one in rest
        )
    if verb == "import" and len(rest) == 1:
        return _import(settings, rest[0])
    raise SettingsError(f"words: {' '.join(settings.words)!r} is none of list, show ID, release ID ..., import FILE")


def show(answer: dict[str, Any]) -> str:
    """Return a table."""
    rows = [
        [
            one["id"], one["machine"], one["state"], asking.number(one["cpu"]), asking.size(one["memory"]),
            one.get("cluster") or "-", one.get("role") or "-", ",".join(map(str, one.get("ports", ()))) or "-",
        ]
        for one in answer["instances"]
    ]  # fmt: skip
    text = asking.table(["id", "machine", "state", "cpu", "memory", "cluster", "role", "ports"], rows)
    return f"{text}\n{len(rows)} of {answer['total']}"


def _show_one(settings: InstancesSettings, instance_id: str) -> int:
    def shown(answer: dict[str, Any]) -> str:
        return json.dumps(answer["instances"][0], indent=2) if answer["instances"] else "unknown"

    code, answer = asking.ask(settings, "instances", {"id": instance_id}, shown)
    return code if answer is None or answer["instances"] else asking.FAILED


def _import(settings: InstancesSettings, file: str) -> int:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        found = read_inventory(text)
    except OSError as error:
        raise SettingsError(f"import: {file}: {error.strerror}") from None
    except InventoryError as error:
        raise SettingsError(f"import: {file}: {error}") from None
    wire = Wire(settings.ledger_arguments())
    ledger = Ledger(wire, settings.names, log_length=settings.ledger_log_length, remember_s=settings.remember_s)
    try:
        ledger.expire()
        diff = difference(ledger.all_instances(), found, reservations=settings.reservations)
        if settings.apply:
            apply(ledger, diff)
    except AWAY as error:
        return asking.report(WindwardError("UNAVAILABLE", f"no connection to the ledger: {error}"), "instances import")
    finally:
        wire.close()
    print(json.dumps(diff.summary(settings.apply)) if settings.json else _words(diff, settings.apply))  # noqa: T201
    return asking.OK


def _words(diff: Difference, applied: bool) -> str:
    lines = [f"+ {one.id} on {one.machine}" for one in diff.added]
    lines += [f"~ {old.id}: {what}" for old, _, what in diff.changed]
    lines += [f"- {one.id} on {one.machine}" for one in diff.gone]
    counts = f"{len(diff.added)} added, {len(diff.changed)} changed, {len(diff.gone)} gone, {diff.same} as they were"
    lines.append(f"{counts}{'' if applied else '; nothing was written: give --apply'}")
    return "\n".join(lines)
