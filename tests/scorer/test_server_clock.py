"""The server's time on a host whose clock is wrong, stands still, or is set."""

import logging
from types import SimpleNamespace

from schemas.names import Names
from scorer.metrics import Metrics
from scorer.rpc.parts import Heartbeat
from scorer.settings import ScorerSettings
from scorer.wire import ServerClock


class Server:
    """A server, a host 10 s ahead of it, and the time that a question takes."""

    def __init__(self):
        self.now_s, self.ahead_s, self.takes_s, self.monotonic_s = 1000.0, 10.0, 0.0, 5.0

    def one(self, *_):
        asked_s = self.now_s
        self.passes(self.takes_s)
        return int(asked_s), round(asked_s % 1 * 1e6)

    def ask(self, commands):
        return [None for _ in commands]

    def passes(self, seconds):
        self.now_s += seconds
        self.monotonic_s += seconds

    def clock(self):
        return ServerClock(lambda: self.now_s + self.ahead_s, lambda: self.monotonic_s)


def test_the_time_is_the_servers():
    """Until the first reading the host's; then the server's, whatever the host's clock does; never ahead of it."""
    server = Server()
    clock, wire = server.clock(), server
    assert clock() == 1010.0
    assert clock.read(wire) == clock() == 1000.0
    assert clock.ahead_s == 10.0
    server.ahead_s = -50.0
    server.passes(7.0)
    assert clock() == 1007.0
    server.takes_s = 0.125
    clock.read(wire)
    assert clock() == server.now_s - 0.125
    server.takes_s = 60.0
    clock.read(wire)  # it stood still: not used
    assert clock() == server.now_s - 0.125


def test_a_ledgers_own_server_may_have_another_time():
    server, ledger = Server(), SimpleNamespace(one=lambda *_: (990, 0))
    clock = server.clock()
    clock.read(server)
    clock.read_ledger(ledger)
    assert (clock.on_ledger(1005.0), clock.on_ledger(0.0)) == (995.0, 0.0)


def test_a_clock_that_is_off_is_said_once(caplog):
    server, metrics = Server(), Metrics()
    where = "scorer", Names("s"), {"url": "redis://127.0.0.1:1"}
    heartbeat = Heartbeat(server, metrics, ScorerSettings(name="s"), server.clock(), *where)
    with caplog.at_level(logging.WARNING, "windward.scorer"):  # a command that ran here may have left another level
        for server.ahead_s, told in ((0.5, 0.5), (10.0, 10.0), (9.0, 9.0), (0.0, 0.0)):
            heartbeat._read_clock()
            assert metrics.clock_ahead._value.get() == told
    assert [record.getMessage() for record in caplog.records] == ["process.clock.off", "process.clock.right"]
