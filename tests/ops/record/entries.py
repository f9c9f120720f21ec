"""Entries for tests, with anything that an entry may hold."""

import numpy as np

from ops.record.entry import Entry, Facts, Figures, Gap, Position, pack
from schemas.messages.sample import Moments, Sample, encode
from schemas.resources import RESOURCES


def figures(rows, until_s, values, seconds=60.0):
    """Figures of these rows and times; ``values`` [R, N] or of one resource, the others not known."""
    table = np.full((len(RESOURCES), len(rows)), np.nan, np.float32)
    given = np.atleast_2d(np.array(values, np.float32))
    table[: len(given)] = given
    return Figures(np.array(rows, np.int64), np.array(until_s), np.full(len(rows), seconds), table)


def first(at, **more):
    return Entry(at=at, version="1", resources=list(RESOURCES), full=True, **more)


def later(at, machine="m", row=0, **more):
    return Entry(at=at, usage=pack(figures([row], [at], [1.0])), **more)


def rich(at):
    return first(
        at,
        facts={"m": Facts({"cpu": 8.0}, {"rack": "a"})},
        operator={"*": b"{}"},
        instances=[b"{}"],
        pairs=["m\ti", "m\t"],
        machines=["m"],
        usage=pack(figures([0, 1], [at, at + 1], [1.0, 2.0])),
        load=pack(figures([0], [at], [3.0])),
        gaps=[Gap("samples", at - 5, at, 3, "why")],
        refused={"key": 1},
        position=Position("topic", {"0": 7}, "epoch", 3, "1-1"),
    )


def sample(machine, at, cpu=1.0, **more):
    moments = Moments(n=10, mean=cpu, m2=0.0, max=cpu, capacity=8.0)
    made = Sample(v=1, machine=machine, boot=1, seq=int(at), at=at, interval_s=10.0, cpu=moments, **more)
    return encode(made)
