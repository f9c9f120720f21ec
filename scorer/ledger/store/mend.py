"""Shell: check and repair a ledger, once more while a repair kept another from writing.

A repair writes one of the instances again, so that every scorer sees a new version. The instance, its other machine and
its cluster are then not as they were read, and what is wrong of them is left to the next pass. Each pass reads all of
the ledger. There is one, unless two things are wrong that belong together.
"""

from __future__ import annotations

from dataclasses import replace

from scorer.ledger.record.transition import Difference
from scorer.ledger.store.check import Check, Checked
from scorer.ledger.store.scripts import Ledger

PASSES_MAX = 5
"""An instance may be wrong itself, on both machines of its move, and in its cluster."""


def mend(ledger: Ledger, number: int) -> Checked:
    """Check and repair under the lease `check`; return all that was found, and how much of it is repaired.

    Raises PermissionError when the lease has passed to another, UnknownFormat where the ledger cannot be read.
    """
    differences: dict[tuple[str, str], Difference] = {}
    for _ in range(PASSES_MAX):
        check = Check(ledger)
        found = check.run()
        check.repair(found, number)
        for one in found.differences:
            differences.setdefault((one.kind, one.name), one)
        left = len(found.differences) - found.repaired
        if not left or not found.repaired:
            break
    return replace(found, differences=[*differences.values()], repaired=len(differences) - left)
