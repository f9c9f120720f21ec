"""The score `global_variance` against the variance computed for each placement anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ranking.rank import rank
from scorer.ranking.scores.global_variance import GlobalVariance
from tests.scorer.fleets import alone, fleet, machine, request, score_told

loads = st.lists(
    st.tuples(st.sampled_from([4.0, 16.0, 64.0]), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12
)


@settings(deadline=None)
@given(machines=loads, cpu=st.floats(0, 4), memory=st.floats(0, 8), weight=st.floats(0.1, 5))
def test_the_closed_form_is_the_variance(machines, cpu, memory, weight):
    """Order and distance are those of the population variance computed for each placement anew, any capacities."""
    offline = fleet(
        *(
            machine(f"m{n}", size, 2 * size, usage={"cpu": size * c, "memory": 2 * size * m})
            for n, (size, c, m) in enumerate(machines)
        )
    )
    plugin = GlobalVariance(weights={"cpu": 1.0, "memory": weight})
    asked = request(cpu=cpu, memory=memory)
    change = (75.0 - rank(asked, offline.inputs(alone(plugin))).terms[0].raw) / 25.0
    brute = []
    before = [np.var([c for _, c, _ in machines]), np.var([m for _, _, m in machines])]
    for chosen, (size, _, _) in enumerate(machines):
        added = [asked.cpu / size, asked.memory / (2 * size)]
        after = [
            np.var([values[1 + r] + (added[r] if n == chosen else 0) for n, values in enumerate(machines)])
            for r in (0, 1)
        ]
        weighted = (after[0] - before[0]) + weight * (after[1] - before[1])
        brute.append(len(machines) * weighted / (1 + weight))
    assert change.tolist() == pytest.approx(brute, abs=1e-9)


def test_variance_over_the_feasible_only():
    """A machine that cannot be chosen pulls the mean only when all count."""
    machines = [machine("low", usage={"cpu": 2}), machine("high", usage={"cpu": 6}), machine("off", usage={"cpu": 10})]
    machines[2]["operator"] = {"cordon": True}
    offline, asked = fleet(*machines), request(cpu=1)
    score = {"use": "global_variance", "weights": {"cpu": 1.0}}
    by_all, by_feasible = (
        score_told(offline, {**score, "over": over}, asked, filters=[{"use": "cordon"}]) for over in ("all", "feasible")
    )
    over_all, over_feasible = ([told[name]["raw"] for name in ("low", "high")] for told in (by_all, by_feasible))
    assert over_all == pytest.approx([75 - 25 * 0.1 * (2 * (0.2 - 0.6) + 0.1 * 2 / 3), 75 - 25 * 0.1 * (0.1 * 2 / 3)])
    assert over_feasible == pytest.approx([75 - 25 * 0.1 * (-0.4 + 0.05), 75 - 25 * 0.1 * (0.4 + 0.05)])
    assert by_all["high"]["fleet_mean"] == pytest.approx({"cpu": 0.6})
    explained = by_feasible["high"]
    assert explained["fleet_mean"] == pytest.approx({"cpu": 0.4})
    assert 75 - 25 * 2 * explained["variance_change"] == pytest.approx(over_feasible[1])
