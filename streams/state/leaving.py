"""Drops machines from a partition: when there are too many, when they are silent, when they are forgotten. Pure."""

from collections.abc import Mapping

import numpy as np

from schemas.messages.sample import MachineFacts
from schemas.values.read_json import read_as
from streams.fold.fold import DAY_S, heard
from streams.state.partition import Partition

FEW_SLOTS = 2
"""A machine with no more filled slots than this counts as new."""


def make_room(partition: Partition) -> int:
    """Drop machines with few samples from a full partition, the longest silent first; return how many.

    Invented ids usually send one sample each. A tenth of the places is freed, so that a new machine can send more than
    `FEW_SLOTS` samples before it would be dropped. Machines with more samples stay.
    """
    used = len(partition.ring)
    if used < partition.admission.machines_max:
        return 0
    few = np.flatnonzero((partition.ring.n[:used] > 0).any(axis=1).sum(axis=1) <= FEW_SLOTS)
    oldest = few[np.argsort(partition.ring.at[few], kind="stable")][: used - partition.admission.machines_max * 9 // 10]
    if len(oldest):
        partition.keep(np.setdiff1d(np.arange(used), oldest))
    return len(oldest)


def drop_silent(partition: Partition, now_s: float, silent_s: float) -> int:
    """Drop machines without a sample for ``silent_s``, and facts as old of machines that have no windows.

    Drop also samples more than a day ahead, taken while this worker's clock was wrong: they would never become stale,
    and later samples of the machine would count as late. Return how many machines lost their windows.
    """
    partition.ring.trim()
    partition.changed = partition.usage.drop_silent(now_s - silent_s) > 0 or partition.changed
    kept = heard(partition.ring, now_s, silent_s)
    gone = len(partition.ring) - len(kept)
    if gone:
        partition.keep(kept)
    said = {m: read_as(value, MachineFacts).at for m, value in partition.facts.items()}
    old = {
        machine
        for machine, at in said.items()
        if at > now_s + DAY_S or (machine not in partition.ring.row and at < now_s - silent_s)
    }
    partition.drop_facts(old)
    return gone


def forget(partition: Partition, forgotten: Mapping[str, float]) -> list[str]:
    """Drop machines without any message after the time at which they were forgotten; return the dropped ones.

    Their samples may still be in the log: when it is read again they reappear until the next call.
    """
    ring = partition.ring
    partition.changed = partition.usage.forget(forgotten) > 0 or partition.changed
    known = {machine: row for machine in forgotten if (row := ring.row.get(machine)) is not None}
    rows = {row for machine, row in known.items() if ring.at[row] <= forgotten[machine]}
    if rows:
        partition.keep(np.array([row for row in range(len(ring)) if row not in rows], np.intp))
    said = {
        machine
        for machine in forgotten.keys() & partition.facts.keys()
        if read_as(partition.facts[machine], MachineFacts).at <= forgotten[machine]
    }
    partition.drop_facts(said)
    return sorted({machine for machine, row in known.items() if row in rows} | said)
