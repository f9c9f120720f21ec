"""Events: what happened to instances, read from the ledger's change log.

    {"v":1,"event":"moved","at":1790000000.2,"position":"1789990000.100000-57","id":"db-1","machine":"m2",
     "source":"m1","generation":3,"state":"confirmed",...}

Chosen: a reading of the log (the stream `schemas.names.Names.ledger` "log"), which the scripts of the ledger write with
each change anyway. An event is there exactly when its change is. Reserving writes nothing more; a confirmation costs
the server 3 % more. Rejected: a stream of its own, a second write in the script that reserves, with its own bound.

An entry of the log has the id ``<change>-0`` and these fields:

| field     | what it says                                                                                          |
|-----------|-------------------------------------------------------------------------------------------------------|
| `i`       | the record after the change, JSON; of new reservations there are several in one entry                 |
| `event`   | one of `EVENTS`; absent: each record is a new reservation, ``placed`` at its ``reserved_at``          |
| `at`      | when it happened, by the clock of the ledger's server, epoch s                                        |
| `source`  | the machine before (``moved``)                                                                        |
| `renamed` | the machine's name before (``renamed``)                                                               |
| `target`  | the machine that it was to move to (``stayed``)                                                       |
| `why`     | where the name of the event does not say it                                                           |

A record's ``version`` is the number of its change, without gaps; the entry's id is the version of its last record. An
entry of a release that wrote no ``event`` has a record that is not new: ``released``, ``expired`` or ``updated``, by
its state. A reader compares ``epoch`` and ``change`` of the hash "head" with what it read before: another epoch is
another ledger, an earlier change one that has lost its end. The log is bounded: a reader that fell behind finds a later
version than the next. All three are the event ``gap``: list the instances anew.
"""

from schemas.values.mapping import Result

EVENTS = {
    "placed": "it was reserved on `machine`, until `expires_at`; with `why` inventory it runs there",
    "confirmed": "it runs",
    "updated": "its size, role, labels or rules changed; with `why` repair nothing did",
    "moving": "a move to `target` began, which ends by itself at `expires_at`; it runs on `machine`, and holds both",
    "moved": "it is on `machine`, no longer on `source`",
    "stayed": "its move to `target` ended without it, by `why`: cancelled, expired or inventory",
    "renamed": "its machine, or the one it moves to, was called `source` and has another name",
    "released": "it ended, or its reservation was given back; with `why` failed its start failed on `machine`",
    "expired": "its reservation ended by itself",
    "gap": "events are missing, `why` says which: list the instances anew",
}
"""The meaning of each event; a reader ignores unknown ones."""


class Event(Result, kw_only=True):
    """A change of an instance, with its record after it."""

    v: int = 1
    event: str
    """One of `placed`, `confirmed`, `updated`, `moving`, `moved`, `stayed`, `renamed`, `released`, `expired`, `gap`."""
    at: float
    """Time of the event by the clock of the ledger's server, epoch s; for a gap the time when it was found."""
    position: str
    """The position in the log; reading after it continues with the next events."""
    id: str = ""
    machine: str = ""
    """The machine that it is on, or was on when it ended."""
    source: str = ""
    """The machine that it was on before."""
    target: str = ""
    """The machine that it moves to, or was to move to."""
    generation: int = 0
    """Which reservation of its id."""
    move: int = 0
    """Which move, while it is moving."""
    state: str = ""
    expires_at: float = 0.0
    """When the reservation or the move expires; 0: never."""
    why: str = ""
    priority_class: str = ""
    cluster: str = ""
    role: str = ""
    labels: dict[str, str] = {}
    ports: list[int] = []
