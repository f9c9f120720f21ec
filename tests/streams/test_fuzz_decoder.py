"""Mutated messages through decoder and fold, at a size for every run; half a million in the long one.

Good messages of a small fleet are changed in every way a broken agent, a bad link or a hostile one might: bits and
bytes, values and types, depth and repetition, times and names. They go through a `Partition` in batches, as a worker's
would, and its table and checkpoint are written and read again now and then. What must hold, whatever comes:

- nothing is raised, and no number becomes invalid (numpy's warnings are errors here);
- every message is counted exactly once, as accepted, duplicate, late, facts or rejected with a known reason;
- what is refused is kept as it came, with its place;
- the untouched messages of one more machine give exactly the windows that it has alone.
"""

import random
import warnings
from collections import Counter

import numpy as np
import pytest

from schemas.messages.sample import encode
from schemas.tables.window_table import decode_table
from streams.fold import admission
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.ring import HOURS, S
from streams.fold.table import Table
from streams.state.checkpoint import encode_hour, encode_position, encode_vitals
from streams.state.partition import Partition, drop_silent
from tests.effort import effort
from tests.streams.batches import START, sample
from tests.streams.golden_values import decode_ring
from tests.support.mutated import in_bytes

WINDOWS = (300, 900, 3600)
REASONS = frozenset(admission.REASONS) - {"key", "machines", "record-time"}
"""What is refused of messages without a key, where a partition has room and no clock is asked."""
OUTCOMES = frozenset(("accepted", "duplicate", "late", "facts"))
BATCH = 500
WITNESS = "witness"
"""The machine whose messages nobody touches."""

PLAIN = r"""
null true false 0 -0 -1 -1e-300 1e-320 1e16 4000000000 1e34 1e308 1e309 -1e999 65535 65536 4294967295 4294967296
9223372036854775807 18446744073709551616 NaN Infinity -Infinity 1790000000000 "" "1" "\ud800" "\ud83d\ude80"
"\u0000" "a\nb" [] {} [[[[]]]] {"n":1} {"n":1,"mean":1,"m2":0,"max":1,"capacity":1}
{"n":65535,"mean":1e16,"m2":1e34,"max":1e16,"capacity":1e-300} {"prod":{"cpu":1e16},"spot":{"cpu":1},"":{}} 01
1. .5 +1 0x10 1e
"""
VALUES = (
    *PLAIN.encode().split(),
    b"1" + b"0" * 400,
    b"0." + b"0" * 300 + b"1",
    b'"\xf0\x9f\x9a\x80"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"' + b"m" * 254 + b'"',
)
FIELDS = (
    b"type v machine boot seq at interval_s cpu memory nic classes instances n mean m2 max capacity labels"
).split()


def value_span(raw, field):
    """Where a plain value of a field stands; None: not there."""
    start = raw.find(b'"' + field + b'":')
    if start < 0:
        return None
    start += len(field) + 3
    end = start
    while end < len(raw) and raw[end] not in b",}":
        end += 1
    return start, end


def other_value(rng, raw):
    """Give a field a value of another kind or size."""
    span = value_span(raw, rng.choice(FIELDS))
    return raw if span is None else raw[: span[0]] + rng.choice(VALUES) + raw[span[1] :]


def swap_values(rng, raw):
    spans = sorted(filter(None, (value_span(raw, field) for field in rng.sample(FIELDS, 2))))
    if len(spans) < 2 or spans[0][1] > spans[1][0]:
        return raw
    (a, b), (c, d) = spans
    return raw[:a] + raw[c:d] + raw[b:c] + raw[a:b] + raw[d:]


def repeat_field(rng, raw):
    """Give a field twice, with another value the second time."""
    return raw[:-1] + b',"' + rng.choice(FIELDS) + b'":' + rng.choice(VALUES) + b"}"


def drop_field(rng, raw):
    field = rng.choice(FIELDS)
    return raw.replace(b'"' + field + b'":', b'"x' + field + b'":', 1)


def nest(rng, raw):
    """Put a deep value into an unknown or a known field, or the message into lists."""
    depth = rng.choice((10, 500, 1100, 3000, 7000))
    kind = rng.randrange(4)
    if kind == 0:
        return b"[" * depth + raw + b"]" * depth
    if kind == 1:
        return raw[:-1] + b',"deep":' + b"[" * depth + b"]" * depth + b"}"
    if kind == 2:
        return raw[:-1] + b',"cpu":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    return b"{" * depth


def own_number(rng, raw):
    """Give a number field a number of any size."""
    span = value_span(
        raw, rng.choice((b"at", b"boot", b"seq", b"interval_s", b"n", b"mean", b"m2", b"max", b"capacity"))
    )
    number = rng.choice((rng.uniform(-10, 100), 10 ** rng.uniform(-320, 40), rng.randrange(2**66), -rng.random()))
    return raw if span is None else raw[: span[0]] + repr(number).encode() + raw[span[1] :]


def other_time(rng, raw):
    """Move the message in time: by seconds, hours, days, or to 1970."""
    span = value_span(raw, b"at")
    moved = START + rng.choice((0.0, 5.0, -3600.0, -86_400.0, -1e7, -1e9, -START, 1e4, 1e9)) + rng.uniform(0, 4000)
    return raw if span is None else raw[: span[0]] + repr(max(moved, 0.0)).encode() + raw[span[1] :]


def other_machine(rng, raw):
    """Take a name that is new, long, or not allowed."""
    span = value_span(raw, b"machine")
    name = rng.choice((f'"new{rng.randrange(300)}"', '"a b"', '""', '"*"', '"' + "n" * 253 + '"', '"a\\u0000"', '"ü"'))
    return raw if span is None else raw[: span[0]] + name.encode() + raw[span[1] :]


def garbage(rng, raw):
    return rng.randbytes(rng.randrange(1, len(raw) + 1))


def nothing(rng, raw):
    """No value, an empty one, blanks, or one too long."""
    return rng.choice((None, b"", b" ", b"\n\n", b"{}", b"null", raw + b" " * 17_000))


MUTATIONS = (
    *[in_bytes] * 5,
    other_value,
    swap_values,
    repeat_field,
    drop_field,
    nest,
    own_number,
    other_time,
    other_machine,
    garbage,
    nothing,
)


def good_message(rng, now):
    """A message as one of thirty machines would send it about now."""
    head = b'"v":1,"machine":"m%d","boot":5,"at":%.1f' % (rng.randrange(30), now - rng.expovariate(0.05))
    if rng.random() < 0.3:
        head += b',"host_id":"%d"' % (rng.random() < 0.1)
    if rng.random() < 0.1:
        return (
            b'{"type":"machine",%s,"capacity":{"cpu":4,"memory":1e10},"labels":{"zone":"a"},"agent_version":"1"}' % head
        )
    amounts = (rng.randrange(1, 11), mean := rng.random() * 64, rng.random(), mean + rng.random(), 64.0)
    one = b'{"n":%d,"mean":%.6f,"m2":%.6f,"max":%.6f,"capacity":%.1f}' % amounts
    parts = [b'"%s":%s' % (name, one) for name in (b"cpu", b"memory", b"nic") if rng.random() < 0.7] or [
        b'"cpu":' + one
    ]
    if rng.random() < 0.2:
        parts.append(b'"classes":{"prod":{"cpu":1,"memory":2},"batch":{"nic":3}},"instances":{"i":{"cpu":1}}')
    return b'{"type":"sample",%s,"seq":%d,"interval_s":10,%s}' % (head, rng.randrange(1000), b",".join(parts))


class Fuzz:
    """One run: a partition, the messages it got and what became of them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.zone = self.rng.choice(("UTC", "Asia/Kathmandu", "America/Havana"))
        self.state = Partition(0, Table(WINDOWS, Zone(self.zone)))
        self.counts = Counter()
        self.messages = 0
        self.witnessed = []

    def run(self, messages):
        """Send so many mutated messages, and a witness with each batch."""
        while self.messages < messages:
            now = START + 4005.0 + self.messages / 100
            batch = [
                Arrived(self.messages + i, self._mutate(now), now, b"")
                for i in range(min(BATCH, messages - self.messages))
            ]
            witness = sample(WITNESS, int((now - START) // 10) - 1, seq=self.messages)
            self.witnessed.append(Arrived(self.messages, encode(witness), now, b""))
            batch[self.rng.randrange(len(batch))] = self.witnessed[-1]
            self.messages += len(batch)
            self._fold(batch)
            if self.rng.random() < 0.05:
                self._write()
            if self.rng.random() < 0.01:
                drop_silent(self.state, now, 7200)
        self._write()

    def _mutate(self, now):
        raw = good_message(self.rng, now)
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3))):
            if not raw:
                return raw
            raw = self.rng.choice(MUTATIONS)(self.rng, raw)
        return raw

    def _fold(self, batch):
        outcome = self.state.fold(batch)
        total = sum(outcome.counts.values())
        assert total == len(batch), (total, len(batch), outcome.counts)
        for name, count in outcome.counts.items():
            what, _, reason = name.partition(":")
            assert count >= 0, outcome.counts
            assert reason in REASONS if what == "rejected" else what in OUTCOMES, name
        assert sum(c for n, c in outcome.counts.items() if n.startswith("rejected")) == len(outcome.refused)
        for message, refused in outcome.refused:
            assert batch[refused.index] is message
        self.counts.update(outcome.counts)

    def _write(self):
        """Write table and checkpoint, read them again, and look for numbers that mean nothing."""
        self.state.refresh_table()
        table = decode_table(self.state.table.encode(self.state.ring, {}))
        assert table.machines == self.state.ring.machines
        for name, column in table.columns.items():
            assert not np.isinf(column).any() if column.dtype.kind == "f" else True, name
        statistics = [table.columns[name] for name in ("mean", "std", "max")]
        for column in statistics:
            assert not (column < 0).any()
            np.testing.assert_array_equal(np.isnan(column), table.columns["filled"] == 0)
        ring = self.state.ring
        again = decode_ring(
            encode_vitals(ring),
            {p: encode_position(ring, p) for p in range(S)},
            {h: encode_hour(ring, h) for h in range(HOURS)},
        )
        for name in ("head", "at", "n", "mean", "m2", "max", "peak", "minute", "slot_seq"):
            np.testing.assert_array_equal(getattr(again, name)[: len(ring)], getattr(ring, name)[: len(ring)], name)

    def check_witness(self):
        """Compare the untouched machine's windows with those it has in a partition of its own."""
        alone = Partition(0, Table(WINDOWS, Zone(self.zone)))
        for message in self.witnessed:
            alone.fold([message])
        alone.refresh_table()
        row = self.state.ring.row[WITNESS]
        for name, column in alone.table.columns.items():
            np.testing.assert_array_equal(self.state.table.columns[name][..., row], column[..., 0], err_msg=name)


def fuzz(messages, seed=1):
    """Run, and return the counts; raises AssertionError for what does not hold, and whatever the fold raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = Fuzz(seed)
        run.run(messages)
        run.check_witness()
    counted = sum(run.counts.values())
    assert counted == messages, (counted, messages)
    return {"messages": messages, "counted": counted, "counts": dict(run.counts)}


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_every_mutated_message_is_counted_once_and_nothing_breaks(seed):
    """No crash; each message is accepted, duplicate, late, facts or rejected with a reason; all reasons occur."""
    messages = effort(10_000, 500_000)
    result = fuzz(messages, seed)
    assert result["counted"] == result["messages"] == messages
    seen = {name.partition(":")[2] for name in result["counts"] if name.startswith("rejected")}
    assert seen == REASONS
    assert min(result["counts"][name] for name in ("accepted", "duplicate", "late", "facts")) > 100
