"""A replica of the ledger, kept current by the change log, which is read before each decision.

The log's entries are numbered without gaps. The whole ledger is read again only

- when the entry after the last one applied was trimmed,
- when the ledger has another epoch: its server restarted empty,
- when the ledger's last change is earlier than the one applied: its server restarted with an older dump,
- after every lost connection.

A missing ledger is created. A ledger of another format is not read: ``refusal`` has the reason until the format is
known again.
"""

import gc
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from scorer.ledger.record.instance import LIVE, Instance, machines_of
from scorer.ledger.record.transition import CHANGED, Transition, UnknownFormat
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import LedgerView
from scorer.wire import Command

log = logging.getLogger("windward.scorer")

_NAMED_MAX = 1000
"""At most so many lost instances are named in the log."""


_TOGETHER_MIN = 12
"""From so many on it is faster to write reservations together."""


class Follower:
    """``view`` is the ledger as of change ``change``; the reserve step compares `version`."""

    def __init__(self, ledger: Ledger, *, around: bool = False) -> None:
        """``around``: leave out live records, and versions of machines, that cannot be read."""
        self.ledger = ledger
        self.torn: dict[str, bytes] | None = {} if around else None
        """The live records that cannot be read, by id; None: they refuse the whole ledger."""
        self.view = LedgerView()
        self.epoch = ""
        self.change = 0
        self.loaded = False
        self.reloads = 0
        self.refusal = ""
        """Why the ledger cannot be read; "" when it can."""
        self._unread: UnknownFormat | None = None
        self._doubted = ("", -1)
        self.lost = 0
        """Live instances that this copy had and that the ledger lost in a restart of its server."""
        self._versions: dict[str, int] = {}

    def version(self, machine: str) -> int:
        """Return the machine's version: the number of its last change, 0 when it holds nothing."""
        return self._versions.get(machine, 0)

    def reads(self) -> list[Command]:
        """Return the commands whose answers `accept` takes."""
        return self.ledger.log_reads(self.change)

    def accept(self, answers: Sequence[Any]) -> None:
        """Apply the changes; read the whole ledger again when the log does not continue from the last change."""
        try:
            if not self._continue(answers, known=self.loaded):
                self.load()
        except UnknownFormat as unknown:
            self._unread = unknown
            self._refuse(str(unknown))
        else:
            self._unread = None
            self._refuse("")

    def require(self) -> None:
        """Raise UnknownFormat where the ledger could not be read, since the view is out of date then."""
        if self._unread is not None:
            raise self._unread

    def _refuse(self, refusal: str) -> None:
        if refusal:
            self.loaded = False
        if refusal != self.refusal:
            self.refusal = refusal
            word = "scorer.ledger.refused" if refusal else "scorer.ledger.accepted"
            log.warning(word, extra={"values": {"reason": refusal} if refusal else {}})

    def _continue(self, answers: Sequence[Any], *, known: bool) -> bool:
        """Apply the changes up to the last one; return False where they do not continue from a ``known`` ledger."""
        while True:
            epoch, change, records = self.ledger.read_log(answers)
            if not known or epoch != self.epoch or change < self.change:
                return False
            if change > self.change:
                if not records or records[0].version != self.change + 1:
                    return False
                self._apply_all(records)
            if self.change >= change:
                return True
            answers = self.ledger.wire.ask(self.reads())

    def poll(self) -> None:
        """Read and apply what changed."""
        self.accept(self.ledger.wire.ask(self.reads()))

    def absorb(self, transition: Transition) -> None:
        """Apply the changes of an own transition; read the log if other changes came before them."""
        if transition.epoch == self.epoch and transition.before == self.change:
            self._apply_all(transition.changes)
        else:
            self.poll()

    def doubt(self, transition: Transition, change: int) -> None:
        """Read the whole ledger again when a row differs from this replica though nothing changed since ``change``.

        The scripts did not write such a row; it comes from a partly restored server, for example. Without this
        each placement there would conflict. It is done once for each change of the ledger.
        """
        unchanged = transition.before == change == self.change and transition.epoch == self.epoch
        contradicted = any(CHANGED in outcome.reasons for outcome in transition.outcomes)
        if unchanged and contradicted and not transition.changes and self._doubted != (self.epoch, change):
            self._doubted = (self.epoch, change)
            log.warning("scorer.ledger.contradicted", extra={"values": {"change": change}})
            self.load()

    def forget(self) -> None:
        """Record that the connection was lost: the whole ledger is read again before the replica is used."""
        self.loaded = False

    def load(self) -> None:
        """Read the whole ledger. Changes during the reading are in the log, after the change noted first.

        Python's cyclic collector would walk over a million new records again and again, and at every full collection.
        So it is paused, and the records are excluded from it. The objects that an earlier reading excluded are
        released first: otherwise each reading leaks them (3.3 MB with 2,500 instances and leavers).
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._load()
        finally:
            if self.reloads > 1:
                gc.unfreeze()
                gc.collect()
            gc.freeze()
            if collecting:
                gc.enable()

    def _load(self) -> None:
        if not self.ledger.is_open():
            self.ledger.open()
        epoch_before, change_before, before = self.epoch, self.change, self.view.instances
        for _ in range(10):
            epoch, change, _records = self.ledger.read_log(self.ledger.wire.ask(self.ledger.log_reads(2**53, 1)))
            records = [record for page in self.ledger.pages(self.torn) for record in page]
            versions = self.ledger.machine_versions(around=self.torn is not None)
            leavers = [one for one in self.ledger.leavers() if one.version <= change]
            caught_up = self._start(epoch, change, records, versions, leavers)
            if caught_up:
                self.loaded = True
                self.reloads += 1
                if epoch_before and (epoch != epoch_before or change < change_before):
                    self._tell_lost(before, epoch == epoch_before, change_before)
                log.info("scorer.ledger.loaded", extra={"values": {"instances": len(self.view), "change": self.change}})
                return
        raise RuntimeError("the ledger changes faster than its log is long: raise ledger_log_length")

    def _tell_lost(self, before: dict[str, Instance], same_epoch: bool, change_before: int) -> None:
        """Log which records were lost: the newest ones, or all."""
        now = self.view.instances
        gone = [one for one in before.values() if one.id not in now or now[one.id].generation != one.generation]
        lost = sorted(gone, key=lambda one: one.id)
        self.lost += len(lost)
        named = ", ".join(f"{one.id} on {one.machine} {one.state}" for one in lost[:_NAMED_MAX])
        values = {"change": self.change, "change_before": change_before, "lost": len(lost), "instances": named}
        log.error("scorer.ledger.tail_lost" if same_epoch else "scorer.ledger.begun_anew", extra={"values": values})

    def _start(
        self,
        epoch: str,
        change: int,
        records: Iterable[Instance],
        versions: dict[str, int],
        leavers: Sequence[Instance],
    ) -> bool:
        self.epoch, self.change = epoch, change
        self.view = LedgerView(records, leavers, self.ledger.leavers_most)
        self._versions = versions
        return self._continue(self.ledger.wire.ask(self.reads()), known=True)

    def _apply_all(self, records: Sequence[Instance]) -> None:
        """Apply changes in order; new reservations in a row together."""
        new: dict[str, Instance] = {}
        for record in records:
            if record.state == "reserved" and record.id not in self.view.instances and record.id not in new:
                new[record.id] = record
                self._versions[record.machine] = record.version
            else:
                self._add(new)
                self._apply(record)
            self.change = record.version
        self._add(new)

    def _add(self, new: dict[str, Instance]) -> None:
        if len(new) < _TOGETHER_MIN:
            for record in new.values():
                self.view.apply(record)
        else:
            self.view.add(list(new.values()))
        new.clear()

    def _apply(self, record: Instance) -> None:
        before = self.view.instances.get(record.id)
        if before is not None and before.version > record.version:
            return
        machines = {record.machine, *(() if before is None else machines_of(before))}
        if record.state in LIVE:
            machines.update(machines_of(record))
        self.view.apply(record)
        for machine in machines:
            if self.view.slots_on(machine):
                self._versions[machine] = max(record.version, self._versions.get(machine, 0))
            else:
                self._versions.pop(machine, None)
