"""How often the changed facts of one machine make the scorers read facts again. Pure.

The first change is told at once. One that follows within `CHANGE_S` waits until that long after the one before; then
the newest facts are told once. So an agent that flips a label without end costs what an agent costs that changes it
every ten seconds. The changes of the other machines are told as soon as ever.

Chosen: a bound by machine, where the facts are folded. Rejected: one by partition or by scorer alone: what one agent
does all the time would then delay the first change of every other.
"""

from __future__ import annotations

CHANGE_S = 10.0
"""Shortest time between two changes of one machine's facts that scorers are told."""


class FactChanges:
    """What was told lately, and what waits; times are those of the records, and the clock never goes back."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._told: dict[str, float] = {}
        """By machine, when a change was last told, oldest first; only those of the last `CHANGE_S`."""
        self._waiting: set[str] = set()

    def tell(self, machine: str, recorded_at: float) -> bool:
        """Note a change; return whether it is told at once."""
        self._go_on(recorded_at)
        if machine in self._told:
            self._waiting.add(machine)
            return False
        self._note(machine)
        return True

    def due(self, recorded_at: float) -> bool:
        """Return whether changes that waited are to be told now; then they are told."""
        self._go_on(recorded_at)
        due = self._waiting - self._told.keys()
        for machine in sorted(due):
            self._note(machine)
        return bool(due)

    def drop(self, machines: set[str]) -> None:
        """Forget machines whose facts were dropped."""
        self._waiting -= machines
        for machine in machines & self._told.keys():
            del self._told[machine]

    def _note(self, machine: str) -> None:
        self._waiting.discard(machine)
        self._told[machine] = self._now_s

    def _go_on(self, recorded_at: float) -> None:
        """Forget what was told long ago."""
        self._now_s = max(self._now_s, recorded_at)
        while self._told:
            machine, told_s = next(iter(self._told.items()))
            if told_s > self._now_s - CHANGE_S:
                break
            del self._told[machine]
