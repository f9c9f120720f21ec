"""Failed starts: prefers machines where no start failed lately."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class FailedStarts(Plugin):
    """Prefer machines where few starts failed lately: ``100 / 2^n``, n the failed starts there.

    ``release --failed`` reports one. It counts half after ten minutes, a quarter after twenty. No machine is refused:
    where starts fail on all machines, the one with the fewest is preferred. Without failed starts the score is skipped.
    """

    name = "failed_starts"

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(machines.table.residents.ledger.failures) and bool(failed_starts(machines).any())

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        return (failed_starts(machines),)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"failed": round(float(failed_starts(machines)[position]), 3)}


FORGOTTEN = 0.01
"""Fewer failed starts than this are none."""


def failed_starts(machines: Machines) -> Floats:
    """Return [n]: the number of failed starts on each machine; older ones count less."""
    ledger, index = machines.table.residents.ledger, machines.roster.index
    found = np.zeros(len(machines.snapshot))
    for machine in ledger.failures:
        if (row := index.get(machine)) is not None and (
            count := ledger.failed_starts(machine, machines.now_s)
        ) > FORGOTTEN:
            found[row] = count
    return machines.pick(found)
