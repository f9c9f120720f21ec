"""The lives in a recording: each instance's machines with their times, from the ledger's records. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from ops.record.entry import Entry
from scorer.ledger.record.instance import LIVE, Instance, read_record


@dataclass(eq=False)
class Life:
    """One reservation of an id, from its placement to its end."""

    record: Instance
    """The last."""
    begin_s: float
    end_s: float = inf
    ran: bool = False
    """It was confirmed."""
    where: list[tuple[float, str]] = field(default_factory=list)
    """Its machines, each with the time from which it was there."""


class Lives:
    """Takes entries in order."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, int], Life] = {}
        self._live: set[tuple[str, int]] = set()
        self.guessed = 0
        """Lives whose end was not recorded: a later whole state does not have them."""

    def take(self, entry: Entry) -> None:
        """Add the changes of an entry; raises ValueError for a damaged record."""
        for raw in entry.instances:
            self._take(read_record(raw), entry.at)
        if entry.full:
            listed = {(record.id, record.generation) for record in map(read_record, entry.instances)}
            for key in self._live - listed:
                self._of[key].end_s = entry.at
                self.guessed += 1
            self._live &= listed

    def _take(self, record: Instance, at: float) -> None:
        key = (record.id, record.generation)
        life = self._of.get(key)
        if life is None:
            began_s = record.reserved_at or record.started_at or at
            life = self._of[key] = Life(record, began_s, where=[(began_s, record.machine)])
        elif record.machine != life.where[-1][1]:
            life.where.append((record.started_at or at, record.machine))
        life.record = record
        life.ran |= record.state == "confirmed" or (record.state == "released" and record.started_at > 0)
        if record.state in LIVE:
            life.end_s = inf
            self._live.add(key)
        else:
            life.end_s = record.ended_at or at
            self._live.discard(key)

    def between(self, since_s: float, until_s: float) -> list[Life]:
        """Return the reservations that existed between two moments, in the order in which they began."""
        found = [life for life in self._of.values() if life.begin_s < until_s and life.end_s > since_s]
        return sorted(found, key=lambda life: (life.begin_s, life.record.id))


def named(lives: Iterable[Life]) -> list[str]:
    """Return a name for each reservation: its id; a later one of the same id has a number appended.

    >>> record = Instance(id="a", machine="m", state="confirmed", amounts=())
    >>> named([Life(record, 0.0), Life(record, 5.0)])
    ['a', 'a (2)']
    """
    seen: dict[str, int] = {}
    taken: set[str] = set()
    found = []
    for life in lives:
        name = life.record.id
        while name in taken:
            seen[life.record.id] = seen.get(life.record.id, 1) + 1
            name = f"{life.record.id} ({seen[life.record.id]})"
        taken.add(name)
        found.append(name)
    return found
