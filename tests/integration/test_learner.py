"""One scorer learns for all: what it writes, when, and who may; ``windward learned`` shows it. On a real server."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from ops.cli import main as cli
from schemas.names import Names
from schemas.resources import CPU, RESOURCES
from schemas.rpc.request import Request
from schemas.tables.instance_table import pair_name
from schemas.tables.learned import Learned, read_learned
from schemas.tables.window_table import Header, decode_table, encode_table
from scorer.background.learner import Learner
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.metrics import Metrics
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.settings import ScorerSettings
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.usages import Usages, UsageTable
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.scorer.fleets import fleet, machine

pytestmark = pytest.mark.integration

START_S, HOUR_S = 1_800_000_000, 3600
MACHINES = tuple(f"m{number}" for number in range(6))
FACTOR, BASE = 0.5, 3.0
"""Instances use half of what they ask, on machines that carry three cores of other load."""


class Fleet:
    """Instances in a ledger, at a time of ours, and the windows of machines that run them."""

    def __init__(self, ledger: Ledger, wire: Wire, clock: str) -> None:
        self.ledger, self.wire, self.clock = ledger, wire, clock
        self.now_s, self.asked = float(START_S), dict.fromkeys(MACHINES, 0.0)

    def at(self, now_s: float) -> None:
        """Set the server's clock."""
        self.now_s = now_s
        self.wire.one("SET", self.clock, int(now_s))

    def run(self, machine_name: str, count: int) -> None:
        """Start instances of one core."""
        names = [f"{machine_name}-{int(self.now_s)}-{number}" for number in range(count)]
        self.ledger.reserve(
            [
                Wanted(instance_of(Request(id=one, cpu=1.0), "", 0.0), 300.0, [Candidate(machine_name, -1)])
                for one in names
            ]
        )
        for one in names:
            self.ledger.confirm(one)
        self.asked[machine_name] += count

    def snapshot(self) -> Snapshot:
        """Return the windows that end now."""
        usage = {name: {"cpu": BASE + FACTOR * asked, "memory": 0} for name, asked in self.asked.items()}
        hosts = [machine(name, cpu=200.0, usage=used) for name, used in usage.items()]
        return fleet(*hosts, now=self.now_s, windows_s=[HOUR_S]).snapshot


@pytest.fixture
def running(wire: Wire, names: Names) -> Fleet:
    """Six machines with 20 instances each, for two hours."""
    clock = names.key("clock")
    running = Fleet(Ledger(wire, names, time_source=f"{{redis.call('GET', '{clock}'), '0'}}"), wire, clock)
    running.at(START_S)
    for name in MACHINES:
        running.run(name, 20)
    running.at(START_S + 2 * HOUR_S)
    return running


def learner(running: Fleet, wire: Wire, names: Names, scorer: str) -> Learner:
    """Return a learner of that scorer, not started: the test says when it looks."""
    settings = ScorerSettings(prefix=names.prefix, name=scorer, learn_s=60.0)
    return Learner(running.ledger, wire, running.snapshot, load_profiles().choose, Metrics(), settings)


def test_what_instances_use_is_learned_after_one_window(running: Fleet, wire: Wire, names: Names) -> None:
    """No factor is written before a window has passed since the first look; then the factor, version and lease are."""
    one = learner(running, wire, names, "s1")
    assert one.look(running.now_s) is None
    for number, name in enumerate(MACHINES):
        running.run(name, 5 * number + 5)
    running.at(running.now_s + HOUR_S / 2)
    assert one.look(running.now_s) is None
    assert wire.one("GET", names.learned) is None
    running.at(running.now_s + 2 * HOUR_S)
    learned = one.look(running.now_s)
    assert learned is not None
    assert learned.factors == {"cpu": pytest.approx(FACTOR, abs=0.01)}
    assert (learned.scorer, learned.version) == ("s1", 1)
    assert read_learned(wire.one("GET", names.learned)) == learned


def test_what_became_of_stated_chances_is_written_after_a_window(
    valkey: Valkey, running: Fleet, wire: Wire, names: Names, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each machine is a case."""
    one = learner(running, wire, names, "s1")
    assert one.look(running.now_s) is None
    running.at(running.now_s + HOUR_S)
    learned = one.look(running.now_s)
    assert learned is not None
    assert learned.chances is not None
    cpu = learned.chances.bins["cpu"]
    assert [each.cases for each in cpu if each.cases] == [len(MACHINES)]
    assert sum(each.observed for each in cpu) == 0
    assert read_learned(wire.one("GET", names.learned)) == learned
    assert cli.main(["learned", "--redis-url", valkey.url, "--prefix", names.prefix]) == 0
    assert "cpu above 80% in the next half hour" in capsys.readouterr().out


def test_reports_of_instances_teach_at_the_first_look(
    valkey: Valkey, running: Fleet, wire: Wire, names: Names, capsys: pytest.CaptureFixture[str]
) -> None:
    """No window has to pass; the next look goes on from the value, and the command shows kinds."""
    follower = Follower(running.ledger)
    follower.poll()
    instances = follower.view.instances.values()
    count = len(instances)
    daily = np.full((len(RESOURCES), count), np.nan, "f4")
    daily[CPU] = 0.25
    columns = {
        "at": np.full(count, running.now_s),
        "since": np.full(count, running.now_s - HOUR_S, "u4"),
        "daily": daily,
    }
    header = Header(machines=count, windows_s=(), columns=[], resources=RESOURCES)
    pairs = "\n".join(pair_name(one.machine, one.id) for one in instances).encode()
    reports = Usages([UsageTable(decode_table(encode_table(header, columns, pairs)))])
    settings = ScorerSettings(prefix=names.prefix, name="s1", learn_s=60.0)
    one = Learner(
        running.ledger,
        wire,
        lambda: running.snapshot().with_use(None, reports),
        load_profiles().choose,
        Metrics(),
        settings,
    )
    learned = one.look(running.now_s)
    assert learned is not None
    assert learned.factors == {"cpu": pytest.approx(0.25)}
    assert learned.instances[""] == {"cpu": count}
    assert read_learned(wire.one("GET", names.learned)) == learned
    again = one.look(running.now_s + 61)
    assert again is not None
    assert again.uses[""]["cpu"].time == pytest.approx(count * (3600 + 61), rel=1e-3)
    assert cli.main(["learned", "--redis-url", valkey.url, "--prefix", names.prefix]) == 0
    assert "0.25 ± 0.00" in capsys.readouterr().out


def test_one_scorer_learns_and_the_next_goes_on_from_its_value(running: Fleet, wire: Wire, names: Names) -> None:
    """A scorer without the lease observes nothing; it begins when the lease has run out, and adds to the evidence."""
    wire.one("SET", names.learned, msgspec.json.encode(Learned(version=7, at=START_S)))
    first, second = learner(running, wire, names, "s1"), learner(running, wire, names, "s2")
    first.look(running.now_s)
    running.at(running.now_s + 60)
    assert second.look(running.now_s) is None
    assert second._first is None
    running.at(running.now_s + 240)
    second.look(running.now_s)
    assert second._first is not None
    running.at(running.now_s + 1.5 * HOUR_S)
    learned = second.look(running.now_s)
    assert learned is not None
    assert (learned.scorer, learned.version) == ("s2", 8)
    assert first.look(running.now_s) is None
    assert first._first is None


def test_the_command_shows_the_learned_part(
    valkey: Valkey, wire: Wire, names: Names, running: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """It exits with 1 while nothing is learned, and then prints the part, its error and the evidence."""
    where = ["--redis-url", valkey.url, "--prefix", names.prefix]
    assert cli.main(["learned", *where]) == 1
    assert "nothing is learned yet" in capsys.readouterr().out
    one = learner(running, wire, names, "s1")
    one.look(running.now_s)
    running.run(MACHINES[0], 10)
    running.run(MACHINES[1], 20)
    running.run(MACHINES[2], 30)
    running.at(running.now_s + 2 * HOUR_S)
    one.look(running.now_s)
    assert cli.main(["learned", *where]) == 0
    table = capsys.readouterr().out
    assert "cpu" in table
    assert "0.5" in table
    assert "by s1" in table
