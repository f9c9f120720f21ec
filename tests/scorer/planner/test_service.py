"""What a planner does between two queries: rounds, and drains that are due; on the connection of its loop."""

import logging
from types import SimpleNamespace

import msgspec
import pytest
import redis

from schemas.process.settings import SettingsError
from schemas.rpc.envelope import Query
from scorer.planner.__main__ import process
from scorer.planner.proposer import Metrics, Proposer
from scorer.planner.service import PlannerService
from scorer.planner.settings import PlannerSettings
from scorer.rpc import parts
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer


class Loop:
    def __init__(self):
        self.sent = []
        self.away = False

    def ask(self, commands):
        if self.away:
            raise redis.ConnectionError("lost")
        self.sent.append("arrived")
        return [None for _ in commands]

    def post(self, commands):
        self.sent += [command[0] for command in commands]


class Rounds:
    """Rounds of rebalancing that reach their servers, or do not."""

    well = True
    turns = 0

    def turn(self, now_s):
        self.turns += 1
        return 3600.0


class Due:
    """Drains that are due: one that is refused, then one that is done."""

    def due(self, now_s):
        given = [{"machines": ["a1"], "profile": "gone"}, {"machines": ["a1"]}]
        return [
            Query(
                id=f"d{number}", method="drain", deadline=9e9,
                params=msgspec.Raw(msgspec.json.encode({**one, "apply": True, "again": True})),
            )
            for number, one in enumerate(given)
        ]  # fmt: skip


def service(scorer, loop, rounds=None, due=None):
    """A planner beside a scorer, whose drains are due at once."""
    scorer.rules.wire, loop.one = loop, scorer.rules.one
    return PlannerService(PlannerSettings(name="p", drain_s=0.0), scorer.service.current, scorer.rules, rounds, due)


@pytest.fixture
def scorer():
    """Two machines, of which one is drained; an instance on it, which does not move yet."""
    scorer = Scorer(fleet(*(machine(name, usage={"cpu": 1, "memory": 5}) for name in ("a1", "a2"))))
    scorer.ask("place", id="i", cpu=0.5, memory=1, machine="a1")
    scorer.ask("confirm", id="i")
    scorer.ask("cordon", machines=["a1"], drain={"ttl_s": 60})
    return scorer


def test_a_round_waits_until_the_answers_have_arrived(scorer):
    """A round outlives a lost connection; the loop, which gives queries back, must hear of an earlier one."""
    loop, rounds = Loop(), Rounds()
    planner = service(scorer, loop, rounds)
    loop.away = True
    with pytest.raises(redis.ConnectionError):
        planner.between()
    assert rounds.turns == 0
    loop.away = False
    planner.between()
    assert (loop.sent, rounds.turns) == (["arrived"], 1)


@pytest.mark.parametrize("well", [True, False])
def test_after_a_lost_connection_the_ledger_is_read_again(scorer, well):
    """The server may have restarted with other data, and the round alone has noticed it: no drain is planned before."""
    rounds = Rounds()
    rounds.well = well
    service(scorer, Loop(), rounds, Due()).between()
    assert scorer.service.current.follower.loaded == well
    assert (scorer.service.current.ledger.instances["i"].moving is not None) == well


def test_without_rounds_and_drains_it_asks_nothing(scorer):
    loop = Loop()
    service(scorer, loop).between()
    assert loop.sent == []


def test_drains_that_are_due(scorer, caplog):
    """One that is refused is told, and keeps no other from its turn. What was decided is on the log at once."""
    loop = Loop()
    with caplog.at_level(logging.WARNING):
        service(scorer, loop, due=Due()).between()
    assert [record.message for record in caplog.records] == ["planner.drain.failed"]
    moving = scorer.service.current.ledger.instances["i"].moving
    assert moving.to == "a2"
    assert loop.sent == ["arrived", "XADD"]


def test_profiles_that_the_rounds_refuse_are_not_in_force(tmp_path, monkeypatch):
    """At SIGHUP all stays as it was, queries too: what is given for the rounds does not go with the new profile."""
    file = tmp_path / "mine.toml"
    made = []

    class Current(parts.Current):
        def __post_init__(self):
            super().__post_init__()
            made.append(self)

    monkeypatch.setattr(parts, "Current", Current)
    text = '[[filters]]\nuse = "cordon"\n[[scores]]\nuse = "balanced_allocation"\n[rebalance]\nlow = {{ cpu = {} }}\n'
    file.write_text(text.format(20))
    found = process(PlannerSettings(profiles=(file,), profile="mine", high={"cpu": 50.0}), {})
    assert found.read_again is not None
    before = made[0].profiles
    found.read_again()
    assert made[0].profiles.digest == before.digest
    file.write_text(text.format(60))
    with pytest.raises(SettingsError, match=r"low.cpu: expected at most 50"):
        found.read_again()
    assert made[0].profiles.digest == before.digest


@pytest.mark.parametrize(
    ("error", "well", "traced"),
    [
        (ZeroDivisionError(), True, True), (redis.ResponseError("WRONGTYPE"), True, False),
        (redis.ConnectionError("lost"), False, False),
    ],
)  # fmt: skip
def test_a_round_that_fails_ends_nothing(error, well, traced, caplog):
    """Whatever fails is counted and told, a fault of the program with its place; the planner goes on answering."""

    def fails():
        raise error

    caplog.clear()  # the rows share it
    settings, metrics = PlannerSettings(name="p", lease_s=30.0), Metrics()
    wire = SimpleNamespace(ask=lambda commands: [redis.ResponseError("NOPERM") for _ in commands])
    ledger = SimpleNamespace(wire=wire, lease=lambda *_: (1, "p"))
    queue = SimpleNamespace(read=fails)
    others = ledger, fails, queue, None, metrics
    proposer = Proposer(settings, *others)
    with caplog.at_level(logging.WARNING):
        assert proposer.turn(0.0) == 10.0
    assert (proposer.well, metrics.rounds.labels("failed")._value.get()) == (well, 1)
    assert [(one.message, bool(one.exc_info)) for one in caplog.records] == [("planner.round.failed", traced)]
