"""The laws of sums by class over a ledger's history, and measured usage that changes meanwhile.

Whenever an instance comes or grows, its class is within its sum:

    prod    <= allocatable
    mid     <= what prod asks for, and capacity
    batch   <= share * capacity - system - what prod and mid use; with free, where an instance of free comes

Every round a table of usage by instance is written, as the stream app does: prod and mid use a share of what they ask
that is another one each time on each machine, and so does the system. The rounds are kept with the number of the
ledger's last change before each. An instance that comes is judged by the most that any of the last rounds left, as a
scorer has read one of these. Higher classes may come back after batch: what is then too much is advised for eviction,
it is no fault.
"""

import random
import threading
import time
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.window_table import Header, encode_table
from scorer.ledger.record.instance import as_held, in_units, machines_of
from scorer.ledger.store.scripts import Ledger

MEASURED = RESOURCES[:2]
SYSTEM = (4.0, 16e9)
"""The most that a system uses of cpu and memory."""
LEVELS = (0.1, 0.3, 0.6, 1.0, 1.1)
NO_CHANGE = 2**53
"""A change that never comes."""

Used = tuple[int, ...]
"""Usage of the measured resources in the ledger's units."""


class Round(NamedTuple):
    change: int
    """The ledger's last change before it was written."""
    system: dict[str, Used]
    """By machine."""
    used: dict[tuple[str, str], Used]
    """By machine and instance."""


class ChangingUsage(threading.Thread):
    """Writes rounds until it is stopped; `write` writes one more."""

    def __init__(self, wire, names, machines, at, every_s):
        """``at``: the time of every report; that of the machines' samples, so that it is current."""
        super().__init__(name="usage", daemon=True)
        self._wire, self._names, self._machines, self._at, self._every_s = wire, names, machines, at, every_s
        self._ledger = Ledger(wire, names, log_length=10_000_000)
        self._dice = random.Random(7)
        self._ended = threading.Event()
        self.rounds = []

    def run(self):
        while not self._ended.wait(self._every_s):
            self.write()

    def stop(self):
        self._ended.set()
        self.join()

    def write(self):
        _, change, _ = self._ledger.read_log(self._wire.ask(self._ledger.log_reads(NO_CHANGE, 1)))
        system, level = {}, {}
        for machine in self._machines:
            share, level[machine] = self._dice.choice((0.0, 0.2, 1.0)), self._dice.choice(LEVELS)
            system[machine] = tuple(in_units(name, share * most) for name, most in zip(MEASURED, SYSTEM, strict=True))
        used = {
            (machine, one.id): _share(as_held(one, machine), level[machine])
            for one in self._ledger.all_instances().values()
            for machine in machines_of(one)
            if machine in level
        }
        self.rounds.append(Round(change, system, used))
        rows = [(pair_name(machine, ""), amounts) for machine, amounts in system.items()]
        rows += [(pair_name(*pair), amounts) for pair, amounts in used.items()]
        self._wire.one("SET", self._names.instance_usage(0), self._table(rows))

    def _table(self, rows):
        columns = {name: np.full((*axes, len(rows)), absent, kind) for name, (kind, axes, absent) in COLUMNS.items()}
        columns["at"][:], columns["since"][:], columns["count"][:] = self._at, int(self._at - 86_400), 100
        columns["recent"] = columns["daily"] = np.zeros((len(RESOURCES), len(rows)))  # 64 bits, to be judged exactly
        units = np.array([in_units(name, 1.0) for name in MEASURED])
        columns["recent"][: len(MEASURED)] = np.array([amounts for _, amounts in rows]).T / units[:, None]
        header = Header(machines=len(rows), windows_s=(), columns=[], written_at=time.time())
        return encode_table(header, columns, "\n".join(name for name, _ in rows).encode())


def _share(instance, level):
    """Return a share of what an instance asks for, in whole thousandths of cores."""
    found = []
    for name in MEASURED:
        whole = in_units(name, 1.0) // 1000 or 1
        found.append(int(in_units(name, instance.amounts[RESOURCES.index(name)]) * level) // whole * whole)
    return tuple(found)


SHARE = {"cpu": 0.6, "memory": 0.65}
PROFILE = """
[[filters]]
use = "fits"
classes = {}
[[filters]]
use = "ports"
[[scores]]
use = "least_allocated"
"""
"""Sums by class alone: no load decides."""
NOT_MEASURED = Round(0, {}, {})


class ClassSums:
    """What every class holds on every machine at one moment of the history."""

    def __init__(self, capacity, rounds=(), rounds_back=0):
        """``rounds``: what was measured; ``rounds_back``: of how old a one a scorer may still go by, 0: any."""
        self._capacity = {name: in_units(name, most) for name, most in zip(RESOURCES, capacity, strict=False)}
        self._held = defaultdict(dict)
        self._rounds, self._back, self._known = rounds, rounds_back, 0
        self.fullest = Counter()
        """By class the largest share of its sum that was ever taken."""
        self.moved = 0
        """How often an instance of batch or free came where the rounds left unlike much."""
        self.faults = []

    def change(self, before, after):
        """Take one record's place; note what its class may not hold."""
        old = {machine: as_held(before, machine) for machine in machines_of(before)} if before is not None else {}
        new = {machine: as_held(after, machine) for machine in machines_of(after)} if after is not None else {}
        for machine, record in old.items():
            del self._held[machine][record.id]
        for machine, record in new.items():
            self._held[machine][record.id] = record
        for machine, record in new.items():
            for name in SHARE:
                if _asked(record, name) > (_asked(old[machine], name) if machine in old else 0):
                    self._check(record, machine, name)

    def sums(self, machine, name):
        found = dict.fromkeys(("prod", "mid", "batch", "free"), 0)
        for one in self._held[machine].values():
            found[one.priority_class] += _asked(one, name)
        return found

    def room(self, machine, name, known):
        """Return what batch and free may hold there in all, by one round."""
        place = MEASURED.index(name)
        busy = known.system[machine][place] if machine in known.system else 0
        for one in self._held[machine].values():
            if one.priority_class in ("prod", "mid"):
                used = known.used.get((machine, one.id))
                busy += _asked(one, name) if used is None else used[place]
        return max(int(self._capacity[name] * SHARE[name]) - busy, 0)

    def above(self, machine, known):
        found = []
        for name in SHARE:
            of = self.sums(machine, name)
            if of["batch"] + of["free"] > self.room(machine, name, known) + _near(name):
                found.append(f"{name} of batch and free")
            if of["mid"] > min(of["prod"], self._capacity[name]) + _near(name):
                found.append(f"{name} of mid")
        return found

    def leave(self, machine, instance_id):
        del self._held[machine][instance_id]

    def _check(self, record, machine, name):
        of, key = self.sums(machine, name), record.priority_class
        if key in ("batch", "free"):
            rooms = [self.room(machine, name, known) for known in self._could_know(record.version)]
            most = max(rooms)
            self.moved += len(set(rooms)) > 1
        else:
            most = self._capacity[name] if key == "prod" else min(of["prod"], self._capacity[name])
        held = of[key] + (of["batch"] if key == "free" else 0)
        if held > most + _near(name):
            self.faults.append(f"change {record.version}: {key} of {machine} has {held} of {most} {name}")
        self.fullest[key] = max(self.fullest[key], round(100 * held / most) if most else 0)

    def _could_know(self, change):
        """Return the rounds by which a scorer may have made a change of the ledger."""
        while self._known < len(self._rounds) and self._rounds[self._known].change < change:
            self._known += 1
        first = max(self._known - self._back, 0) if self._back else 0
        return self._rounds[first : self._known] or (NOT_MEASURED,)


def eviction_faults(capacity, instances, known, advice):
    """Return where the advice is not exactly what no longer fits by what is measured.

    A machine is named when a sum is above what there is for it. What leaves makes the rest fit, and the last of it is
    needed for that.
    """
    now, faults = ClassSums(capacity), []
    for one in instances:
        now.change(None, one)
    leaving = defaultdict(list)
    for each in advice["evictions"]:
        leaving[each["source"]].append(each["id"])
    above = {machine for machine in known.system if now.above(machine, known)}
    if above != set(advice["above"]):
        faults.append(f"above a sum are {sorted(above)}, told were {sorted(advice['above'])}")
    for machine in sorted(above):
        for name in leaving[machine][:-1]:
            now.leave(machine, name)
        if not leaving[machine] or not now.above(machine, known):
            faults.append(f"{machine}: more is to leave than is too much, or nothing: {leaving[machine]}")
        for name in leaving[machine][-1:]:
            now.leave(machine, name)
        if now.above(machine, known):
            faults.append(f"{machine}: what is left is still too much: {now.above(machine, known)}")
    return faults


def _asked(record, name):
    return in_units(name, record.amounts[RESOURCES.index(name)])


def _near(name):
    """Return the peer's unit: what is sold is cut to millicores."""
    return in_units(name, 1.0) / 1000
