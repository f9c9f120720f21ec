"""Limits how often changed facts of one machine make the scorers read facts again. Pure.

The first change is announced at once. A further change within `CHANGE_S` waits until that time has passed; then the
newest facts are announced once. So an agent that changes a label all the time costs no more than one that changes it
every ten seconds. The changes of other machines are not delayed.

Chosen: a bound by machine, where the facts are folded. Rejected: one by partition or by scorer: then one such agent
would delay the first change of every other machine.
"""

CHANGE_S = 10.0
"""Shortest time between two announced changes of one machine's facts."""


class FactChanges:
    """The changes announced in the last `CHANGE_S`, and the waiting ones. Times are the records', and never fall."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._told: dict[str, float] = {}
        """When a change was last announced, by machine, oldest first; only those of the last `CHANGE_S`."""
        self._waiting: set[str] = set()

    def tell(self, machine: str, recorded_at: float) -> bool:
        """Record a change; return whether it is announced at once."""
        self._go_on(recorded_at)
        if machine in self._told:
            self._waiting.add(machine)
            return False
        self._note(machine)
        return True

    def due(self, recorded_at: float) -> bool:
        """Return whether waiting changes are announced now."""
        self._go_on(recorded_at)
        due = self._waiting - self._told.keys()
        for machine in sorted(due):
            self._note(machine)
        return bool(due)

    def drop(self, machines: set[str]) -> None:
        self._waiting -= machines
        for machine in machines & self._told.keys():
            del self._told[machine]

    def _note(self, machine: str) -> None:
        self._waiting.discard(machine)
        self._told[machine] = self._now_s

    def _go_on(self, recorded_at: float) -> None:
        """Set the time; drop the machines whose last change was `CHANGE_S` ago."""
        self._now_s = max(self._now_s, recorded_at)
        while self._told:
            machine, told_s = next(iter(self._told.items()))
            if told_s > self._now_s - CHANGE_S:
                break
            del self._told[machine]
