"""Ranking: no order of machines or of changes matters, and an answer stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rpc.request import InvalidRequest
from scorer.ledger.view.view import instance_of
from scorer.ranking.explanation import explain
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.ranking import Ranking
from scorer.ranking.tables import Tables
from tests.effort import examples
from tests.rows import each_row
from tests.scorer.fleets import fleet, machine, request
from tests.scorer.ranking.rankings import PROFILES, ranked

loads = st.lists(
    st.tuples(st.sampled_from([4.0, 16.0, 64.0]), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12
)


@settings(deadline=None, max_examples=examples(40, 40))
@given(machines=loads, seed=st.integers(0, 99), cpu=st.floats(0, 3))
def test_the_choice_does_not_depend_on_the_order_of_machines(
    machines: list[tuple[float, float, float]], seed: int, cpu: float
) -> None:
    """The whole ranking is the same machines in the same order after any permutation."""
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


def test_when_all_data_is_old_a_profile_may_go_by_requests_alone() -> None:
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


def test_a_ranking_stays_as_it_was_when_the_ledger_moves_on() -> None:
    """Verdicts, values, totals and order are those of the decision, whatever is placed and ranked after it."""
    full = machine("m3", usage={"cpu": 9.9, "memory": 1})
    offline = fleet(*(machine(f"m{n}", usage={"cpu": 1, "memory": 1}) for n in range(3)), full)
    kept = Tables()

    def decided(ranking: Ranking) -> Any:
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


@settings(deadline=None, max_examples=examples(40, 40))
@given(st.data())
def test_patched_columns_equal_columns_made_anew(data: st.DataObject) -> None:
    """After any placements and releases a ranking equals that of a fresh view of the same ledger."""
    described = [machine(f"m{n}", usage={"cpu": n % 5, "memory": 10 * (n % 4)}) for n in range(6)]
    offline = fleet(*described)
    asked = {"cpu": 1, "memory": 5, "maxmemory": 1, "ports": [1]}
    live: list[str] = []
    kept = Tables()
    for number in range(data.draw(st.integers(1, 8))):
        ranked(offline, data.draw(st.sampled_from(sorted(PROFILES.by_name))), kept, **asked)
        if live and data.draw(st.booleans()):
            offline.ledger.forget(live.pop())
        else:
            where = data.draw(st.sampled_from(offline.snapshot.names))
            offline.ledger.apply(instance_of(request(cpu=2, memory=8), where, offline.now_s, f"i{number}"))
            live.append(f"i{number}")
    anew = fleet(*described)
    for instance in offline.ledger.instances.values():
        anew.ledger.apply(instance)
    for name in PROFILES.by_name:
        patched, fresh = ranked(offline, name, kept, **asked), ranked(anew, name, **asked)
        assert patched.feasible.tolist() == fresh.feasible.tolist()
        assert patched.total.tolist() == pytest.approx(fresh.total.tolist(), abs=1e-9)


@each_row("profile", sorted(PROFILES.by_name))
@each_row(
    ("asked", "field"),
    [({"selector": "a b"}, "selector"), ({"prefer": [{"selector": "a"}, {"selector": "("}]}, r"prefer\[1\]\.selector")],
    ids=["selector", "prefer"],
)
def test_a_selector_that_cannot_be_read_is_an_error_under_every_profile(
    profile: str, asked: dict[str, Any], field: str
) -> None:
    """Also under a profile without a filter or score that asks for it."""
    with pytest.raises(InvalidRequest, match=f"{field}: cannot read"):
        ranked(fleet(machine("a")), profile, **asked)
