"""When a local stack is ready."""

import itertools

import pytest

from ops.stack import up
from ops.stack.servers.process import LocalError
from ops.stack.up import FleetState, await_fleet, state_of
from scorer.client import HealthResult, RankResult, Refusal


def health(**more: object) -> HealthResult:
    """Return a healthy answer about ten machines, with changes."""
    fields = {
        "ready": True, "scorer": "a", "version": "1", "uptime_s": 1.0, "machines": 10, "machines_with_data": 10,
        "newest_sample_age_s": 3.0, "windows_s": [300], "instances": 0, "ledger_change": 0, "profiles": [],
        "profile": "",
    }  # fmt: skip
    return HealthResult(**(fields | more))


def refused(**reasons: int) -> RankResult:
    """Return an answer without a machine."""
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
def test_what_two_answers_tell(said: dict[str, object], rank: RankResult, recent: int, unfit: str) -> None:
    """Recent machines, the newest sample, and why nothing is placed."""
    assert state_of(health(**said), rank, 100.0) == FleetState(recent, 97.0, unfit)


def test_it_waits_for_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how many machines have data, and why nothing is placed."""
    monkeypatch.setattr(up, "PATIENCE_S", 0.3)
    state = FleetState(3, 9.0, "2 machines refused: stale")
    with pytest.raises(LocalError, match=r"3 of 5 machines have recent data, unchanged for 0\.3 s; 2 machines refused"):
        await_fleet(5, lambda: state, lambda _: None, lambda: None)


def test_a_full_fleet_that_takes_nothing_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every machine has data, and none takes an instance: that is its state, and no reason to wait."""
    monkeypatch.setattr(up, "_UNFIT_S", 0.3)
    state = FleetState(5, 9.0, "no machine fits: limits 5")
    assert await_fleet(5, lambda: state, lambda _: None, lambda: None) == state.unfit
