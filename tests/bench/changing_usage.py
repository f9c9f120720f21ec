"""Measured usage that changes while scorers place: what a class may have shrinks and grows under them.

Every round a table of usage by instance is written, as the stream app does: prod and mid use a share of what they ask
that is another one each time on each machine, and so does the system. The rounds are kept with the number of the
ledger's last change before each, so that what a scorer decided later can be judged by what it could know.
"""

import random
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.names import Names
from schemas.resources import RESOURCES
from schemas.tables.instance_table import COLUMNS, pair_name
from schemas.tables.window_table import Header, encode_table
from scorer.ledger.record.instance import Instance, as_held, machines_of
from scorer.ledger.record.units import in_units
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire

MEASURED = RESOURCES[:2]
SYSTEM = (4.0, 16e9)
"""The most that a system uses of cpu and memory."""
LEVELS = (0.1, 0.3, 0.6, 1.0, 1.1)
NO_CHANGE = 2**53
"""A change that never comes."""

Used = tuple[int, ...]
"""Usage of the measured resources in the ledger's units."""


class Round(NamedTuple):
    """What was written once."""

    change: int
    """The ledger's last change before it was written."""
    system: dict[str, Used]
    """By machine."""
    used: dict[tuple[str, str], Used]
    """By machine and instance."""


class ChangingUsage(threading.Thread):
    """Writes rounds until it is stopped; `write` writes one more."""

    def __init__(self, wire: Wire, names: Names, machines: Sequence[str], at: float, every_s: float) -> None:
        """``at``: the time of every report; that of the machines' samples, so that it is current."""
        super().__init__(name="usage", daemon=True)
        self._wire, self._names, self._machines, self._at, self._every_s = wire, names, machines, at, every_s
        self._ledger = Ledger(wire, names, log_length=10_000_000)
        self._dice = random.Random(7)
        self._ended = threading.Event()
        self.rounds: list[Round] = []

    def run(self) -> None:
        """Write a round every ``every_s``."""
        while not self._ended.wait(self._every_s):
            self.write()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join()

    def write(self) -> None:
        """Write what is used now, and keep it."""
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

    def _table(self, rows: Sequence[tuple[str, Used]]) -> bytes:
        columns: dict[str, Any] = {
            name: np.full((*axes, len(rows)), absent, kind) for name, (kind, axes, absent) in COLUMNS.items()
        }
        columns["at"][:], columns["since"][:], columns["count"][:] = self._at, int(self._at - 86_400), 100
        columns["recent"] = columns["daily"] = np.zeros((len(RESOURCES), len(rows)))  # 64 bits, to be judged exactly
        units = np.array([in_units(name, 1.0) for name in MEASURED])
        columns["recent"][: len(MEASURED)] = np.array([amounts for _, amounts in rows]).T / units[:, None]
        header = Header(machines=len(rows), windows_s=(), columns=[], written_at=time.time())
        return encode_table(header, columns, "\n".join(name for name, _ in rows).encode())


def _share(instance: Instance, level: float) -> Used:
    """Return a share of what an instance asks for, in whole thousandths of cores."""
    found = []
    for name in MEASURED:
        whole = in_units(name, 1.0) // 1000 or 1
        found.append(int(in_units(name, instance.amounts[RESOURCES.index(name)]) * level) // whole * whole)
    return tuple(found)
