"""The ledger as a few dictionaries, to check the scripts against; written without looking at them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from scorer.instance import Instance, State
from scorer.ledger import Candidate, Change, Outcome, Transition, Wanted, in_units
from scorer.reservations import LIVE, TRANSITIONS, Step, has_expired


class LedgerModel:
    """What `scorer.ledger.Ledger` does, in memory; ``clock`` stands for the server's time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.records: dict[str, Instance] = {}
        self.touched: dict[str, int] = {}
        self.change = 0
        self.log: list[Instance] = []

    # ---- what it holds

    def live(self) -> list[Instance]:
        """Return what holds amounts."""
        return [record for record in self.records.values() if record.state in LIVE]

    def on_machine(self, machine: str) -> list[Instance]:
        """Return the live records of one machine."""
        return [record for record in self.live() if record.machine == machine]

    def version(self, machine: str) -> int:
        """Return a machine's version."""
        return self.touched.get(machine, 0) if self.on_machine(machine) else 0

    def sums(self, machine: str) -> list[int]:
        """Return what a machine holds, in units."""
        here = self.on_machine(machine)
        return [sum(in_units(r, record.amounts[r]) for record in here) for r in range(3)]

    # ---- steps

    def _write(self, record: Instance, left: str = "") -> Instance:
        self.change += 1
        record = msgspec.structs.replace(record, version=self.change)
        self.records[record.id] = record
        self.log.append(record)
        for machine in (record.machine, left):
            self.touched[machine] = self.change
        return record

    def _sweep(self) -> None:
        now = self._clock()
        due = [r for r in self.records.values() if has_expired(r.state, r.expires_at, now)]
        for record in sorted(due, key=lambda r: (r.expires_at, r.id)):
            self._write(msgspec.structs.replace(record, state="expired", ended_at=record.expires_at))

    def _next(self, record: Instance | None, step: Step) -> State | str:
        return TRANSITIONS[record.state if record else None, step]

    def _misfit(self, record: Instance, candidate: Candidate, own: set[str]) -> str:
        here = [r for r in self.on_machine(candidate.machine) if r.id != record.id]
        if (
            candidate.version >= 0
            and candidate.machine not in own
            and self.version(candidate.machine) != candidate.version
        ):
            return "changed"
        for position, amount in enumerate(record.amounts):
            held = sum(in_units(position, r.amounts[position]) for r in here)
            limit, wanted = in_units(position, candidate.amounts[position]), in_units(position, amount)
            if limit >= 0 and wanted > 0 and held + wanted > limit:
                return f"amount {position + 1}"
        if not math.isnan(candidate.maxmemory) and record.maxmemory > 0:
            held = sum(in_units(1, r.maxmemory) for r in here)
            if held + in_units(1, record.maxmemory) > in_units(1, candidate.maxmemory):
                return "maxmemory"
        taken = {port for r in here for port in r.ports}
        for port in record.ports:
            if port in taken:
                return f"port {port}"
        if record.role == "master" and record.cluster and not math.isnan(candidate.masters):
            masters = sum(r.cluster == record.cluster and r.role == "master" for r in here)
            if masters and masters + 1 > candidate.masters:
                return "masters"
        return ""

    def reserve(
        self,
        wanted: Sequence[Wanted],
        *,
        expected_change: int = -1,
        all_or_nothing: bool = False,
        dry_run: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Transition:
        """As `Ledger.reserve`."""
        if meanwhile is not None:
            meanwhile()
        before = self.change
        self._sweep()
        moved_on = expected_change >= 0 and expected_change != self.change
        saved = (dict(self.records), dict(self.touched), self.change, len(self.log))
        own: set[str] = set()
        outcomes: list[Outcome] = []
        for instance, ttl_s, candidates in wanted:
            known = self.records.get(instance.id)
            if known:
                outcomes.append(Outcome("known" if known.request == instance.request else "other", known))
                continue
            reasons = []
            for position, candidate in enumerate(candidates):
                reason = "changed" if moved_on else self._misfit(instance, candidate, own)
                if not reason:
                    now = self._clock()
                    record = self._write(
                        msgspec.structs.replace(
                            instance,
                            machine=candidate.machine,
                            state="reserved",
                            reserved_at=now,
                            expires_at=now + ttl_s,
                        )
                    )
                    own.add(candidate.machine)
                    outcomes.append(Outcome("placed", record, position, ",".join(reasons)))
                    break
                reasons.append(reason)
            else:
                outcomes.append(Outcome("conflict" if reasons else "none", reasons=",".join(reasons)))
        failed = {outcome.kind for outcome in outcomes} & {"other", "conflict", "none"}
        nothing = "other" in failed or (all_or_nothing and failed)
        if nothing:
            outcomes = [Outcome("conflict", reasons="all or none") if o.kind == "placed" else o for o in outcomes]
        if dry_run or nothing:
            self.records, self.touched, self.change = saved[0], saved[1], saved[2]
            del self.log[saved[3] :]
        return Transition("", before, self.log[before:], outcomes)

    def _single(self, instance_id: str, step: Step, machine: str, change: Callable[[Instance], Instance]) -> Transition:
        before = self.change
        self._sweep()
        record = self.records.get(instance_id)
        following = self._next(record, step)
        if record is None:
            outcome = Outcome("unknown")
        elif machine and record.machine != machine:
            outcome = Outcome("elsewhere", record)
        elif following == "REPEAT":
            outcome = Outcome("repeat", record)
        elif following == "FAILED_PRECONDITION":
            outcome = Outcome("ended", record)
        else:
            outcome = Outcome("done", self._write(change(record)))
        return Transition("", before, self.log[before:], [outcome])

    def confirm(self, instance_id: str, *, machine: str = "", started_at: float = 0.0) -> Transition:
        """As `Ledger.confirm`."""
        now = self._clock()
        return self._single(
            instance_id, "confirm", machine,
            lambda r: msgspec.structs.replace(
                r, state="confirmed", expires_at=0.0, started_at=min(started_at, now) if started_at else now
            ),
        )  # fmt: skip

    def release(self, instance_id: str, *, machine: str = "") -> Transition:
        """As `Ledger.release`."""
        now = self._clock()
        return self._single(
            instance_id, "release", machine, lambda r: msgspec.structs.replace(r, state="released", ended_at=now)
        )

    def update(self, changes: Sequence[Change]) -> Transition:
        """As `Ledger.update`."""
        (change,) = changes
        before = self.change
        self._sweep()
        record = self.records.get(change.old.id)
        following = self._next(record, "update")
        if record is None:
            outcome = Outcome("unknown", reasons=change.old.id)
        elif record.state == "reserved":
            outcome = Outcome("reserved", record)
        elif following != "confirmed":
            outcome = Outcome("ended", record)
        elif record.version != change.old.version:
            outcome = Outcome("stale")
        else:
            reasons = []
            outcome = Outcome("conflict")
            for candidate in change.candidates:
                reason = self._misfit(change.new, candidate, set())
                if not reason:
                    moved = candidate.machine != record.machine
                    new = msgspec.structs.replace(
                        change.new, machine=candidate.machine, state="confirmed", reserved_at=record.reserved_at,
                        started_at=self._clock() if moved else record.started_at, expires_at=0.0, ended_at=0.0,
                    )  # fmt: skip
                    outcome = Outcome("done", self._write(new, record.machine if moved else ""))
                    break
                reasons.append(reason)
            else:
                outcome = Outcome("conflict", reasons=",".join(reasons))
        return Transition("", before, self.log[before:], [outcome])

    def expire(self) -> Transition:
        """As `Ledger.expire`."""
        before = self.change
        self._sweep()
        return Transition("", before, self.log[before:], [], self.change - before)
