"""Leavers: instances that ended or moved away and that the windows still show on the machine they left.

Each has the record it had there, its start, and its end. They are kept for `KEPT_S` of the ledger's time and up to a
maximum number; the oldest are dropped first. The scripts keep the same in the ledger (`ledger.lua`), so that a scorer
that starts knows them, too. An instance that was never confirmed has used nothing and is no leaver.
"""

from collections import deque
from collections.abc import Collection

from scorer.ledger.record.instance import LIVE, Instance, copy_with
from scorer.ledger.view.slots import Slots

KEPT_S = 7_200.0
"""Twice the longest window, since windows end at a machine's newest sample, which may be late. As in ledger.lua."""
MOST = 100_000
"""How many are kept by default."""


def left_behind(before: Instance | None, after: Instance) -> Instance | None:
    """Return the leaver that a change makes, as a record that ended on its former machine; None without one.

    ``before``: the live record that ``after`` replaces.
    """
    if before is None or before.started_at <= 0:
        return None
    if after.state not in LIVE:
        return after if after.started_at > 0 else None
    if after.machine == before.machine or after.started_at == before.started_at:
        return None  # it stayed: an instance that moved has a new start
    return copy_with(before, state="released", ended_at=after.started_at, version=after.version, moving=None)


class Leavers:
    """The leavers as columns; machines by their number in the view."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.slots = Slots(16)
        self._free: list[int] = []
        self._order: deque[tuple[float, int, str]] = deque()
        """End, slot and machine, in the order of arrival."""
        self._by_machine: dict[str, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def add(self, leaver: Instance, number: int) -> None:
        """Add a leaver of the machine with this number; drop those that ended more than `KEPT_S` before it."""
        slot = self._free.pop() if self._free else self.slots.next()
        self.slots.write(slot, leaver, number)
        self._order.append((leaver.ended_at, slot, leaver.machine))
        self._by_machine.setdefault(leaver.machine, {})[slot] = None
        while self._order and (len(self._order) > self._most or self._order[0][0] < leaver.ended_at - KEPT_S):
            _, oldest, machine = self._order.popleft()
            self.slots.clear(oldest)
            self._free.append(oldest)
            del self._by_machine[machine][oldest]
            if not self._by_machine[machine]:
                del self._by_machine[machine]

    def slots_on(self, machine: str) -> Collection[int]:
        return self._by_machine.get(machine, {})
