"""Ranking: no order of machines or of changes matters, and an answer stays as it was; ties, and the best few."""

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rpc.request import InvalidRequest
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.plan import plan
from scorer.ranking import explain
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import PROFILES, fleet, machine, ranked, request, toml

loads = st.lists(
    st.tuples(st.sampled_from([4.0, 16.0, 64.0]), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12
)


@settings(deadline=None, max_examples=examples(40, 40))
@given(machines=loads, seed=st.integers(0, 99), cpu=st.floats(0, 3))
def test_the_choice_does_not_depend_on_the_order_of_machines(machines, seed, cpu):
    described = [
        machine(f"m{n:02}", size, 2 * size, usage={"cpu": size * round(c, 1), "memory": 2 * size * round(m, 1)})
        for n, (size, c, m) in enumerate(machines)
    ]
    shuffled = [described[i] for i in np.random.default_rng(seed).permutation(len(described))]
    first, second = fleet(*described), fleet(*shuffled)
    orders = [[each.snapshot.names[row] for row in ranked(each, cpu=cpu).best_first] for each in (first, second)]
    assert orders[0] == orders[1]


ALONE = """
stale = "requests"
stale_s = 60
[[filters]]
use = "fresh"
[[filters]]
use = "fits"
[[scores]]
use = "least_allocated"
[[scores]]
use = "load_variation_risk"
"""


def test_when_all_data_is_old_a_profile_may_go_by_requests_alone():
    """Refuse, or fall back to what is promised and say so; one fresh machine is enough to go by data again."""
    old = [machine(name, usage={"cpu": 9, "memory": 90}, age_s=5000) for name in ("a", "b")]
    promised = [{"id": "i", "machine": "a", "cpu": 5, "memory": 50}]
    refused = ranked(fleet(*old, instances=promised), parse_profile(ALONE.replace("requests", "refuse"), "p"), cpu=2)
    assert explain.summary(refused) == "0/2 feasible: 2 stale"
    alone = ranked(fleet(*old, instances=promised), parse_profile(ALONE, "alone"), cpu=2)
    assert alone.chosen == "b"
    assert explain.answer(alone).warnings[0] == "no machine has data younger than 60 s: ranked by requests alone"
    fresh = machine("c", usage={"cpu": 9, "memory": 90})
    assert ranked(fleet(*old, fresh, instances=promised), parse_profile(ALONE, "alone"), cpu=1).chosen == "c"


def test_a_ranking_stays_as_it_was_when_the_ledger_moves_on():
    full = machine("m3", usage={"cpu": 9.9, "memory": 1})
    offline = fleet(*(machine(f"m{n}", usage={"cpu": 1, "memory": 1}) for n in range(3)), full)
    kept = Tables()

    def decided(ranking):
        terms = [(term.raw.tolist(), term.slope, term.start) for term in ranking.terms]
        scored = [(each.machine, each.score) for each in explain.answer(ranking, 3).candidates]
        whole = ranking.refused.tolist(), ranking.total.tolist(), ranking.best_first.tolist()
        return scored, whole, terms, explain.summary(ranking)

    first = ranked(offline, kept=kept, cpu=1)
    before = decided(first)
    assert before[0][0][0] == "m0"
    for number in range(5):
        offline.ledger.apply(instance_of(request(cpu=1), "m0", offline.now_s, f"i{number}"))
        later = ranked(offline, kept=kept, cpu=1)
        assert decided(first) == before != decided(later)
    assert later.chosen == "m1"


@pytest.mark.parametrize("profile", sorted(PROFILES.by_name))
@pytest.mark.parametrize(
    ("asked", "field"),
    [({"selector": "a b"}, "selector"), ({"prefer": [{"selector": "a"}, {"selector": "("}]}, r"prefer\[1\]\.selector")],
)
def test_a_selector_that_cannot_be_read_is_an_error_under_every_profile(profile, asked, field):
    with pytest.raises(InvalidRequest, match=f"{field}: cannot read"):
        ranked(fleet(machine("a")), profile, **asked)


def test_equal_machines_tie_and_the_first_name_wins():
    names = ["m2", "m10", "m1", "m3"]
    offline = fleet(*(machine(name, usage={"cpu": 1, "memory": 1}) for name in names))
    found = ranked(offline, cpu=1)
    assert [offline.snapshot.names[row] for row in found.best_first] == ["m1", "m10", "m2", "m3"]
    assert np.ptp(found.total) == 0


def test_the_best_few_are_the_first_of_the_whole_order():
    rng = np.random.default_rng(1)
    offline = fleet(*(machine(f"m{n:04}", usage={"cpu": int(rng.integers(0, 8)), "memory": 5}) for n in range(1500)))
    found = ranked(offline, cpu=1)
    for count in (1, 5, 40, 200):
        assert found.best(count).tolist() == found.best_first[:count].tolist()


SCORES = [{"use": "least_allocated"}]
DRAW = parse_profile(toml({"ties": "draw", "scores": SCORES}), "draw")


def hosts(count):
    return [machine(f"m{n:02}", usage={"cpu": 1, "memory": 1}) for n in range(count)]


def test_the_lot_is_one_that_every_process_draws():
    """The hashes of machine and instance, exclusive or, through the finaliser of splitmix64; the least is taken."""

    def lot(machine_name, instance_id):
        texts = (machine_name, instance_id)
        left, right = (int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts)
        z = left ^ right
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    offline = fleet(*hosts(40))
    for n in range(20):
        ranking = rank(request(id=f"i{n}"), offline.inputs(DRAW))
        names = sorted(offline.snapshot.names, key=lambda name: lot(name, f"i{n}"))
        assert [offline.snapshot.names[row] for row in ranking.best(40)] == names


def test_a_better_machine_is_taken_whatever_the_lot():
    offline = fleet(*hosts(5), instances=[{"id": f"x{n}", "machine": f"m{n:02}", "cpu": 1} for n in range(4)])
    for n in range(20):
        assert rank(request(id=f"i{n}", cpu=1), offline.inputs(DRAW)).chosen == "m04"


@settings(max_examples=examples(10, 100), deadline=None)
@given(count=st.integers(1, 20), machines=st.integers(1, 8), salt=st.integers(0, 10**6))
def test_a_batch_draws_as_one_after_the_other(count, machines, salt):
    offline = fleet(*hosts(machines))
    asked = [request(id=f"i{salt}-{n}", cpu=1) for n in range(count)]
    together = plan(asked, offline.inputs(DRAW)).machines
    overlay, singly = Overlay(offline.ledger), []
    for one in asked:
        chosen = rank(one, RankingInputs(offline.snapshot, overlay.base, DRAW, offline.now_s).on(overlay)).chosen
        assert chosen is not None
        singly.append(chosen)
        overlay.propose(instance_of(one, chosen, offline.now_s))
    assert list(together) == singly
