"""Shell: the ledger as a file, and back: JSON lines that `windward instances import` reads, too.

    {"ledger": 1, "position": "1789990000.100000-57", "at": 1790000000.0, "instances": 2}
    {"id": "a", "machine": "m1", "cpu": 2.0, ..., "record": {"state": "confirmed", "generation": 9, ...}}

The file is consistent: every instance is as it was after the change that ``position`` names, an event's position. So
`windward events --after` goes on from there, while the ledger is the same. ``record`` has the fields
that are not part of a request; an import of an inventory ignores it, and the first line.

Restored instances keep generation, start and the digest of their request: a repeated ``place`` or a ``release`` with a
generation finds them. A reservation is made again for what is left of its time, as a new generation. A moving instance
is on its source, and not moving.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from schemas.values.read_json import reader
from scorer.ledger.record.instance import Instance, as_request, copy_with
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.reconcile import InventoryError, read_instance
from scorer.ledger.store.scripts import Ledger

_STEP = 200
"""Instances a script: the server serves no other client meanwhile."""


class Head(msgspec.Struct, kw_only=True):
    ledger: int = 1
    """The version of the file's form."""
    position: str
    at: float
    """When it was written, by the server's clock."""
    instances: int

    def __post_init__(self) -> None:
        if self.ledger != 1:
            raise ValueError(f"the file has form {self.ledger}, of another release; this one reads form 1")


class _Record(msgspec.Struct, kw_only=True):
    """The fields of an instance that are not part of its request."""

    state: Literal["reserved", "confirmed"]
    generation: int = 0
    started_at: float = 0.0
    expires_at: float = 0.0
    request: str = ""


class Restored(NamedTuple):
    """The numbers of instances that were written, existed already, or had expired."""

    written: int = 0
    known: int = 0
    expired: int = 0


_encode = msgspec.json.Encoder().encode
_read_line = reader(dict[str, Any])


def backup(ledger: Ledger) -> Iterator[bytes]:
    """Yield the lines of a backup, the head first, without torn records (`Ledger.torn` names them).

    Raises UnknownFormat where any other part of the ledger cannot be read.
    """
    follower = Follower(ledger, around=True)
    follower.poll()
    follower.require()
    instances = follower.view.instances
    position = f"{follower.epoch}-{follower.change}"
    yield _encode(Head(position=position, at=ledger.server_time_s(), instances=len(instances))) + b"\n"
    for one in instances.values():
        record = msgspec.convert(one, _Record, from_attributes=True)
        yield _encode({**msgspec.to_builtins(as_request(one, one.machine)), "record": record}) + b"\n"


def read_backup(lines: Iterable[bytes]) -> tuple[Head, list[Instance]]:
    """Return the head of a backup and its instances; raises InventoryError naming the line that is wrong."""
    head, found, number = None, list[Instance](), 0
    for number, line in enumerate(lines, 1):
        try:
            given = _read_line(line)
            if head is None:
                head = msgspec.convert(given, Head)
                continue
            record = msgspec.convert(given.pop("record", None), _Record)
            found.append(copy_with(read_instance(given), **msgspec.structs.asdict(record)))
        except (msgspec.DecodeError, ValueError) as error:
            raise InventoryError(f"line {number}: {error}") from None
    if head is None:
        raise InventoryError("the file is empty")
    if head.instances != len(found):
        said = f"it says {head.instances} instances, and has {len(found)}: it is cut short"
        raise InventoryError(f"line {number}: {said}")
    return head, found


def restore(ledger: Ledger, found: Sequence[Instance]) -> Restored:
    """Write the instances that the ledger does not have; existing ones stay unchanged."""
    known, now_s = ledger.all_instances(), ledger.server_time_s()
    left = [one for one in found if one.id not in known]
    gone = [one for one in left if one.state == "reserved" and one.expires_at <= now_s]
    waiting = [one for one in left if one.state == "reserved" and one.expires_at > now_s]
    running = [one for one in left if one.state == "confirmed"]
    for first in range(0, len(running), _STEP):
        ledger.correct(running[first : first + _STEP], true_starts=True, generations=True)
    for first in range(0, len(waiting), _STEP):
        some = waiting[first : first + _STEP]
        ledger.reserve([Wanted(one, one.expires_at - now_s, [Candidate(one.machine, -1)]) for one in some])
    return Restored(len(running) + len(waiting), len(found) - len(left), len(gone))
