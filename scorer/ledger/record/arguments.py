"""Arguments of the scripts as they are sent, and the reasons that the scripts return, in words."""

from collections.abc import Sequence

import msgspec

from scorer.ledger.record.instance import Instance, copy_with, read_record, record_tail
from scorer.ledger.record.limits import Measure, Scale, measures_in_script, mosts_in_script, scales_in_script
from scorer.ledger.record.transition import ALL_OR_NONE, CHANGED, Call, Candidate, Wanted

_packed = msgspec.msgpack.Encoder().encode


def in_call(call: Call) -> tuple[str, str]:
    """Return the query's id and deadline."""
    return call.query, repr(float(call.deadline))


def given(generation: int | None) -> str:
    """Return a generation as the scripts read it: "" for None, the live generation, whichever it is."""
    return "" if generation is None else str(generation)


class Offers:
    """Candidates in the form of ledger.lua: limited measures, and machines with their limits."""

    def __init__(self) -> None:
        self.measures: list[list[str | int]] = []
        self.candidates: list[tuple[str | int, ...]] = []
        self._of: Instance | None = None
        self._on: list[Measure] | None = None
        self._scales: list[Scale] = []

    def number(self, instance: Instance, candidate: Candidate) -> int:
        """Add a candidate of an instance; return its number."""
        machine, version, limits = candidate
        on = [limit[0] for limit in limits]
        if instance is not self._of or on != self._on:
            measures = measures_in_script(instance, limits)
            self._of, self._on, self._scales = instance, on, scales_in_script(measures)
            self.measures.append([field for measure in measures for field in _in_script(measure)])
        self.candidates.append((machine, version, len(self.measures), *mosts_in_script(limits, self._scales)))
        return len(self.candidates)


def candidates_in_script(instance: Instance, candidates: Sequence[Candidate]) -> bytes:
    offers = Offers()
    for one in candidates:
        offers.number(instance, one)
    return _packed((offers.measures, offers.candidates))


class Batch:
    """Instances to reserve, packed for the script: a shared instance, candidate or call is sent once."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self.tails: list[str] = []
        """The record's tail of each kind, without id and request."""
        self.kind_of: list[int] = []
        """The kind of each instance, from 1."""
        self._kinds: list[tuple[float, str]] = []
        offers = Offers()
        calls: dict[Call, int] = {}
        kinds: dict[tuple[int, float], int] = {}
        numbers: dict[tuple[int, int], int] = {}
        """The number of an instance's candidates, by their addresses: all of them are still in ``wanted``."""
        requests: dict[str, int] = {}
        ids: list[str] = []
        request_of: list[int] = []
        call_of: list[int] = []
        offered: list[int | list[int]] = []
        for one in wanted:
            instance, ttl_s, candidates, call, _, _ = one
            own_id, digest = one.own
            ids.append(own_id)
            request_of.append(requests.setdefault(digest, len(requests) + 1))
            kind = kinds.get((id(instance), ttl_s)) or kinds.setdefault(
                (id(instance), ttl_s), self._kind(instance, ttl_s)
            )
            self.kind_of.append(kind)
            call_of.append(calls.setdefault(call, len(calls) + 1))
            own = []
            for candidate in candidates:
                key = id(instance), id(candidate)
                number = numbers.get(key)
                if number is None:
                    number = numbers[key] = offers.number(instance, candidate)
                own.append(number)
            offered.append(own[0] if len(own) == 1 else own)
        shared = (self._kinds, list(requests), list(calls), offers.measures, offers.candidates)
        self.packed = _packed((ids, self.kind_of, request_of, call_of, offered, *shared))

    def reserved(self, kind: int, reserved_at: float, expires_at: float) -> Instance:
        """Return the record of an instance of this kind, without id, request, machine and version."""
        record = read_record(f'{{"id":"","machine":"","state":"reserved",{self.tails[kind - 1]}}}')
        return copy_with(record, reserved_at=reserved_at, expires_at=expires_at)

    def _kind(self, instance: Instance, ttl_s: float) -> int:
        self.tails.append(record_tail(instance, own=False).decode())
        self._kinds.append((float(ttl_s), self.tails[-1]))
        return len(self._kinds)


def _in_script(measure: tuple[str | int, ...]) -> tuple[str | int, str | int, str | int]:
    """Return the instance's contribution to a measure, its name, and its scope: 0 for all classes, 1 for a count.

    >>> _in_script((500, "total", "cpu", "batch", "free")), _in_script((1, "count", "port 6379"))
    ((500, 'cpu', 'batch free'), (1, 'port 6379', 1))
    """
    added, kind, name, *classes = measure
    return added, name, 1 if kind == "count" else " ".join(map(str, classes)) or 0


def reasons_in_words(words: str, candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the script's reasons in words, one for each candidate that it tried, in order.

    >>> from scorer.ledger.record.limits import Limit, total
    >>> there = Candidate("a", 1, [Limit(total("cpu"), 1.0, "cpu full"), Limit(total("nic"), 1.0, "nic full")])
    >>> reasons_in_words("changed,2,1", [there, there, there, there])
    ('changed', 'nic full', 'cpu full')
    """
    if not words:
        return ()
    if words == ALL_OR_NONE:
        return (ALL_OR_NONE,)
    return tuple(
        reason if reason == CHANGED else one.limits[int(reason) - 1].reason
        for reason, one in zip(words.split(","), candidates, strict=False)
    )
