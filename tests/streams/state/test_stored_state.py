"""What is written of a partition is read again as it was; of another write than its position's, nothing is believed."""

import pytest

from schemas.names import Names
from streams.fold.peaks import Zone
from streams.fold.ring import HOURS, S
from streams.fold.table import Table
from streams.state.partition import Partition, Written
from streams.state.resume import Stored
from streams.state.stored_state import STATE_FIELDS, partition_of, queue_writes
from tests.streams.batches import START
from tests.streams.state.test_checkpoint import assert_same
from tests.streams.state.test_partition import log_of

NAMES = Names("x")


class Pipe(dict):
    """The keys that the queued commands leave."""

    def set(self, key, value, ex):
        self[key] = value

    def hset(self, key, mapping):
        raw = {name: value if isinstance(value, bytes) else str(value).encode() for name, value in mapping.items()}
        self[key] = self.get(key, {}) | raw

    def delete(self, *keys):
        for key in keys:
            self.pop(key, None)

    def expire(self, *_):
        """Nothing expires here."""

    exists = expire


@pytest.fixture
def written():
    """A partition of some messages, and what is stored of it: the fields of its state, and the values."""
    partition, pipe = Partition(0, Table((300, 900, 3600), Zone())), Pipe()
    partition.topic_id = "t1"
    partition.take(log_of(120, 1))
    partition.fold_pending(None)
    partition.refresh_table()
    queue_writes(pipe, NAMES, partition, START + 900.25, "1.0")
    values = Stored(
        pipe[NAMES.vitals(0)],
        {position: pipe.get(NAMES.slots(0, position)) for position in range(S)},
        {place: pipe.get(NAMES.peaks(0, place)) for place in range(HOURS)},
        {name.encode(): value for name, value in pipe[NAMES.facts(0)].items()},
    )
    return partition, pipe[NAMES.state(0)], values


def read(state, values):
    return partition_of(
        Partition(0, Table((300, 900, 3600), Zone())), [state.get(name) for name in STATE_FIELDS], values
    )


def test_what_was_written_is_read_as_it_was(written):
    partition, state, values = written
    found = read(state, values)
    assert not found.lost
    assert_same(found.ring, partition.ring)
    assert found.facts == partition.facts
    assert (found.written, found.resume_until) == (Written("t1", 120, partition.write_number), 120)
    assert found.facts_version == partition.facts_version + 1
    assert not found.changed


@pytest.mark.parametrize("another", [
    {"written_at": None}, {"written_at": b"a while ago"}, {"written_at": b"1.5"}, {"topic_id": b"t2"}, {"offset": b"7"},
    {"offset": b"-1"}, {"manifest": None}, {"manifest": b"{"},
])  # fmt: skip
def test_a_manifest_of_another_write_is_not_believed(written, another):
    """All is read again from the start of the log."""
    _, state, values = written
    found = read(state | another, values)
    assert found.lost["state"] == 1
    assert found.next_offset == 0
    assert found.changed
