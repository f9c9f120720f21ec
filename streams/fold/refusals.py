"""Refuses samples and facts of a batch by the state of the partition. Pure.

A message that is invalid by itself is refused when it is read (`streams.fold.admission`). Reasons here: more readings
than the interval can hold, more use than the capacity allows, a new machine without room, a name that another live host
owns. Each function returns the rest of the batch and its ``places`` among all messages read, and adds to ``refused``.
"""

from collections.abc import Sequence

import numpy as np

from schemas.messages.sample import MachineFacts
from schemas.resources import ALL, RESOURCES
from schemas.values.hosts import host_key
from streams.fold.admission import Admission
from streams.fold.batch import Batch, Refused
from streams.fold.owners import REASON as NAME_TAKEN
from streams.fold.owners import claim
from streams.fold.ring import Ring

MEAN_MOST = np.array([1.21 if one.unit.endswith("/s") else 1.01 for one in ALL])
MAX_MOST = np.array([2.2 if one.unit.endswith("/s") else 1.01 for one in ALL])
"""The largest usage that a sample may state, as a share of capacity; drivers count bytes up to a second late."""


def refuse_readings(
    batch: Batch, places: list[int], admission: Admission, refused: list[Refused]
) -> tuple[Batch, list[int]]:
    """Refuse samples with more readings than their interval can hold."""
    readings = batch.n.max(axis=1, initial=0)
    most = admission.readings_max(batch.interval_s)
    over = readings > most
    if not over.any():
        return batch, places
    refused += [
        Refused(places[k], "readings", f"n is {readings[k]:.0f}, at most {most[k]:.0f} in this interval")
        for k in np.flatnonzero(over).tolist()
    ]
    return batch.take(~over), [places[k] for k in np.flatnonzero(~over).tolist()]


def refuse_excess(batch: Batch, places: list[int], refused: list[Refused]) -> tuple[Batch, list[int]]:
    """Refuse samples whose mean or largest reading exceeds the usage that the capacity allows."""
    over = (batch.mean > batch.capacity * MEAN_MOST) | (batch.max > batch.capacity * MAX_MOST)
    wrong = over.any(axis=1)
    if not wrong.any():
        return batch, places
    for k in np.flatnonzero(wrong).tolist():
        r = int(over[k].argmax())
        said = f"mean {batch.mean[k, r]:.6g} and max {batch.max[k, r]:.6g} of a capacity of {batch.capacity[k, r]:.6g}"
        refused.append(Refused(places[k], "excess", f"{batch.machines[k]}: {RESOURCES[r]}: {said}"))
    return batch.take(~wrong), [places[k] for k in np.flatnonzero(~wrong).tolist()]


def refuse_machines(
    batch: Batch, places: list[int], ring: Ring, admission: Admission, refused: list[Refused]
) -> tuple[Batch, list[int]]:
    """Refuse samples of new machines for which there is no room."""
    room = admission.machines_max - len(ring)
    if len(batch) <= room:
        return batch, places
    new = dict.fromkeys(machine for machine in batch.machines if machine not in ring.row)
    over = set(list(new)[max(0, room) :])
    if not over:
        return batch, places
    kept = np.array([machine not in over for machine in batch.machines])
    refused += [Refused(places[k], "machines", no_room(admission)) for k in np.flatnonzero(~kept).tolist()]
    return batch.take(kept), [places[k] for k in np.flatnonzero(kept).tolist()]


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
