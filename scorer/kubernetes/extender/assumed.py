"""Assumed pods: scored or reserved a moment ago, and not yet in the replica of the ledger. Pure.

Pods come one after the other, faster than their bindings reach the ledger: without these the best node would be the
best for each of a burst. A pod counts on the node that scored best for it, or that it was bound to, until the ledger
has its uid, and for `LASTS_S` at most: it may have gone elsewhere, or nowhere.
"""

import math

from scorer.ledger.record.instance import Instance
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView

LASTS_S = 2.0
TICK_S = 0.25
"""Pods stop to count at the ends of such periods, so that the ledger as it is seen stays the same between them."""
_LONGEST_S = LASTS_S + TICK_S
"""An entry that would last longer was noted before the clock was set back."""
MOST = 1_000
"""The most that count at once; the oldest are dropped first. The scheduler places some hundred in a second."""


class AssumedPods:
    """The assumed instances by uid, each with the time at which it expires."""

    def __init__(self) -> None:
        self._by_uid: dict[str, tuple[float, Instance]] = {}
        self._overlay: Overlay | None = None
        self._made_at = -1
        self._proposed: set[str] = set()
        self._noted: list[str] = []
        """The uids that were noted since the overlay was last returned."""

    def __len__(self) -> int:
        return len(self._by_uid)

    def note(self, instance: Instance, now_s: float) -> None:
        """Assume an instance from now on, in place of an earlier one with its uid."""
        self.drop(instance.id)
        self._by_uid[instance.id] = (TICK_S * math.ceil((now_s + LASTS_S) / TICK_S), instance)
        self._noted.append(instance.id)
        while len(self._by_uid) > MOST:
            self.drop(next(iter(self._by_uid)))

    def drop(self, uid: str) -> None:
        """Drop the assumed instance with a uid, if there is one."""
        self._by_uid.pop(uid, None)
        if uid in self._proposed and self._overlay is not None:
            self._overlay.withdraw(uid)
            self._proposed.discard(uid)

    def over(self, view: LedgerView, uid: str, now_s: float, hold: str = "") -> Overlay | None:
        """Return the ledger with the assumed instances, without the pod ``uid`` and its hold; None: the ledger alone.

        While the ledger has not changed, it is the same overlay, so that its rows are reused.
        """
        same = self._overlay is not None and self._overlay.base is view and self._made_at == view.position
        ended = [one for one, (until_s, _) in self._by_uid.items() if not now_s <= until_s <= now_s + _LONGEST_S]
        fresh = self._noted if same else list(self._by_uid)
        came = [one for one in fresh if one in view.instances]
        for one in (uid, *ended, *came):
            self.drop(one)
        own = [one for one in (uid, hold) if one in view.instances]
        if own:  # reserved by an earlier try, or for it
            again = Overlay(view, own)
            for _, instance in self._by_uid.values():
                again.propose(instance)
            return again
        if not self._by_uid:
            self._overlay, self._proposed, self._noted = None, set(), []
            return None
        if not same:
            self._overlay, self._made_at, self._proposed = Overlay(view), view.position, set()
        assert self._overlay is not None
        for one in fresh:
            if one in self._by_uid and one not in self._proposed:
                self._overlay.propose(self._by_uid[one][1])
                self._proposed.add(one)
        self._noted = []
        return self._overlay
