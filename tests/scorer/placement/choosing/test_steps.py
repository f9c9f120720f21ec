"""Batches in steps: others are served between two steps, and what they changed is seen."""

import msgspec
import pytest

from schemas.rpc.request import InvalidRequest
from scorer.ledger.record.limits import Limit, total
from scorer.ledger.store.follower import Follower
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement import placer as offer
from scorer.placement.choosing import plan as module
from scorer.placement.choosing.plan import plan_steps, run_to_end
from scorer.placement.placer import TOGETHER_MAX, Late, Placing
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.profiles.catalogue import load_profiles
from tests.scorer.fleets import fleet, machine, request
from tests.scorer.ledger.ledger_model import LedgerModel

PROFILE = load_profiles().choose()
FLEET = fleet(*(machine(f"m{n}", cpu=1000.0, memory=1e12, usage={"cpu": n, "memory": n}) for n in range(4)))


def unlike(count, **more):
    return [request(id=f"i{n}", cpu=1 + n / 1000, memory=1e6, **more) for n in range(count)]


class Scorer:
    """One placer on a ledger of its own, with a clock that the test moves."""

    def __init__(self, of=FLEET):
        self.fleet, self.now_s = of, of.now_s
        ledger = LedgerModel(lambda: self.now_s)
        self.follower = Follower(ledger)
        self.follower.loaded = True
        self.tables = Tables()
        self.placing = Placing(ledger, self.follower, 20, lambda: self.now_s)

    def inputs(self):
        return RankingInputs(self.fleet.snapshot, self.follower.view, PROFILE, self.now_s, self.tables)

    def steps(self, requests, deadline=0.0):
        return self.placing.steps(requests, self.inputs, deadline=deadline)


def finish(steps):
    left = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return left, done.value
        left += 1


def test_another_query_is_answered_within_a_batch():
    """A batch can be left after a few instances, and a placement between two steps is seen by both."""
    scorer = Scorer()
    steps = scorer.steps(unlike(40))
    while not len(scorer.follower.view):
        next(steps)
    assert 0 < len(scorer.follower.view) < 40
    single = run_to_end(scorer.placing.steps([request(id="single", cpu=1)], scorer.inputs))
    assert single.records[0] is not None
    left, placement = finish(steps)
    assert left >= 1
    assert None not in placement.records
    assert len(scorer.follower.view) == 41


def test_nothing_is_reserved_after_the_deadline():
    scorer = Scorer()
    steps = scorer.steps(unlike(40), deadline=FLEET.now_s + 1)
    while not len(scorer.follower.view):
        next(steps)
    reserved = len(scorer.follower.view)
    scorer.now_s += 2
    with pytest.raises(Late, match=f"{reserved} of 40 instances were placed"):
        finish(steps)
    assert len(scorer.follower.view) == reserved


@pytest.mark.parametrize("more", [{"all_or_nothing": True}, {"machines_max": 3}, {"machines_min": 2}], ids=str)
def test_what_one_script_reserves_has_a_largest_size(more):
    (field,) = more
    wanted = f"{field}: {TOGETHER_MAX + 1} instances, at most {TOGETHER_MAX} are reserved in one step"
    with pytest.raises(InvalidRequest, match=wanted):
        finish(Scorer().steps(unlike(TOGETHER_MAX + 1, **more)))


@pytest.mark.parametrize(
    ("asked", "different"),
    [
        pytest.param(unlike(20), 3, id="unlike"),
        pytest.param([request(id=f"i{n}", cpu=0.1) for n in range(100)], 3, id="alike"),
        pytest.param(unlike(20, machines_max=1), 1, id="all on one machine"),
    ],
)
def test_a_machine_that_was_taken_meanwhile_is_chosen_again(asked, different):
    """What others place between two steps counts for what was chosen before, too."""
    small = fleet(*(machine(f"m{n}", cpu=100.0, memory=1e12, usage={"cpu": 0, "memory": 0}) for n in range(4)))
    view = LedgerView()
    steps = plan_steps(asked, RankingInputs(small.snapshot, view, PROFILE, small.now_s))
    next(steps)
    view.apply(instance_of(request(id="large", cpu=100.0, expected={"cpu": 100.0}), "m0", small.now_s))
    _, found = finish(steps)
    assert "m0" not in found.machines
    assert len({*found.machines} - {None}) == different
    assert different == 1 or None not in found.machines


BY_ZONE, NONE = {"instances": {"app": "x"}, "topology": "zone"}, {"instances": {"app": "none"}}


@pytest.mark.parametrize(
    ("of_batch", "of_other"),
    [
        pytest.param({"anti_affinity": [BY_ZONE, NONE]}, {"labels": {"app": "x"}}, id="the batch avoids it"),
        pytest.param({"labels": {"app": "x"}}, {"anti_affinity": [BY_ZONE]}, id="it avoids the batch"),
    ],
)
@pytest.mark.parametrize("alike", [False, True])
def test_a_rule_beyond_one_machine_holds_for_what_came_meanwhile(alike, of_batch, of_other):
    """It is on another machine of the zone, so none of the chosen machines has changed."""
    small = fleet(*(machine(f"m{n}", usage={"cpu": n, "memory": n}, labels={"zone": "ab"[n // 2]}) for n in range(4)))
    view = LedgerView()
    more = {"all_or_nothing": True, **of_batch}
    asked = [request(id=f"i{n}", cpu=0.01, **more) for n in range(100)]
    if not alike:
        asked = [msgspec.structs.replace(one, cpu=0.01 + n / 1e6) for n, one in enumerate(asked[:20])]
    steps = plan_steps(asked, RankingInputs(small.snapshot, view, PROFILE, small.now_s))
    next(steps)
    view.apply(instance_of(request(id="other", **of_other), "m1", small.now_s))
    _, found = finish(steps)
    assert {*found.machines} <= {"m2", "m3"}


@pytest.mark.parametrize("alike", [False, True])
def test_a_placed_limit_counts_what_came_meanwhile(alike):
    """Neither the batch nor what comes has a rule: one that is there allows so many others in its zone."""
    small = fleet(*(machine(f"m{n}", usage={"cpu": n, "memory": n}, labels={"zone": "ab"[n // 2]}) for n in range(4)))
    view, x = LedgerView(), {"labels": {"app": "x"}}
    view.apply(instance_of(request(id="holder", anti_affinity=[{**BY_ZONE, "others": 5}], **x), "m0", small.now_s))
    asked = [request(id=f"i{n}", cpu=0.01, all_or_nothing=True, **x) for n in range(100)]
    if not alike:
        asked = [msgspec.structs.replace(one, cpu=0.01 + n / 1e6) for n, one in enumerate(asked[:20])]
    steps = plan_steps(asked, RankingInputs(small.snapshot, view, PROFILE, small.now_s))
    next(steps)
    view.apply(instance_of(request(id="other", **x), "m1", small.now_s))
    _, found = finish(steps)
    assert sum(one in ("m0", "m1") for one in found.machines) == 4


def test_a_dry_run_of_many_can_be_left(monkeypatch):
    """It reserves nothing, so each step proposes anew what was chosen before."""
    monkeypatch.setattr(module, "_TOGETHER_MAX", 2)
    scorer = Scorer()
    left, placement = finish(scorer.steps(unlike(10, dry_run=True)))
    assert left >= 1
    assert None not in placement.records
    assert not len(scorer.follower.view)


def one_by_one(count, **asked):
    """Place instances one by one, as the service does, on an idle machine and three busy, larger ones."""
    idle = machine("idle", cpu=16, memory=1e12, usage={"cpu": 0, "memory": 0})
    busy = (machine(f"m{n}", cpu=160, memory=1e12, usage={"cpu": 50, "memory": 5e11}) for n in range(3))
    scorer, found = Scorer(fleet(idle, *busy)), []
    for n in range(count):
        wanted = request(id=f"i{n}", expected={"cpu": 0.1, "memory": 1e8}, **asked)
        found.append(run_to_end(scorer.steps([wanted])))
        scorer.now_s += 0.001
    return found


def machines(placed):
    return [record.machine if record else None for found in placed for record in found.records]


def test_what_fits_by_the_filter_fits_by_the_ledger():
    """A sixth of the machine, six times: as counted the sixth is two millionths of a core too large, to both."""
    placed = one_by_one(8, cpu=16 / 6, memory=1e9)
    assert machines(placed)[:5] == ["idle"] * 5
    assert set(machines(placed)[5:]) == {"m0", "m1", "m2"}
    assert not any(found.conflicts for found in placed)


def test_a_machine_that_the_ledger_refuses_is_passed_over(monkeypatch):
    """Limits that no filter knows: the next best machine is taken, as long as they are asked for one at a time."""
    everything = offer.limits

    def limits(ranking, rows, asked):
        names = ranking.machines.roster.names
        known = everything(ranking, rows, asked)
        tight = (Limit(total("cpu"), 8.0, "too much cpu promised"),)
        return [tight if names[row] == "idle" else of for row, of in zip(rows, known, strict=True)]

    monkeypatch.setattr(offer, "limits", limits)
    assert machines(one_by_one(12, cpu=1, memory=1e9)) == ["idle"] * 8 + ["m0", "m1", "m2", "m0"]
