"""Refuses samples and facts of a batch by the state of the partition. Pure.

A message that is invalid by itself is refused when it is read (`streams.fold.admission`). Reasons here: more readings
than the interval can hold, more use than the capacity allows, a new machine without room, a name that another live host
owns. Each function returns the rest of the batch and its ``places`` among all messages read, and adds to ``refused``.

Owners of machine names: of two live hosts that send under one name the first is accepted. Pure.

A machine's owner is the host whose id its samples carry. Another host's messages are refused (``name-taken``) until the
owner has been silent for `HELD_S`, or three of its intervals if that is longer. Then the first host that sends becomes
the owner. Messages without an id are accepted, and change no owner.

The owner is one of the machine's vitals, so it is stored, restored and dropped with them:

    owner          key of the host's id; 0: none has sent one
    owner_since    record time of the take-over; 0: no host had the name before
    owner_until    record time until which the name is held

Only record times and the order of the log decide, not how messages are batched or when they are read. When a log is
read again onto its state, the last owner is known from the start. Messages from before the take-over are then accepted
from any host but this one, as at the first time. (Exception: a name that came back to a former owner; that host's first
messages are refused the second time.)
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import MachineFacts
from schemas.resources import ALL, RESOURCES
from schemas.values.hosts import host_key
from streams.fold.admission import Admission
from streams.fold.batch import Batch, Refused
from streams.fold.ring import Ring

MEAN_MOST = np.array([1.21 if one.unit.endswith("/s") else 1.01 for one in ALL])
MAX_MOST = np.array([2.2 if one.unit.endswith("/s") else 1.01 for one in ALL])
"""The largest usage that a sample may state, as a share of capacity; drivers count bytes up to a second late."""
HELD_S = 300.0
"""How long a silent owner holds its name, at least."""
NAME_TAKEN = "name-taken"


def _without(
    batch: Batch,
    places: list[int],
    wrong: NDArray[np.bool_],
    reason: str,
    said: Callable[[int], str],
    refused: list[Refused],
) -> tuple[Batch, list[int]]:
    """Refuse the samples that are ``wrong`` [K]; ``said`` returns the detail by position."""
    if not wrong.any():
        return batch, places
    refused += [Refused(places[k], reason, said(k)) for k in np.flatnonzero(wrong).tolist()]
    return batch.take(~wrong), [places[k] for k in np.flatnonzero(~wrong).tolist()]


def refuse_readings(
    batch: Batch, places: list[int], admission: Admission, refused: list[Refused]
) -> tuple[Batch, list[int]]:
    """Refuse samples with more readings than their interval can hold."""
    readings, most = batch.n.max(axis=1, initial=0), admission.readings_max(batch.interval_s)

    def said(k: int) -> str:
        return f"n is {readings[k]:.0f}, at most {most[k]:.0f} in this interval"

    return _without(batch, places, readings > most, "readings", said, refused)


def refuse_excess(batch: Batch, places: list[int], refused: list[Refused]) -> tuple[Batch, list[int]]:
    """Refuse samples whose mean or largest reading exceeds the usage that the capacity allows."""
    over = (batch.mean > batch.capacity * MEAN_MOST) | (batch.max > batch.capacity * MAX_MOST)

    def said(k: int) -> str:
        r = int(over[k].argmax())
        used = f"mean {batch.mean[k, r]:.6g} and max {batch.max[k, r]:.6g} of a capacity of {batch.capacity[k, r]:.6g}"
        return f"{batch.machines[k]}: {RESOURCES[r]}: {used}"

    return _without(batch, places, over.any(axis=1), "excess", said, refused)


def refuse_machines(
    batch: Batch, places: list[int], ring: Ring, admission: Admission, refused: list[Refused]
) -> tuple[Batch, list[int]]:
    """Refuse samples of new machines for which there is no room."""
    room = admission.machines_max - len(ring)
    if len(batch) <= room:
        return batch, places
    new = dict.fromkeys(machine for machine in batch.machines if machine not in ring.row)
    over = set(list(new)[max(0, room) :])
    wrong = np.array([machine in over for machine in batch.machines])
    return _without(batch, places, wrong, "machines", lambda _: no_room(admission), refused)


def no_room(admission: Admission) -> str:
    """Return why a new machine is refused."""
    return f"the partition holds {admission.machines_max} machines, the most it may"


def refuse_names(
    batch: Batch,
    places: list[int],
    facts: dict[int, MachineFacts],
    ring: Ring,
    recorded_at: Sequence[float],
    refused: list[Refused],
) -> tuple[Batch, list[tuple[str, str, float]]]:
    """Refuse samples and facts under a name that another live host owns; removes them from ``facts``.

    Adds the batch's machines to the ring. Return the rest of the batch, and for each refused message the machine,
    the key of its host, and its record time.
    """
    ring.add(batch.machines)
    over, places_of_facts = claim(ring, batch, places, facts, recorded_at)
    wrong = [(places[k], batch.machines[k], int(batch.host[k])) for k in np.flatnonzero(over).tolist()]
    said = [(place, facts.pop(place)) for place in places_of_facts]
    wrong += [(place, one.machine, host_key(one.host_id)) for place, one in said]
    for place, machine, key in wrong:
        detail = f"another live host has the name {machine!r}; this one has the key {key:016x}"
        refused.append(Refused(place, NAME_TAKEN, detail))
    disputed = [(machine, f"{key:016x}", recorded_at[place]) for place, machine, key in wrong]
    return batch.take(~over) if over.any() else batch, disputed


def claim(
    ring: Ring,
    batch: Batch,
    places: Sequence[int],
    facts: Mapping[int, MachineFacts],
    recorded_at: Sequence[float],
) -> tuple[NDArray[np.bool_], list[int]]:
    """Update the owners by a batch; return which samples [K] and which facts, by position, are refused.

    ``places``: the positions of the samples among all messages; ``recorded_at``: by position. All machines have rows.
    """
    rows = np.fromiter(map(ring.row.__getitem__, batch.machines), np.intp, len(batch))
    until = batch.recorded_at + np.maximum(HELD_S, 3 * batch.interval_s)
    known = batch.host == ring.owner[rows]
    early = batch.recorded_at < ring.owner_since[rows]
    disputed = {int(row) for row in rows[(batch.host != 0) & (~known | early)]}
    disputed |= {
        row for place, one in facts.items() if one.host_id and (row := ring.row.get(one.machine)) is not None
        and (ring.owner[row] != host_key(one.host_id) or recorded_at[place] < ring.owner_since[row])
    }  # fmt: skip
    refused = np.zeros(len(batch), np.bool_)
    if not disputed:
        _hold(ring, rows, until, batch.host != 0)
        return refused, []
    apart = np.isin(rows, list(disputed))
    _hold(ring, rows, until, (batch.host != 0) & ~apart)
    index_of = {places[k]: k for k in np.flatnonzero(apart).tolist()}
    told = [place for place, one in facts.items() if ring.row.get(one.machine) in disputed]
    refused_facts = []
    for place in sorted([*index_of, *told]):
        if place in index_of:
            k = index_of[place]
            refused[k] = not _take(ring, int(rows[k]), int(batch.host[k]), recorded_at[place], float(until[k]))
        elif not _may(ring, ring.row[facts[place].machine], host_key(facts[place].host_id), recorded_at[place]):
            refused_facts.append(place)
    return refused, refused_facts


def _hold(ring: Ring, rows: NDArray[np.intp], until: NDArray[np.float64], sent: NDArray[np.bool_]) -> None:
    """Extend the time for which the owners that sent messages hold their names."""
    np.maximum.at(ring.owner_until, rows[sent], until[sent])


def _may(ring: Ring, row: int, key: int, recorded_at: float) -> bool:
    """Return whether a host may send under this name at a record time."""
    owner, since = ring.owner[row], ring.owner_since[row]
    if key in (0, owner):
        return key == 0 or bool(recorded_at >= since)
    return bool(owner == 0 or recorded_at < since or recorded_at > ring.owner_until[row])


def _take(ring: Ring, row: int, key: int, recorded_at: float, until: float) -> bool:
    """Record a sample's host; return whether the sample is accepted."""
    if not _may(ring, row, key, recorded_at):
        return False
    if key == 0 or recorded_at < ring.owner_since[row]:
        return True
    if ring.owner[row] != key:
        ring.owner_since[row] = recorded_at if ring.owner[row] else 0.0
        ring.owner[row], ring.owner_until[row] = key, until
    ring.owner_until[row] = max(ring.owner_until[row], until)
    return True
