"""A local stack: when it is ready, what it says then, what is started again, and what ends first."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from ops.stack import up
from ops.stack.servers.process import LocalError, LocalProcess
from ops.stack.stack import BACKOFF_S_MAX, STEADY_S, Stack, Supervisor, backoff_s
from ops.stack.up import FleetState, UpSettings, announce, await_fleet, state_of
from schemas.process.settings import load_settings
from scorer.client import HealthResult, RankResult, Refusal


class Fake(LocalProcess):
    def __init__(self, name, events):
        super().__init__(name, [], log=Path(f"{name}.log"))
        self.events = events
        self.alive = True

    @property
    def running(self):
        return self.alive

    @property
    def exit_code(self):
        return None if self.alive else 1

    @property
    def pid(self):
        return 7

    def spawn(self):
        self.alive = True
        self.events.append(f"spawn {self.name}")
        return self

    def ask_to_stop(self):
        self.events.append(f"ask {self.name}")

    def stop(self):
        self.alive = False
        self.events.append(f"stop {self.name}")


def revived_at(supervisor, process, now_s):
    """Let the process end, watch ten times a second, return when it was started again."""
    process.alive = False
    while not process.alive:
        supervisor.watch(now_s)
        now_s += 0.1
        assert now_s < 10_000
    return now_s


def test_the_pause_doubles_while_a_process_ends_soon_and_is_short_again_after_a_steady_time():
    """1, 2, 4 seconds; after a minute of life 1 again."""
    said = []
    process = Fake("stream-1", [])
    supervisor = Supervisor(said.append)
    supervisor.add([process], 0.0)
    now = 0.0
    for pause in (1, 2, 4):
        back = revived_at(supervisor, process, now)
        assert back - now == pytest.approx(pause, abs=0.25)
        now = back
    later = now + STEADY_S + 1
    assert revived_at(supervisor, process, later) - later == pytest.approx(1, abs=0.25)
    assert said[0] == "stream-1 ended with 1; again in 1 s (stream-1.log)"
    assert said[1] == "stream-1 is started again, process 7"


def test_the_pause_has_a_bound():
    """A process that never comes up is tried twice a minute for ever."""
    assert backoff_s(10_000) == BACKOFF_S_MAX


def test_what_depends_on_others_ends_first_and_a_tier_ends_together():
    """The agent before the stream apps, these at once, the broker last."""
    events = []
    supervisor = Supervisor(lambda _: None)
    for tier in (["broker"], ["stream-1", "stream-2"], ["agent"]):
        supervisor.add([Fake(name, events) for name in tier], 0.0)
    supervisor.stop()
    assert events == [
        *("ask agent", "stop agent"),
        *("ask stream-1", "ask stream-2", "stop stream-1", "stop stream-2"),
        *("ask broker", "stop broker"),
    ]
    assert len(supervisor.dead) == 4


def health(**more):
    """Return a healthy answer about ten machines, with changes."""
    fields = {
        "ready": True, "scorer": "a", "version": "1", "uptime_s": 1.0, "machines": 10, "machines_with_data": 10,
        "newest_sample_age_s": 3.0, "windows_s": [300], "instances": 0, "ledger_change": 0, "profiles": [],
        "profile": "",
    }  # fmt: skip
    return HealthResult(**(fields | more))


def refused(**reasons):
    rows = [Refusal(filter="f", reason=reason.replace("_", " "), machines=count) for reason, count in reasons.items()]
    return RankResult(summary="no machine fits", refusals=rows)


@pytest.mark.parametrize(
    ("said", "rank", "recent", "unfit"),
    [
        pytest.param({}, RankResult(machine="m"), 10, "", id="all is well"),
        pytest.param({"degraded": "silent"}, RankResult(machine="m"), 0, "silent", id="old data count as none"),
        pytest.param({}, refused(stale=3, without_data=2), 5, "no machine fits", id="stale machines are not recent"),
        pytest.param({}, refused(limits=10), 10, "no machine fits", id="refused for another reason is recent"),
        pytest.param({"ledger_refusal": "f"}, RankResult(machine="m"), 10, "f", id="the ledger refuses"),
        pytest.param({"ledger_unaccepted": "e"}, RankResult(machine="m"), 10, "e", id="the ledger was emptied"),
    ],
)
def test_what_two_answers_tell(said, rank, recent, unfit):
    """Recent machines, the newest sample, and why nothing is placed."""
    assert state_of(health(**said), rank, 100.0) == FleetState(recent, 97.0, unfit)


def test_it_waits_for_every_machine(monkeypatch):
    """However long the history takes, while it comes nearer; what it waits for is said, what else runs is called."""
    monkeypatch.setattr(up, "PATIENCE_S", 0.4)
    monkeypatch.setattr(up, "_SAY_S", 0.5)
    history = [FleetState(0, at, "old") for at in range(4)]
    arriving = [FleetState(recent, 9.0, "stale") for recent in range(1, 5)]
    states = itertools.chain(history, arriving, itertools.repeat(FleetState(4, 9.0, "")))
    said, called = list[str](), list[int]()
    assert await_fleet(4, lambda: next(states), said.append, lambda: called.append(1)) == ""
    assert len(called) == 8
    assert said[-1].startswith("waiting for data: ")


def test_what_never_comes_is_an_error(monkeypatch):
    """It says how many machines have data, and why nothing is placed."""
    monkeypatch.setattr(up, "PATIENCE_S", 0.3)
    state = FleetState(3, 9.0, "2 machines refused: stale")
    with pytest.raises(LocalError, match=r"3 of 5 machines have recent data, unchanged for 0\.3 s; 2 machines refused"):
        await_fleet(5, lambda: state, lambda _: None, lambda: None)


def test_a_full_fleet_that_takes_nothing_is_an_answer(monkeypatch):
    """Every machine has data, and none takes an instance: that is its state, and no reason to wait."""
    monkeypatch.setattr(up, "_UNFIT_S", 0.3)
    state = FleetState(5, 9.0, "no machine fits: limits 5")
    assert await_fleet(5, lambda: state, lambda _: None, lambda: None) == state.unfit


@pytest.mark.parametrize(
    ("url", "prefix", "variables"),
    [
        ("redis://127.0.0.1:6379/0", "windward", ""),
        ("redis://127.0.0.1:7000/0", "windward", "WINDWARD_REDIS_URL=redis://127.0.0.1:7000/0"),
        ("redis://127.0.0.1:6379/0", "south", "WINDWARD_PREFIX=south"),
    ],
)
def test_the_command_to_try_next_reaches_this_stack(url, prefix, variables, capsys):
    """By the variables that it needs, which `windward doctor` needs too, and no others."""
    stack = SimpleNamespace(redis_url=url, kafka="127.0.0.1:9092", rows=lambda: [("Kafka", "127.0.0.1:9092", "")])
    announce(stack, UpSettings(prefix=prefix), "")
    said = capsys.readouterr().out
    assert "ready: windward place --cpu 2 --memory 10G   (" in said
    assert [line for line in said.splitlines() if "export" in line] == [f"first: export {variables}"] * bool(variables)


def test_the_environment_says_whom_one_asks_and_not_whom_one_feeds(tmp_path):
    """Only a flag, or the table of `up`, names servers; those started here have neither user nor SASL."""
    file = tmp_path / "settings.toml"
    file.write_text('[all]\nredis_url = "redis://fleet/0"\nkafka = "fleet:1"\nwindows_url = "redis://fleet/1"\n')
    asked = {"WINDWARD_REDIS_URL": "redis://fleet/0", "WINDWARD_LEDGER_URL": "redis://fleet/2"}
    asked |= {"WINDWARD_KAFKA": "fleet:1", "WINDWARD_CONFIG": str(file), "WINDWARD_REDIS_USERNAME": "operator"}
    own = Stack(load_settings(UpSettings, "up", [], asked), asked)
    assert (own.settings.kafka, own.settings.redis_url, own.settings.windows_url) == ("", "", "")
    reached = [own.environ[f"WINDWARD_{name}"] for name in ("LEDGER_URL", "WINDOWS_URL", "REDIS_USERNAME")]
    assert reached == ["", "", ""]
    given = load_settings(UpSettings, "up", ["--redis-url", "redis://here/0"], asked)
    assert (Stack(given, asked).settings.redis_username, given.redis_url) == ("operator", "redis://here/0")
    file.write_text('[up]\nkafka = "here:1"\n')
    assert load_settings(UpSettings, "up", [], asked).kafka == "here:1"
