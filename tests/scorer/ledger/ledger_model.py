"""The ledger as a few dictionaries, to check the scripts against; written without looking at them."""

from collections import Counter

import msgspec

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import LIVE, UNITS, Arrival, Moving, in_units
from scorer.ledger.record.transition import NO_QUERY, Outcome, Transition

SWEPT = 200
"""Reservations that a step expires at most, beside those it is about."""

TRANSITIONS = {
    (None, "reserve"): "reserved",
    (None, "confirm"): "unknown",
    (None, "update"): "unknown",
    (None, "release"): "unknown",
    ("reserved", "reserve"): "repeat",
    ("reserved", "confirm"): "confirmed",
    ("reserved", "update"): "refused",
    ("reserved", "release"): "released",
    ("confirmed", "reserve"): "repeat",
    ("confirmed", "confirm"): "repeat",
    ("confirmed", "update"): "confirmed",
    ("confirmed", "release"): "released",
    ("released", "reserve"): "reserved",
    ("released", "confirm"): "refused",
    ("released", "update"): "refused",
    ("released", "release"): "repeat",
    ("expired", "reserve"): "reserved",
    ("expired", "confirm"): "refused",
    ("expired", "update"): "refused",
    ("expired", "release"): "repeat",
}
"""What a step does in a state (None: unknown id): the next state, or why there is none."""


FIRST_DRAWN = 2**52
"""The model's numbers are counted from here on, where a ledger draws its own."""


class LedgerModel:
    """What `scorer.ledger.store.scripts.Ledger` does, in memory; ``clock`` stands for the server's time."""

    def __init__(self, clock):
        self._clock = clock
        self.records = {}
        self.touched = {}
        self.acts = {}
        """By query, step and id: the generation it acted on. Never forgotten here: the server's clock hardly moves."""
        self.change = 0
        self.far = -1
        """The last change with a rule beyond one machine."""
        self.log = []

    def drawn(self):
        """Return the number that the next step gives to what it reserves, or to the move that it begins."""
        return FIRST_DRAWN + self.change

    # ---- what it holds

    def live(self):
        return [record for record in self.records.values() if record.state in LIVE]

    def on_machine(self, machine):
        """Return the live records that hold one machine: those there, and those that move there."""
        return [record for record in self.live() if machine in _held(record)]

    def version(self, machine):
        return self.touched.get(machine, 0) if self.on_machine(machine) else 0

    def sums(self, machine):
        """Return what a machine holds, in units, by class and name; what is 0 is left out."""
        found = Counter()
        for record in self.on_machine(machine):
            for name in ("instances", "maxmemory", *RESOURCES):
                found[record.priority_class, name] += _share(_on(record, machine), name)
        return {key: value for key, value in found.items() if value}

    # ---- steps

    def _write(self, record, *left):
        self.change += 1
        record = msgspec.structs.replace(record, version=self.change)
        self.records[record.id] = record
        self.log.append(record)
        for machine in (*_held(record), *left):
            self.touched[machine] = self.change
        return record

    def _end(self, record, state, at):
        ended = msgspec.structs.replace(record, state=state, ended_at=at, moving=None)
        return self._write(ended, *_held(record))

    def _stay(self, record):
        return self._write(msgspec.structs.replace(record, moving=None), *_held(record))

    def _due(self, records):
        now_s = self._clock()
        due = [record for record in records if record.state == "reserved" and record.expires_at <= now_s]
        return sorted(due, key=lambda record: (record.expires_at, record.id))

    def _over(self, records):
        """Return those whose move has ended by itself, the first to end first."""
        now_s = self._clock()
        over = [(one.moving.until, one.id, one) for one in records if one.moving and one.moving.until <= now_s]
        return [one for *_, one in sorted(over, key=lambda each: each[:2])]

    def _sweep(self, most=SWEPT, ids=()):
        """Expire the first so many reservations and moves that are due, then those of some ids."""
        due, over = self._due(self.records.values())[:most], self._over(self.records.values())[:most]
        for record in due:
            self._end(record, "expired", record.expires_at)
        for record in over:
            self._stay(record)
        for instance_id in ids:
            known = [self.records[instance_id]] if instance_id in self.records else []
            for record in self._due(known):
                self._end(record, "expired", record.expires_at)
            for record in self._over(known):
                self._stay(record)
        return len(due) + len(over)

    def _next(self, record, step):
        return TRANSITIONS[record.state if record else None, step]

    def _misfit(self, record, candidate, own):
        here = [_on(r, candidate.machine) for r in self.on_machine(candidate.machine) if r.id != record.id]
        if (
            candidate.version >= 0
            and candidate.machine not in own
            and self.version(candidate.machine) != candidate.version
        ):
            return "changed"
        for (kind, name, *classes), most, reason in candidate.limits:
            if kind == "count":
                added, held = _counted(record, name), sum(_counted(one, name) for one in here)
            else:
                inside = [one for one in here if not classes or one.priority_class in classes]
                counts = not classes or record.priority_class in classes
                added, held = _share(record, name) if counts else 0, sum(_share(one, name) for one in inside)
            limit = in_units(name, most) if name in UNITS else most
            if added and limit >= 0 and held + added > limit:
                return reason
        return ""

    def reserve(  # noqa: PLR0912
        self, wanted, *, expected_change=-1, all_or_nothing=False, dry_run=False, meanwhile=None
    ):
        if meanwhile is not None:
            meanwhile()
        before, drawn = self.change, self.drawn()
        self._sweep(ids=[one.own[0] for one in wanted])
        moved_on = expected_change >= 0 and expected_change != self.change
        moved_on = moved_on or (expected_change < -1 and self.far > -2 - expected_change)
        saved = (dict(self.records), dict(self.touched), self.change, len(self.log))
        own = set()
        outcomes = []
        for one in wanted:
            instance_id, digest = one.own
            instance = msgspec.structs.replace(one.instance, id=instance_id, request=digest)
            ttl_s, candidates, call = one.ttl_s, one.candidates, one.call
            known = self.records.get(instance.id)
            known = known if known and known.state in LIVE else None
            acted = self._acted(call, "reserve", instance.id)
            if self._late(call):
                outcomes.append(Outcome("late"))
                continue
            if acted is not None and (known is None or known.generation != acted):
                outcomes.append(Outcome("gone"))
                continue
            if known:
                same = acted is not None or known.request == instance.request
                outcomes.append(Outcome("known" if same else "other", known))
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
                            generation=drawn,
                        )
                    )
                    own.add(candidate.machine)
                    outcomes.append(Outcome("placed", record, position, tuple(reasons)))
                    break
                reasons.append(reason)
            else:
                outcomes.append(Outcome("conflict" if reasons else "none", reasons=tuple(reasons)))
        failed = {outcome.kind for outcome in outcomes} & {"other", "conflict", "none", "gone", "late"}
        nothing = "other" in failed or (all_or_nothing and failed)
        if nothing:
            outcomes = [Outcome("conflict", reasons=("all or none",)) if o.kind == "placed" else o for o in outcomes]
        if dry_run or nothing:
            self.records, self.touched, self.change = saved[0], saved[1], saved[2]
            del self.log[saved[3] :]
        else:
            if expected_change >= 0 and any(outcome.kind == "placed" for outcome in outcomes):
                self.far = self.change
            for one, outcome in zip(wanted, outcomes, strict=True):
                if outcome.kind in ("placed", "known") and outcome.instance is not None:
                    self._remember(one.call, "reserve", outcome.instance)
        return Transition("", before, self.log[before:], outcomes)

    def _late(self, call):
        return 0 < call.deadline <= self._clock()

    def _acted(self, call, step, instance_id):
        return self.acts.get((call.query, step, instance_id))

    def _remember(self, call, step, record):
        if call.query:
            self.acts[call.query, step, record.id] = record.generation

    def _single(  # noqa: PLR0912
        self, instance_id, step, machine, generation, call,
        change, move = None,
    ):  # fmt: skip
        before = self.change
        if self._late(call):
            self._sweep()
            return Transition("", before, self.log[before:], [Outcome("late")])
        self._sweep(ids=[instance_id])
        record = self.records.get(instance_id)
        acted = self._acted(call, step, instance_id)
        if acted is not None and (record is None or record.generation != acted):
            former = [one for one in self.log if one.id == instance_id and one.generation != record.generation]
            record = former[-1] if record and record.state in LIVE and former else record
            if record is None or record.generation != acted:
                return Transition("", before, self.log[before:], [Outcome("gone")])
        following = self._next(record, step)
        if record is None:
            outcome = Outcome("unknown")
        elif acted is None and generation is not None and record.generation != generation:
            outcome = Outcome("generation", record)
        elif step == "confirm" and record.moving and record.moving.to == machine and acted is None:
            if move in (None, record.moving.number):
                outcome = Outcome("done", self._write(change(record), record.machine))
            else:
                outcome = Outcome("moving", record)
        elif machine and record.machine != machine:
            outcome = Outcome("elsewhere", record)
        elif following == "repeat":
            outcome = Outcome("repeat", record)
        elif following == "refused":
            outcome = Outcome("ended", record)
        else:
            outcome = Outcome("done", self._write(change(record), *_held(record)))
        if acted is None and outcome.kind in ("done", "repeat") and outcome.instance is not None:
            self._remember(call, step, outcome.instance)
        return Transition("", before, self.log[before:], [outcome])

    def confirm(
        self, instance_id, *, machine = "", started_at = 0.0, generation = None,
        move = None, call = NO_QUERY
    ):  # fmt: skip
        now = self._clock()

        def there(record):
            at, moving = min(started_at, now) if started_at else now, record.moving
            where = {"machine": moving.to, "started_at": max(at, moving.since)} if moving else {"started_at": at}
            record = _on(record, moving.to) if moving else record
            return msgspec.structs.replace(record, state="confirmed", expires_at=0.0, moving=None, **where)

        return self._single(instance_id, "confirm", machine, generation, call, there, move)

    def release(
        self, instance_id, *, machine = "", generation = None, failed = False,
        call = NO_QUERY
    ):  # fmt: skip
        now = self._clock()
        return self._single(
            instance_id,
            "release",
            machine,
            generation,
            call,
            lambda r: msgspec.structs.replace(r, state="released", ended_at=now, moving=None, failed=failed),
        )

    def acted(self, step, instance_id, call):
        return bool(call.query) and self._acted(call, step, instance_id) is not None

    def update(self, changes, *, generation=None, call=NO_QUERY):
        """As `Ledger.update`, for a query that is asked once."""
        (change,) = changes

        def changed(record):
            if change.new is change.old:
                return Outcome("repeat", record)
            if record.moving:
                reasons = [self._misfit(change.new, one, set()) for one in change.candidates]
                if any(reasons):
                    return Outcome("conflict", reasons=tuple(one for one in reasons if one)[:1])
                return Outcome("done", self._write(self._changed(record, change.new, record.machine)))
            candidate, reasons = self._first(change.new, change.candidates)
            if candidate is None:
                return Outcome("conflict", reasons=tuple(reasons))
            return Outcome("done", self._write(self._changed(record, change.new, candidate.machine), record.machine))

        return self._on_confirmed(change.old, changed, call)

    def _changed(self, record, new, machine):
        started_at = record.started_at if machine == record.machine else self._clock()
        return msgspec.structs.replace(
            new, machine=machine, state="confirmed", reserved_at=record.reserved_at, started_at=started_at,
            expires_at=0.0, ended_at=0.0, moving=record.moving,
        )  # fmt: skip

    def _first(self, record, candidates):
        reasons = []
        for candidate in candidates:
            reason = self._misfit(record, candidate, set())
            if not reason:
                return candidate, reasons
            reasons.append(reason)
        return None, reasons

    def _on_confirmed(self, old, step, call=NO_QUERY):
        """Take a step on a confirmed instance that is as its caller saw it."""
        before = self.change
        if self._late(call):
            self._sweep()
            return Transition("", before, self.log[before:], [Outcome("late")])
        self._sweep(ids=[old.id])
        record = self.records.get(old.id)
        if record is None:
            outcome = Outcome("unknown")
        elif record.state == "reserved":
            outcome = Outcome("reserved", record)
        elif self._next(record, "update") != "confirmed":
            outcome = Outcome("ended", record)
        elif record.version != old.version:
            outcome = Outcome("stale")
        else:
            outcome = step(record)
        return Transition("", before, self.log[before:], [outcome])

    def begin_move(self, old, candidates, lasts_s, *, new=None):
        """As `Ledger.begin_move`, for a query that is asked once."""
        drawn = self.drawn()

        def begun(record):
            if record.moving:
                return Outcome("moving", record)
            candidate, reasons = self._first(msgspec.structs.replace(new or record, id=""), candidates)
            if candidate is None:
                return Outcome("conflict", reasons=tuple(reasons))
            now = self._clock()
            there = new and Arrival(**{name: getattr(new, name) for name in Arrival.__struct_fields__})
            moving = Moving(candidate.machine, now, now + lasts_s, drawn, there)
            return Outcome("done", self._write(msgspec.structs.replace(record, moving=moving)))

        return self._on_confirmed(old, begun)

    def cancel_move(self, old):
        """As `Ledger.cancel_move`, for a query that is asked once."""
        return self._on_confirmed(
            old, lambda record: Outcome("done", self._stay(record)) if record.moving else Outcome("repeat", record)
        )

    def rename(self, old, new):
        """Have a machine under a name that holds nothing; return the records that changed, by id."""
        self._sweep()
        changed = []
        for record in sorted(self.on_machine(old), key=lambda one: one.id):
            moving = record.moving
            if moving and moving.to == old:
                moving = msgspec.structs.replace(moving, to=new)
            machine = new if record.machine == old else record.machine
            changed.append(self._write(msgspec.structs.replace(record, machine=machine, moving=moving), old))
        self.far = self.change
        return changed

    def expire(self, most=1000):
        before = self.change
        count = self._sweep(most)
        return Transition("", before, self.log[before:], [], count)


def _held(record):
    return (record.machine, record.moving.to) if record.moving else (record.machine,)


def _on(record, machine):
    new = record.moving.new if record.moving and record.moving.to == machine else None
    return msgspec.structs.replace(record, **msgspec.structs.asdict(new)) if new else record


def _share(record, name):
    if name == "instances":
        return 1
    return in_units(name, record.maxmemory if name == "maxmemory" else record.amounts[RESOURCES.index(name)])


def _counted(record, what):
    """Say whether a record is counted under ``port 1`` or ``role 4 shop master``."""
    role = f"role {len(record.cluster)} {record.cluster} {record.role}"
    return what in {f"port {port}" for port in record.ports} or bool(record.cluster and record.role and what == role)
