"""Every filter and every score on numbers that no machine should have, in fleets about the size of a block of rows.

`tests.sanitized` runs this on a library that ends at the first access beside an array, or undefined behaviour.
"""

import random
import warnings

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.tables.learned import Learned
from schemas.tables.window_table import decode_table, encode_table
from scorer.placement.choosing.plan import plan
from scorer.ranking.explain import answer
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.rank import Decision, rank
from scorer.snapshot.builder import build_snapshot
from tests.effort import examples
from tests.scorer.ranking.recorded.worlds import profiles, requests, without_id, world

PROFILES = profiles()
SIZES = (0, 1, 63, 64, 65)
ODD = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 5e-324, -5e-324, 1e-310, 1e-45, 1e300, 1.7e308, -1e300, 2.0**63, 2.0**31,
)  # fmt: skip
"""None of them comes from an agent, whose samples are checked; all can be stored."""


def odd_fleet(machines, seed, share):
    fleet, chance = world(machines, 4 if machines else 0, seed), np.random.default_rng(seed)
    before = fleet.snapshot
    tables = []
    for one in before.columns.tables:
        columns = {}
        for name, column in one.base.columns.items():
            odd = chance.random(column.shape) < share
            columns[name] = column.copy()
            if column.dtype.kind == "f":
                with warnings.catch_warnings(action="ignore"):
                    columns[name][odd] = chance.choice(ODD, int(odd.sum())).astype(column.dtype)
        tables.append(decode_table(encode_table(one.base.header, columns, one.base.names)))
    learned = before.learned
    if learned is not None and seed % 2:
        factors = {"cpu": 5e-324, "memory": 1e300}
        learned = Learned(version=2, factors=factors, kinds=learned.kinds, deviations={"": {"cpu": 1e300}})
    with warnings.catch_warnings(action="ignore"):
        snapshot = build_snapshot(tables, before.sources.facts, before.sources.operator).with_use(
            learned, before.usages, before.predicted
        )
    return RankingInputs(snapshot, fleet.ledger, PROFILES["windward"], fleet.now_s, Tables())


@settings(max_examples=examples(9, 150))
@given(
    machines=st.sampled_from(SIZES), seed=st.integers(0, 10_000), share=st.sampled_from((0.01, 0.05, 0.2, 0.9)),
    later_s=st.sampled_from((0.0, 0.0, 1e9, -1e9)),
)  # fmt: skip
def test_no_number_breaks_a_decision(machines, seed, share, later_s):
    """Each machine is refused for a reason that has a name, or has a total of 0 to 100; explanation and batch agree."""
    inputs = odd_fleet(machines, seed, share)
    inputs.now_s += later_s
    asking = requests(random.Random(seed), inputs.snapshot.names)
    for name, profile in PROFILES.items():
        asked, by = next(asking), inputs.by(profile)
        with warnings.catch_warnings(action="ignore"):
            ranking = rank(asked, by)
            totals = ranking.total[ranking.feasible]
            assert ((totals >= -1e-9) & (totals <= 100 + 1e-9)).all(), (name, totals)
            msgspec.json.encode(answer(ranking, 3, explain_all=True))
            plan([without_id(asked)] * 4, by)
            decision = Decision(asked, by)
            decision.evaluate()
            if not decision.far:
                decision.room(3)
