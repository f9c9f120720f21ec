"""Ranking ahead changes nothing but the speed: whatever happens in between, the choice is that of a new ranking."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as copy_request

from scorer.commands.shared.fleet_file import read_fleet
from scorer.commands.shared.in_words import answer_of
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing import plan as plan_module
from scorer.placement.choosing import reuse as reuse_module
from scorer.placement.choosing import trial as trial_module
from scorer.placement.choosing.continuation import AGE_S_MAX, ContinuedRanking
from scorer.placement.choosing.plan import plan
from scorer.placement.choosing.reuse import Reuse
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request
from tests.scorer.placement.choosing.test_plan import asks, fleets

PROFILES = load_profiles()
BETWEEN = [
    *["place", "place", "place", "place elsewhere", "confirm", "release", "rank", "wait", "another kind"],
    *["place three", "place three", "place three, lose one", "plan three", "place on the worst", "another kind there"],
]


@settings(max_examples=examples(60, 600), deadline=None)
@given(
    described=fleets(),
    asked=asks,
    steps=st.lists(st.sampled_from(BETWEEN), min_size=3, max_size=20),
    name=st.sampled_from(sorted(PROFILES.by_name)),
)
def test_the_choice_is_that_of_a_new_ranking(
    described: dict[str, Any], asked: dict[str, Any], steps: list[str], name: str
) -> None:
    """Own and foreign placements, confirmations, releases, time: ranked ahead or anew, the machine is the same."""
    offline, profile, reuse, now_s = read_fleet(described), PROFILES.choose(name), Reuse(), read_fleet(described).now_s
    wanted, other = request(**asked), request(cpu=0.25, memory=1e9)
    live: list[str] = []
    kept = Kept()
    for number, step in enumerate(steps):
        now_s += 10 * AGE_S_MAX if step == "wait" else AGE_S_MAX / 50
        if "three" in step:
            three = [copy_request(wanted, id=f"i{number}-{n}") for n in range(3)]
            planned = reuse.plan(three, RankingInputs(offline.snapshot, offline.ledger, profile, now_s, kept)).machines
            assert planned == plan(three, RankingInputs(offline.snapshot, offline.ledger, profile, now_s)).machines
            reserved = {"place three": 3, "place three, lose one": 2, "plan three": 0}[step]
            for one, chosen in list(zip(three, planned, strict=True))[:reserved]:
                if chosen is not None:
                    offline.ledger.apply(instance_of(one, chosen, now_s))
                    live.append(one.id)
            continue
        one = other if step == "another kind" else wanted
        seen = reuse.rank(one, RankingInputs(offline.snapshot, offline.ledger, profile, now_s, kept))
        anew = rank(one, RankingInputs(offline.snapshot, offline.ledger, profile, now_s))
        assert seen.chosen == anew.chosen
        if seen.chosen is not None and step in ("place", "another kind"):
            offline.ledger.apply(instance_of(one, seen.chosen, now_s, f"i{number}"))
            live.append(f"i{number}")
        elif seen.chosen is not None and step in ("place on the worst", "another kind there"):
            where = anew.machines.name(int(anew.order[-1])) if step == "place on the worst" else seen.chosen
            one = wanted if step == "place on the worst" else other
            offline.ledger.apply(instance_of(one, where, now_s, f"i{number}"))
        elif step == "place elsewhere":
            offline.ledger.apply(instance_of(wanted, offline.snapshot.names[0], now_s, f"i{number}"))
        elif step == "confirm" and live:
            record = offline.ledger.instances[live[-1]]
            offline.ledger.apply(copy_with(record, state="confirmed", started_at=now_s))
        elif step == "release" and live:
            offline.ledger.forget(live.pop())
        reuse.prepare(partial(RankingInputs, offline.snapshot, offline.ledger, now_s=now_s, kept=kept))


def test_a_run_of_alike_placements_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the sixth on nothing is ranked again; each answer has its own machine in front, with its terms."""
    offline = fleet(*(machine(f"m{n}", usage={"cpu": n / 10, "memory": n}) for n in range(6)))
    reuse, profile, kept, ranked = Reuse(), PROFILES.choose(), Kept(), []
    monkeypatch.setattr(reuse_module, "rank", lambda *of: ranked.append(1) or rank(*of))
    for number in range(12):
        found = reuse.rank(request(cpu=1, memory=2), offline.inputs(profile, kept))
        answer = answer_of(found)
        assert answer.machine == answer.candidates[0].machine == found.chosen
        assert answer.score == answer.candidates[0].score
        assert isinstance(found, ContinuedRanking) == (number > 4)
        offline.ledger.apply(instance_of(request(cpu=1, memory=2), str(found.chosen), offline.now_s, f"i{number}"))
        reuse.prepare(partial(offline.inputs, kept=kept))
    assert len(ranked) == 5


def test_a_run_of_alike_groups_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first group ranks; those after it, and single ones between them, go on from where it ended."""
    offline = fleet(*(machine(f"m{n}", usage={"cpu": n / 10, "memory": n}) for n in range(6)))
    reuse, profile, kept, ranked = Reuse(), PROFILES.choose(), Kept(), []
    for module in (plan_module, trial_module, reuse_module):
        monkeypatch.setattr(module, "rank", lambda *of, **more: ranked.append(1) or rank(*of, **more))
    for number in range(6):
        group = [request(cpu=0.5, memory=1, id=f"i{number}-{n}") for n in range(1 if number % 3 == 1 else 3)]
        inputs = offline.inputs(profile, kept)
        if len(group) == 1:
            machines = [reuse.rank(group[0], inputs).chosen]
        else:
            found = reuse.plan(group, inputs)
            machines = list(found.machines)
            assert answer_of(found.ranking).machine == machines[0]
        for one, chosen in zip(group, machines, strict=True):
            offline.ledger.apply(instance_of(one, str(chosen), offline.now_s))
    assert len(ranked) == 1
