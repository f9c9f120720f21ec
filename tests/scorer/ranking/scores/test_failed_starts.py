"""Where starts fail: the machine comes later the more failed, comes again by and by, and no fleet is emptied by it.

The cases are made. nomad has the same idea: its NodeReschedulingPenaltyIterator (scheduler/rank.go).
"""

from itertools import pairwise

import pytest

from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import HALF_LIFE_S, LedgerView, instance_of
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.scores.failed_starts import FailedStarts
from tests.scorer.fleets import fleet, machine, ranked, request, scores
from tests.scorer.rpc.test_results import Scorer

PROFILES = load_profiles().by_name
IDLE = {"cpu": 0.1, "memory": 1}


def failed(on, ago_s=0.0):
    return {"machine": on, "failed": True, "ended_ago_s": ago_s, "started": False}


def test_it_counts_and_fades():
    """Halved with each failure, and each failure counts half after ten minutes; one of a day ago is forgotten."""
    machines = [machine(name, usage=IDLE) for name in "abcd"]
    leavers = [failed("a"), failed("a"), failed("b"), failed("c", HALF_LIFE_S)]
    found = scores(FailedStarts(), fleet(*machines, leavers=leavers))
    assert found == {"a": 25, "b": 50, "c": pytest.approx(100 * 2**-0.5), "d": 100}
    old = ranked(fleet(*machines, leavers=[failed("a", 86_400.0)]), PROFILES["windward"])
    assert "failed_starts" not in {term.weighted.score.name for term in old.terms}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_next_start_is_elsewhere(profile):
    machines = [machine(f"m{n}", usage={"cpu": 0.1 + n, "memory": 1}) for n in range(3)]
    best = ranked(fleet(*machines), PROFILES[profile], cpu=1, memory=1).chosen
    assert best is not None
    after = ranked(fleet(*machines, leavers=[failed(best)]), PROFILES[profile], cpu=1, memory=1).chosen
    assert after not in (None, best)
    everywhere = [failed(f"m{n}") for n in range(3) for _ in range(20)]
    assert ranked(fleet(*machines, leavers=everywhere), PROFILES[profile], cpu=1, memory=1).feasible_count == 3


def test_ten_failed_starts_meet_all_machines():
    scorer = Scorer()
    seen = []
    for number in range(10):
        seen.append(scorer.ask("place", id=f"i{number}", cpu=1)["machine"])
        scorer.ask("release", id=f"i{number}", failed=True)
        scorer.ask("release", id=f"i{number}", failed=True)
    assert set(seen) == {"m0", "m1", "m2", "m3"}
    assert all(one != other for one, other in pairwise(seen))
    shown = {one["machine"]: one["failed_starts"] for one in scorer.ask("machines")["machines"]}
    assert shown == {name: pytest.approx(seen.count(name), abs=0.01) for name in shown}
    term = scorer.ask("rank", cpu=1)["candidates"][0]["scores"]["failed_starts"]
    assert term["failed"] == 2.0
    assert scorer.metrics.failed_starts._value.get() == 10
    for name, ended in (("good", {}), ("tried", {"failed": True, "dry_run": True})):
        scorer.ask("place", id=name, cpu=1)
        scorer.ask("release", id=name, **ended)
    assert scorer.metrics.failed_starts._value.get() == 10


def test_not_on():
    """Machines that the request excludes, beside one that it names; a name that there is not excludes nothing."""
    scorer = Scorer()
    for asked, machines in (
        ({"not_on": ["m0", "m1"]}, {"m2", "m3"}),
        ({"not_on": ["m0", "nowhere"]}, {"m1", "m2", "m3"}),
        ({"not_on": ["m0"], "machine": "m1"}, {"m1"}),
        ({"not_on": ["m1"], "machine": "m1"}, set()),
        ({}, {"m0", "m1", "m2", "m3"}),
    ):
        assert {one["machine"] for one in scorer.ask("rank", cpu=1, top=9, **asked)["candidates"]} == machines
    assert "4 excluded by the request" in scorer.ask("rank", cpu=1, not_on=["m0", "m1", "m2", "m3"])["summary"]


def test_a_view_that_is_read_anew_has_them():
    """By the records that are kept of them; one that never ran has left nothing in the windows."""
    one = copy_with(instance_of(request(id="a", cpu=1), "m", 0.0), state="released", ended_at=50.0, failed=True)
    view, anew = LedgerView(), LedgerView([], [one])
    view.apply(one)
    assert view.failures == anew.failures == {"m": (1.0, 50.0)}
    assert anew.leavers.slots.live()[0].size == 0
    assert view.failed_starts("m", 50.0 + HALF_LIFE_S) == 0.5
    assert view.failed_starts("other", 50.0) == 0.0


def test_the_order_of_records_does_not_matter_and_a_wrong_clock_is_got_over():
    """Records of a file have any order; a failure that an hour's wrong clock has dated later is not there for ever."""
    first, last = (
        copy_with(instance_of(request(id=f"{at_s}", cpu=1), "m", 0.0), state="released", ended_at=at_s, failed=True)
        for at_s in (0.0, HALF_LIFE_S)
    )
    for records in ([first, last], [last, first]):
        assert LedgerView([], records).failures == {"m": (1.5, HALF_LIFE_S)}
    late = LedgerView([], [copy_with(last, ended_at=3600.0 + 10 * HALF_LIFE_S)])
    assert late.failed_starts("m", 3600.0) < 0.001
    assert LedgerView([], [first]).failed_starts("m", -1.0) == pytest.approx(1, abs=0.01)
