"""The running fleet as a process beside the scorer reads it: windows and ledger together, anew after a failure."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from schemas.names import Names
from schemas.rpc.request import Request
from scorer.ledger.record.transition import FORMAT, UnknownFormat
from scorer.ledger.store.scripts import Candidate, Ledger, Wanted
from scorer.ledger.view.view import instance_of
from scorer.live.live_fleet import LiveFleet
from scorer.settings import LedgerSettings
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.window_tables import publish, window_table


@pytest.fixture
def fleet(valkey: Valkey, names: Names) -> Iterator[LiveFleet]:
    """Return the fleet of a server, over connections of its own."""
    found = LiveFleet.open(LedgerSettings(redis_url=valkey.url, prefix=names.prefix))
    yield found
    found.close()


def reserve(wire: Wire, names: Names, instance: str, machine: str) -> None:
    """Have an instance on a machine."""
    record = instance_of(Request(id=instance, cpu=1.0), "", time.time())
    Ledger(wire, names).reserve([Wanted(record, 300.0, [Candidate(machine, -1)])])


def test_windows_and_ledger_are_read_together(wire: Wire, names: Names, fleet: LiveFleet) -> None:
    """Empty at first; then as of now, with a row for a machine that the ledger alone knows; unchanged ones are kept."""
    empty = fleet.read(now_s=5.0)
    assert (len(empty.snapshot), len(empty.ledger), empty.now_s) == (0, 0, 5.0)
    publish(wire, names, [window_table(["m1"], at=time.time())])
    reserve(wire, names, "a", "m2")
    seen = fleet.read()
    assert [*seen.snapshot.names] == ["m1", "m2"]
    assert [*seen.ledger.instances] == ["a"]
    assert abs(seen.now_s - time.time()) < 60
    assert fleet.read().snapshot is seen.snapshot


@pytest.mark.parametrize("part", ["ledger", "windows"])
def test_after_a_failure_the_ledger_is_read_anew(
    wire: Wire, names: Names, fleet: LiveFleet, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Its server may have come back with another ledger of as many changes."""
    reserve(wire, names, "a", "m1")
    fleet.read()
    loads = fleet._follower.reloads
    fleet.read()
    assert fleet._follower.reloads == loads
    broken = fleet.ledger.wire if part == "ledger" else fleet.windows

    def away(*_: Any, **__: Any) -> Any:
        raise redis.ConnectionError("away")

    with monkeypatch.context() as patch, pytest.raises(redis.ConnectionError):
        patch.setattr(broken, "ask", away)
        fleet.read()
    assert [*fleet.read().ledger.instances] == ["a"]
    assert fleet._follower.reloads == loads + 1


def test_a_ledger_of_a_newer_format_is_not_read(wire: Wire, names: Names, fleet: LiveFleet) -> None:
    """Neither at first nor later; once it can be read again, it is."""
    reserve(wire, names, "a", "m1")
    head = Ledger(wire, names).head
    for seen in (False, True):
        if seen:
            fleet.read()
        wire.one("HSET", head, "format", FORMAT + 1)
        with pytest.raises(UnknownFormat):
            fleet.read()
        wire.one("HSET", head, "format", FORMAT)
        assert [*fleet.read().ledger.instances] == ["a"]
