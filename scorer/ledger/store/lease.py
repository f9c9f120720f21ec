"""Shell: a lease for what only one daemon may do at a time, with a fencing number.

    lease = Lease(ledger, "check", scorer, 60.0)
    if (number := lease.take()) is not None:
        ...                        # every script that writes is given the number, and refuses an older one

A lease runs out by the server's clock. A holder that was frozen or cut off does not know that it lost it. Its number is
older than that of the next holder, and so the scripts refuse its writes (`is_fenced` in ledger.lua). Chosen over a
lock alone, which does not stop such a holder.
"""

from scorer.ledger.store.scripts import Ledger


class Lease:
    """One lease by name; ``holder`` names the process that asks, ``lasts_s`` is how long it holds unless renewed."""

    def __init__(self, ledger: Ledger, name: str, holder: str, lasts_s: float) -> None:
        self.ledger, self.name, self.lasts_s = ledger, name, lasts_s
        self._holder = holder

    def take(self) -> int | None:
        """Take the lease, or renew it; return its number, None while another holds it."""
        return self.ledger.lease(self.name, self._holder, self.lasts_s)

    def give_up(self) -> None:
        """Give the lease up; without effect when another process holds it."""
        self.ledger.lease(self.name, self._holder, 0.0)
