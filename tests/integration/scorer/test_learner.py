"""One scorer learns for all: factors and predicted peaks, what it writes, when, and who may. On a real server."""

import logging

import msgspec
import numpy as np
import pytest

from ops.cli import main as cli
from schemas.resources import CPU, RESOURCES
from schemas.rpc.request import Request
from schemas.tables.instance_table import pair_name
from schemas.tables.learned import Learned, read_learned
from schemas.tables.window_table import Header, decode_table, encode_table
from scorer.background.learner import Learner, Predictor
from scorer.classes.prediction import Histograms, Peaks
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.live.loader import Loader
from scorer.metrics import Metrics
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.settings import ScorerSettings
from scorer.snapshot.usages import Usages, UsageTable
from tests.integration.ledger.test_ledger import follower_of
from tests.scorer.fleets import fleet, machine

START_S, HOUR_S = 1_800_000_000, 3600
MACHINES = tuple(f"m{number}" for number in range(6))
FACTOR, BASE = 0.5, 3.0
"""Instances use half of what they ask, on machines that carry three cores of other load."""


class Fleet:
    """Instances in a ledger, at a time of ours, and the windows of machines that run them."""

    def __init__(self, ledger, wire, clock):
        self.ledger, self.wire, self.clock = ledger, wire, clock
        self.now_s, self.asked = float(START_S), dict.fromkeys(MACHINES, 0.0)

    def at(self, now_s):
        self.now_s = now_s
        self.wire.one("SET", self.clock, int(now_s))

    def run(self, machine_name, count):
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

    def snapshot(self):
        usage = {name: {"cpu": BASE + FACTOR * asked, "memory": 0} for name, asked in self.asked.items()}
        hosts = [machine(name, cpu=200.0, usage=used) for name, used in usage.items()]
        return fleet(*hosts, now=self.now_s, windows_s=[HOUR_S]).snapshot


@pytest.fixture
def running(wire, names):
    """Six machines with 20 instances each, for two hours."""
    clock = names.key("clock")
    running = Fleet(Ledger(wire, names, time_source=f"{{redis.call('GET', '{clock}'), '0'}}"), wire, clock)
    running.at(START_S)
    for name in MACHINES:
        running.run(name, 20)
    running.at(START_S + 2 * HOUR_S)
    return running


def learner(running, wire, names, scorer, *, reports=False):
    """Return a learner of that scorer, not started: the test says when it looks; with reports agents send them."""
    settings = ScorerSettings(prefix=names.prefix, name=scorer, learn_s=60.0)
    known = reports_of(running) if reports else None

    def snapshot():
        return running.snapshot().with_use(None, known)

    return Learner(running.ledger, wire, snapshot, load_profiles().choose, Metrics(), settings)


def reports_of(running):
    """Return an hour of reports: each instance uses a quarter of a core."""
    follower = follower_of(running.ledger)
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
    return Usages([UsageTable(decode_table(encode_table(header, columns, pairs)))])


def test_without_reports_of_instances_no_factor_is_learned(running, wire, names):
    one = learner(running, wire, names, "s1")
    for hour in range(1, 4):
        for number, name in enumerate(MACHINES):
            running.run(name, 5 * number + 5)
        running.at(running.now_s + 2 * HOUR_S)
        learned = one.look(running.now_s)
        assert learned is None or not learned.factors, hour


def test_what_became_of_stated_chances_is_written_after_a_window(valkey, running, wire, names, capsys):
    one = learner(running, wire, names, "s1")
    assert one.look(running.now_s) is None
    running.at(running.now_s + HOUR_S)
    learned = one.look(running.now_s)
    cpu = learned.chances.bins["cpu"]
    assert [each.cases for each in cpu if each.cases] == [len(MACHINES)]
    assert sum(each.observed for each in cpu) == 0
    assert read_learned(wire.one("GET", names.learned)) == learned
    assert cli.main(["learned", "--redis-url", valkey.url, "--prefix", names.prefix]) == 0
    assert "cpu above 80% in the next half hour" in capsys.readouterr().out


def test_reports_of_instances_teach_at_the_first_look(valkey, running, wire, names, capsys):
    """No window has to pass; the next look goes on from the value, and the command shows kinds."""
    where = ["--redis-url", valkey.url, "--prefix", names.prefix]
    assert cli.main(["learned", *where]) == 1
    assert "nothing is learned yet" in capsys.readouterr().out
    one = learner(running, wire, names, "s1", reports=True)
    learned = one.look(running.now_s)
    assert (learned.scorer, learned.version) == ("s1", 1)
    assert learned.factors == {"cpu": pytest.approx(0.25)}
    assert learned.instances[""] == {"cpu": 120}
    assert read_learned(wire.one("GET", names.learned)) == learned
    again = one.look(running.now_s + 61)
    assert again.uses[""]["cpu"].time == pytest.approx(120 * (3600 + 61), rel=1e-3)
    assert cli.main(["learned", *where]) == 0
    shown = capsys.readouterr().out
    assert "0.25 ± 0.00" in shown
    assert "by s1" in shown


def test_one_scorer_learns_and_the_next_goes_on_from_its_value(running, wire, names):
    """A scorer without the lease learns nothing; it begins when the lease has run out, and adds to what is written."""
    wire.one("SET", names.learned, msgspec.json.encode(Learned(version=7)))
    first, second = (learner(running, wire, names, name, reports=True) for name in ("s1", "s2"))
    written = first.look(running.now_s)
    assert (written.scorer, written.version) == ("s1", 8)
    running.at(running.now_s + 60)
    assert second.look(running.now_s) is None
    running.at(running.now_s + 240)
    written = second.look(running.now_s)
    assert (written.scorer, written.version) == ("s2", 9)
    assert first.look(running.now_s) is None
    assert first._follower is None


PEAKS_START_S, LOOK_S = 1_800_000_000.0, 300.0


def seen(now_s, prod):
    """A machine of 10 cores: prod uses so much, one that nobody measures asks for a core, the system uses a half."""
    instances = [
        {"id": "p", "machine": "m", "cpu": 8, "usage": {"cpu": prod, "memory": 10}},
        {"id": "q", "machine": "m", "cpu": 1},
        {"id": "b", "machine": "m", "cpu": 2, "priority_class": "batch", "usage": {"cpu": 2, "memory": 10}},
    ]
    there = machine("m", usage={"cpu": 8, "memory": 30}, system={"cpu": 0.5, "memory": 5})
    return fleet(there, instances=instances, now=now_s)


def test_peaks_survive_the_scorer_that_learned_them(wire, names):
    """Every second look is another scorer's; after a day the loader of any scorer has the peaks of it."""
    loader = Loader(wire, names)
    assert loader.refresh(["m"]).predicted is None
    one, other = Predictor(wire, names), Predictor(wire, names)
    for number in range(2 * 288 + 1):
        if number % 24 == 0:
            one, other = other, one
            one.forget()
        now_s = PEAKS_START_S + number * LOOK_S
        offline = seen(now_s, prod=6.0 if number % 10 == 0 else 3.0)
        one.look(offline.snapshot, offline.ledger, now_s)
    snapshot = loader.refresh(["m"])
    roster = snapshot.roster
    assert roster.names == ("m",)
    found = Peaks(snapshot.predicted).of(roster, np.array([now_s]))[:, :, 0]
    assert found == pytest.approx(np.array([[0.7, 0.1], [0.05, 0.05]]), rel=0.06)
    assert loader.refresh(["m"]) is None


def test_what_is_learned_is_written_every_five_minutes(wire, names):
    """Looks between add to what the next write has: a minute of a peak in five is a fifth of the samples."""
    predictor = Predictor(wire, names)
    for minute in range(11):
        offline = seen(PEAKS_START_S + 60 * minute, prod=3.0)
        predictor.look(offline.snapshot, offline.ledger, PEAKS_START_S + 60 * minute)
        written = Histograms.restored(wire.one("GET", names.predicted_histograms))
        assert written.at.tolist() == [PEAKS_START_S + 300 * (minute // 5)]
    assert written.weights[0, 0].sum() == pytest.approx(11, rel=0.02)


def test_a_value_that_may_not_be_read_stops_nothing(wire, names, caplog):
    """It is logged once, and what learns beside it goes on."""
    wire.one("HSET", names.predicted_histograms, "of", "another type")
    offline = seen(PEAKS_START_S, 3.0)
    predictor = Predictor(wire, names)
    with caplog.at_level(logging.WARNING, "windward.scorer"):  # a command that ran here may have left another level
        for _ in range(2):
            predictor.look(offline.snapshot, offline.ledger, PEAKS_START_S)
    assert [record.message for record in caplog.records] == ["scorer.predict.refused"]
    wire.one("DEL", names.predicted_histograms)
    predictor.look(offline.snapshot, offline.ledger, PEAKS_START_S)
    assert Histograms.restored(wire.one("GET", names.predicted_histograms)).names == ["m"]


def test_without_usage_by_instance_nothing_is_written(wire, names):
    """Fleets whose agents do not report it pay nothing."""
    offline = fleet(machine("m", usage={"cpu": 8, "memory": 30}))
    Predictor(wire, names).look(offline.snapshot, offline.ledger, PEAKS_START_S)
    assert wire.one("EXISTS", names.predicted, names.predicted_histograms) == 0
