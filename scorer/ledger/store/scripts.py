"""Shell: the ledger's transitions, one Lua script each; the in-memory model in the tests has the same interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from scorer.ledger.record.arguments import candidates_in_script, given, in_call, reasons_in_words
from scorer.ledger.record.instance import Instance, copy_with, read_record, record_tail, with_arrival
from scorer.ledger.record.transition import NO_QUERY, Call, Candidate, Change, Difference, Outcome, Transition, Wanted
from scorer.ledger.store.runner import ScriptRunner


class Ledger(ScriptRunner):
    """The ledger of one prefix on one server."""

    @staticmethod
    def _transition(result: list[Any], outcomes: list[Outcome], changes: list[Instance] | None = None) -> Transition:
        return Transition(result[0], result[1], _changes(result) if changes is None else changes, outcomes)

    def reserve(
        self,
        wanted: Sequence[Wanted],
        *,
        expected_change: int = -1,
        all_or_nothing: bool = False,
        dry_run: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Transition:
        """Reserve each instance on the first of its candidates that is as the scorer saw it and has room.

        ``meanwhile`` is called while the server works.
        """
        arguments: list[str | bytes | float] = [expected_change, int(all_or_nothing)]
        for one in wanted:
            instance = one.instance
            tail, candidates = record_tail(instance), candidates_in_script(instance, one.candidates)
            arguments += [instance.id, instance.request, repr(float(one.ttl_s)), tail, candidates, *in_call(one.call)]
        result = self._run("reserve", dry_run, *arguments, meanwhile=meanwhile)
        outcomes = []
        changes = _changes(result)
        for (kind, *rest), one in zip(result[3], wanted, strict=True):
            if kind == "placed":
                record = _record(rest[0], changes)
                outcomes.append(Outcome(kind, record, rest[1] - 1, reasons_in_words(rest[2], one.candidates)))
            elif kind in ("known", "other"):
                outcomes.append(Outcome(kind, _record(rest[0], changes)))
            else:
                outcomes.append(Outcome(kind, reasons=reasons_in_words(rest[0], one.candidates) if rest else ()))
        return self._transition(result, outcomes, changes)

    def confirm(
        self,
        instance_id: str,
        *,
        machine: str = "",
        started_at: float = 0.0,
        generation: int | None = None,
        move: int | None = None,
        call: Call = NO_QUERY,
        dry_run: bool = False,
    ) -> Transition:
        """Turn a reservation into an instance that started at ``started_at``, epoch seconds (0: now).

        An instance that is moving to ``machine`` is on it from then on, and has left the other. ``move``: the number of
        the move to confirm, None: any.
        """
        started = repr(started_at) if started_at else ""
        arguments = (instance_id, machine, started, given(generation), *in_call(call), given(move))
        return self._one(self._run("confirm", dry_run, *arguments))

    def release(
        self,
        instance_id: str,
        *,
        machine: str = "",
        generation: int | None = None,
        call: Call = NO_QUERY,
        dry_run: bool = False,
    ) -> Transition:
        """End an instance or give a reservation back."""
        arguments = (instance_id, machine, given(generation), *in_call(call))
        return self._one(self._run("release", dry_run, *arguments))

    def update(
        self,
        changes: Sequence[Change],
        *,
        generation: int | None = None,
        expected_change: int = -1,
        call: Call = NO_QUERY,
        dry_run: bool = False,
    ) -> Transition:
        """Move, resize or change the role of confirmed instances, all or none; ``generation`` is the first one's.

        They are moved at once. A moving instance stays so: each of its candidates, both its machines, must have room.
        """
        arguments: list[str | bytes | float] = []
        for change in changes:
            tail, there, moving = b"", b"", change.old.moving
            if change.new is not change.old:
                tail = record_tail(change.new)
                if moving is not None and moving.new is not None:
                    there = record_tail(with_arrival(copy_with(change.new, moving=moving)))
            candidates = candidates_in_script(change.new, change.candidates)
            arguments += [change.old.id, change.old.version, tail, there, candidates]
        return self._update("change", 0.0, changes, arguments, generation, expected_change, call, dry_run)

    def begin_move(
        self,
        old: Instance,
        candidates: Sequence[Candidate],
        lasts_s: float,
        *,
        new: Instance | None = None,
        generation: int | None = None,
        expected_change: int = -1,
        call: Call = NO_QUERY,
        dry_run: bool = False,
    ) -> Transition:
        """Begin a move: until `confirm`, or for ``lasts_s``, an instance also holds the first candidate with room.

        ``old``: the record as it was read; the outcome is ``stale`` when it has changed since.
        ``new``: the record on the target, when the move changes amounts, limits, expected use or rules.
        """
        there = b"" if new is None else record_tail(new)
        arguments = (old.id, old.version, b"", there, candidates_in_script(new or old, candidates))
        change = Change(old, old, candidates)
        return self._update(
            "begin", max(lasts_s, 1e-6), [change], arguments, generation, expected_change, call, dry_run
        )

    def cancel_move(
        self, old: Instance, *, generation: int | None = None, call: Call = NO_QUERY, dry_run: bool = False
    ) -> Transition:
        """End a move: the instance stays where it is, and the machine that it was to move to is freed."""
        arguments = (old.id, old.version, b"", b"", b"")
        return self._update("cancel", 0.0, [Change(old, old, [])], arguments, generation, -1, call, dry_run)

    def _update(
        self,
        what: Literal["change", "begin", "cancel"],
        lasts_s: float,
        changes: Sequence[Change],
        arguments: Sequence[str | bytes | float],
        generation: int | None,
        expected_change: int,
        call: Call,
        dry_run: bool,
    ) -> Transition:
        asked = (*in_call(call), given(generation), expected_change, what, repr(lasts_s))
        result = self._run("update", dry_run, *asked, *arguments)
        if result[3][0] == "conflict":
            _, number, reasons, *first = result[3]
            candidates = changes[int(number) - 1].candidates[int(first[0]) - 1 if first else 0 :]
            return self._transition(result, [Outcome("conflict", reasons=reasons_in_words(reasons, candidates))])
        return self._one(result)

    def expire(self, most: int = 1000) -> Transition:
        """Expire at most ``most`` reservations and moves that are due; ``count`` of the result says how many were."""
        result = self._run("expire", False, most)
        transition = self._transition(result, [])
        return Transition(transition.epoch, transition.before, transition.changes, [], result[3])

    def correct(self, found: Sequence[Instance], gone: Sequence[str] = (), *, dry_run: bool = False) -> Transition:
        """Write the instances of an inventory without comparing limits, and end the instances ``gone``."""
        arguments: list[str | bytes | float] = []
        for instance in found:
            arguments += ["set", instance.id, instance.machine, record_tail(instance)]
        for instance_id in gone:
            arguments += ["end", instance_id, "", ""]
        result = self._run("correct", dry_run, *arguments)
        return self._transition(result, [Outcome(kind) for kind in result[3]])

    def lease(self, name: str, holder: str, lasts_s: float) -> tuple[int | None, str]:
        """Take or renew a lease, or give it up (0 s); return its number, or None and the name of its holder."""
        kind, what = self._run("lease", False, name, holder, lasts_s)[3]
        return (int(what), holder) if kind == "held" else (None, what)

    def repair(self, number: int, wrong: Difference) -> str:
        """Replace the sums of a machine or cluster, or write an instance again (repair.lua); return the result."""
        some = ("", 0) if wrong.instance is None else (wrong.instance.id, wrong.instance.version)
        arguments: list[str | bytes | float] = [
            number,
            wrong.kind,
            wrong.name,
            wrong.row,
            wrong.sums,
            wrong.members,
            *some,
        ]
        for count in wrong.counts:
            arguments += count
        return self._run("repair", False, *arguments)[3]  # type: ignore[no-any-return]

    def rename(self, old: str, new: str, version: int, ids: Sequence[str]) -> bool:
        """Give a machine another name in the records of all instances that are on it or move to it.

        Returns False, and changes nothing, when the machine is not as ``version`` and ``ids`` say.
        ``version``: of the row as it was read before its instances, 0 without one.
        """
        return bool(self._run("rename", False, old, new, version, *ids)[3] == "done")

    def _one(self, result: list[Any]) -> Transition:
        kind, *rest = result[3]
        if kind in ("unknown", "stale", "gone", "late"):
            return self._transition(result, [Outcome(kind)])
        changes = _changes(result)
        return self._transition(result, [Outcome(kind, _record(one, changes)) for one in rest], changes)


def _changes(result: list[Any]) -> list[Instance]:
    return [read_record(text) for text in result[2]]


def _record(shown: int | str, changes: Sequence[Instance]) -> Instance:
    """Return a result's record: one of the changes by its number, or what its text says."""
    return changes[shown - 1] if isinstance(shown, int) else read_record(shown)
