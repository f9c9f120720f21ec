"""Compares a full inventory with the ledger: the differences, and the changes that make the ledger equal to it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from schemas.messages.sample import Rejected, check_machine_id
from schemas.resources import RESOURCES
from schemas.rpc.request import KEPT_FIELDS, InvalidRequest, read_request
from scorer.ledger.record.instance import IN_BOTH, LIVE, Instance, declared, too_large
from scorer.ledger.record.transition import Held, Outcome, Overtaken
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of

_COMPARED = ("machine", "amounts", "expected", "limits", "maxmemory", "priority_class", *KEPT_FIELDS)
_STEP = 200
"""Instances a script: the server serves no other client meanwhile."""


class InventoryError(ValueError):
    """An inventory that cannot be read; the message names line and field."""


@dataclass(frozen=True)
class Difference:
    """How an inventory differs from the ledger."""

    added: list[Instance]
    changed: list[tuple[Instance, Instance, str]]
    """The ledger's record, the inventory's, and the difference in words."""
    gone: list[Instance]
    same: int

    def summary(self, applied: bool) -> dict[str, Any]:
        """Return the difference, JSON-ready."""
        return {
            "applied": applied,
            "added": [{"id": one.id, "machine": one.machine} for one in self.added],
            "changed": [{"id": old.id, "what": what} for old, _, what in self.changed],
            "gone": [{"id": one.id, "machine": one.machine} for one in self.gone],
            "same": self.same,
        }


def read_inventory(text: str) -> list[Instance]:
    """Return the instances of a JSON list, of JSON lines, or of a complete output of ``instances --json``.

    Reservations in such an output are left unchanged.

    >>> [one.machine for one in read_inventory('{"id": "a", "machine": "m1", "cpu": 2}')]
    ['m1']

    Raises InventoryError.
    """
    records: list[tuple[str, Any]] = []
    try:
        if text.lstrip().startswith("["):
            records = [(f"entry {number}", one) for number, one in enumerate(json.loads(text), 1)]
        else:
            for number, line in enumerate(text.splitlines(), 1):
                if line.strip():
                    records.append((f"line {number}", json.loads(line)))
    except (ValueError, RecursionError) as error:
        where = "" if not records and text.lstrip().startswith("[") else f"line {len(records) + 1}: "
        raise InventoryError(f"{where}not JSON: {error}") from None
    if len(records) == 1 and isinstance(listed := records[0][1], dict) and isinstance(listed.get("instances"), list):
        if listed.get("more"):
            raise InventoryError(f"{len(listed['instances'])} of {listed.get('total')} instances: list all, by --limit")
        records = [(f"entry {number}", one) for number, one in enumerate(listed["instances"], 1)]
    found: dict[str, Instance] = {}
    for where, record in records:
        if isinstance(record, dict) and ("ledger" in record or record.get("state") == "reserved"):
            continue  # the first line of a backup, or a reservation of a list
        try:
            instance = read_instance(record)
        except (InvalidRequest, Rejected) as error:
            raise InventoryError(f"{where}: {error}") from None
        if instance.id in found:
            raise InventoryError(f"{where}: id {instance.id!r} is listed twice")
        found[instance.id] = instance
    return list(found.values())


def read_instance(record: Any) -> Instance:
    """Return the instance of an entry, confirmed; raises InvalidRequest or Rejected, which are ValueErrors."""
    if isinstance(record, dict):
        record = {name: value for name, value in record.items() if name != "record"}  # of a backup
        if "state" in record:  # a row of ``instances``
            named = {name: record[name] for name in (*RESOURCES, *IN_BOTH, "machine") if name in record}
            known = {name: declared(record.get(name, ())) for name in ("limits", "expected")}
            record = named | (record.get("rules") or {}) | known
    request = read_request(record)
    if not request.id or not request.machine:
        raise InvalidRequest("id and machine are required")
    check_machine_id(request.machine)
    instance = msgspec.structs.replace(instance_of(request, request.machine, 0.0), expires_at=0.0)
    if large := too_large(instance.amounts, instance.maxmemory):
        raise InvalidRequest(large)
    return instance


def difference(ledger: Mapping[str, Instance], found: Sequence[Instance], *, reservations: bool = False) -> Difference:
    """Return how the inventory ``found`` differs.

    A reservation that is not in the inventory is ``gone`` only with ``reservations``; otherwise it is left to expire.
    """
    added, changed, same = [], [], 0
    for one in found:
        old = ledger.get(one.id)
        if old is None:
            added.append(one)
            continue
        what = [_words(name, old, one) for name in _COMPARED if _plain(name, old) != _plain(name, one)]
        if one.rules is not None and one.rules != old.rules:
            what.append("rules differ")
        if old.state != "confirmed":
            what.append(f"{old.state} is confirmed")
        if what:
            changed.append((old, one, ", ".join(what)))
        else:
            same += 1
    ids = {one.id for one in found}
    gone = [
        old
        for old in ledger.values()
        if old.id not in ids and old.state in LIVE and (reservations or old.state == "confirmed")
    ]
    return Difference(added, changed, gone, same)


def _plain(name: str, instance: Instance) -> Any:
    """Return a field for comparison: an amount that was not given equals 0."""
    value = getattr(instance, name)
    return tuple(amount or 0.0 for amount in value) if name == "amounts" else value


def _words(name: str, old: Instance, new: Instance) -> str:
    return f"{name} {_plain(name, old)!r} is {_plain(name, new)!r}"


def apply(
    ledger: Ledger, diff: Difference, *, true_starts: bool = False, lease: Held | None = None, cluster: str = ""
) -> None:
    """Write the difference to the ledger: first the removed instances, then the added and changed ones.

    Raises Overtaken when ``lease`` has passed to another; or when an instance is not of ``cluster`` by now: all but
    this one is written.
    """
    outcomes: list[Outcome] = []
    gone = [one.id for one in diff.gone]
    for first in range(0, len(gone), _STEP):
        outcomes += ledger.correct([], gone[first : first + _STEP], lease=lease, cluster=cluster).outcomes
    there = [
        msgspec.structs.replace(new, request=old.request, rules=new.rules or old.rules) for old, new, _ in diff.changed
    ] + diff.added
    for first in range(0, len(there), _STEP):
        some = there[first : first + _STEP]
        outcomes += ledger.correct(some, true_starts=true_starts, lease=lease, cluster=cluster).outcomes
    if any(one.kind == "other" for one in outcomes):
        raise Overtaken("another has taken the id of a pod meanwhile")
