"""Values that a plugin keeps between decisions, through the machines that it is given."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from scorer.ranking.machines.fleet import Fleet
from scorer.ranking.machines.kept import Compute
from scorer.ranking.machines.machine_facts import MachineFacts
from scorer.ranking.machines.owner import Owner
from scorer.snapshot.arrays import Integers

UNOWNED = Owner("unowned")
"""The owner of values kept by a plugin that was not called by `scorer.ranking.rank`."""


class KeptValues(MachineFacts):
    """Machines with methods that keep values; each owner has its own names for them."""

    def __init__(self, fleet: Fleet, rows: Integers | None, copies: Integers | None, owner: Owner) -> None:
        super().__init__(fleet, rows)
        self.copies = copies
        self.owner = owner
        """The owner of the values kept through these machines."""
        self._made: dict[Hashable, Any] = {}
        """Values made for this request and these rows; shared by all owners."""

    @property
    def whole(self) -> KeptValues:
        """All machines of the fleet, whichever these are, without the requested instance."""
        raise NotImplementedError

    def derived(self, key: Hashable, compute: Compute) -> Any:
        """Return [..., n]: ``compute(machines)``, kept for the whole fleet between decisions.

        A machine's value must depend on that machine alone, and on no request. After a placement it is computed again
        only for the machines that changed.
        """
        own, shelf = (self.owner, key), self.fleet.shelf
        if self.rows is None:
            return shelf.column(own, compute, self)
        kept = None if self.copies is not None else shelf.derived.get(own)
        return compute(self) if kept is None else kept[0][..., self.picked]

    def recent(self, key: Hashable, compute: Compute) -> Any:
        """Return [..., n]: ``compute(machines)``, kept for the keys asked for last.

        For values that depend on the request: what they take of it is in the key, and a machine's value depends on
        that and on the machine alone: the machines that ``compute`` is given may be without the request. After
        placements it is computed again for the machines that changed.
        """
        if self.rows is not None:
            return compute(self)
        return self.fleet.shelf.recent_column((self.owner, key), compute, self)

    def constant(self, key: Hashable, compute: Compute) -> Any:
        """Return [..., n]: the same as `derived`, for values that no placement changes."""
        values = self.of_snapshot(key, compute)
        return values if self.rows is None else values[..., self.picked]

    def of_snapshot(self, key: Hashable, compute: Compute) -> Any:
        """Return ``compute(all machines)``: any value of the whole fleet that no placement changes.

        Load models of the same window share it: it must not depend on credits, debits or estimates.
        """
        fixed, own = self.fleet.shelf.fixed, (self.owner, key)
        if own not in fixed:
            fixed[own] = compute(self.whole)
        return fixed[own]

    def of_fleet(self, key: Hashable, compute: Compute) -> Any:
        """Return ``compute(all machines)``: any value of the whole fleet, kept until the next placement."""
        overall, own = self.fleet.shelf.overall, (self.owner, key)
        if own not in overall:
            overall[own] = compute(self.whole)
        return overall[own]

    def once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return ``compute()``, made once for this request and these rows: for `detail`, called for many positions."""
        own = (self.owner, key)
        if own not in self._made:
            self._made[own] = compute()
        return self._made[own]
