"""Ranking: global variance against brute force, normalisation, ties, stale data, windows, and the answer in words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.request import InvalidRequest
from scorer.fleet_file import OfflineFleet
from scorer.ledger_view import instance_of
from scorer.plot import save_plot
from scorer.profile import Profile, Sight, load_profiles, parse_profile
from scorer.rank import Among, Ranking, normalise, rank
from scorer.scores.data_locality import DataLocality
from scorer.scores.global_variance import GlobalVariance
from scorer.scores.machine_preference import MachinePreference
from scorer.scores.spread import Spread
from scorer.scores.taint_preference import TaintPreference
from tests.scorer.fleets import by_name, cases, fleet, machine, request, scores, see

PROFILES = load_profiles()


def ranked(offline: OfflineFleet, profile: str | Profile = "windward", **asked: Any) -> Ranking:
    """Return the ranking of a fleet under a profile."""
    chosen = PROFILES.choose(profile) if isinstance(profile, str) else profile
    return rank(request(**asked), offline.snapshot, offline.ledger, chosen, offline.now_s)


# ---- global variance


loads = st.lists(
    st.tuples(st.sampled_from([4.0, 16.0, 64.0]), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12
)


@settings(deadline=None)
@given(machines=loads, cpu=st.floats(0, 4), memory=st.floats(0, 8), weight=st.floats(0.1, 5))
def test_the_closed_form_is_the_variance(
    machines: list[tuple[float, float, float]], cpu: float, memory: float, weight: float
) -> None:
    """Order and distance are those of the population variance computed for each placement anew, any capacities."""
    offline = fleet(
        *(
            machine(f"m{n}", size, 2 * size, usage={"cpu": size * c, "memory": 2 * size * m})
            for n, (size, c, m) in enumerate(machines)
        )
    )
    plugin = GlobalVariance(weights={"cpu": 1.0, "memory": weight})
    asked = request(cpu=cpu, memory=memory)
    change = plugin.change(see(offline, asked))
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


def test_variance_over_the_feasible_only() -> None:
    """A machine that cannot be chosen pulls the mean only when all count."""
    machines = [machine("low", usage={"cpu": 2}), machine("high", usage={"cpu": 6}), machine("off", usage={"cpu": 10})]
    seen = see(fleet(*machines), request(cpu=1))
    seen.feasible = np.array([True, True, False])
    by_all, by_feasible = GlobalVariance(weights={"cpu": 1}), GlobalVariance(weights={"cpu": 1}, over="feasible")
    over_all, over_feasible = by_all(seen.request, seen), by_feasible(seen.request, seen)
    assert over_all[:2] == pytest.approx(
        [75 - 25 * 0.1 * (2 * (0.2 - 0.6) + 0.1 * 2 / 3), 75 - 25 * 0.1 * (0.1 * 2 / 3)]
    )
    assert over_feasible[:2] == pytest.approx([75 - 25 * 0.1 * (-0.4 + 0.05), 75 - 25 * 0.1 * (0.4 + 0.05)])
    high = seen.take(np.array([1]))
    assert by_all.detail(seen.request, high, 0)["fleet_mean"] == pytest.approx({"cpu": 0.6})
    explained = by_feasible.detail(seen.request, high, 0)
    assert explained["fleet_mean"] == pytest.approx({"cpu": 0.4})
    assert 75 - 25 * 2 * explained["variance_change"] == pytest.approx(over_feasible[1])


def test_an_answer_for_another_machine_warns_of_that_one() -> None:
    """One of a batch went there: the best machine's data are not its concern."""
    offline = fleet(machine("a"), machine("b", usage={"cpu": 1, "memory": 1}))
    found = ranked(offline, "kubernetes", cpu=1)
    warned = {name: found.answer_for(offline.snapshot.roster.index[name])["warnings"] for name in "ab"}
    assert warned == {"a": ["a has no data"], "b": []}


def test_equal_machines_tie_and_the_first_name_wins() -> None:
    """Between equals the name decides, whatever the order of the rows."""
    names = ["m2", "m10", "m1", "m3"]
    offline = fleet(*(machine(name, usage={"cpu": 1, "memory": 1}) for name in names))
    found = ranked(offline, cpu=1)
    assert [offline.snapshot.names[row] for row in found.order] == ["m1", "m10", "m2", "m3"]
    assert np.ptp(found.total) == 0


@settings(deadline=None, max_examples=40)
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
    orders = [[each.snapshot.names[row] for row in ranked(each, cpu=cpu).order] for each in (first, second)]
    assert orders[0] == orders[1]


def test_the_best_few_are_the_first_of_the_whole_order() -> None:
    """Choosing a few of many finds the same as sorting all, ties included."""
    rng = np.random.default_rng(1)
    offline = fleet(*(machine(f"m{n:04}", usage={"cpu": int(rng.integers(0, 8)), "memory": 5}) for n in range(1500)))
    found = ranked(offline, cpu=1)
    for count in (1, 5, 40, 200):
        assert found.best(count).tolist() == found.order[:count].tolist()


# ---- normalisation and the small scores


@pytest.mark.parametrize(
    ("how", "expected"), [("none", [1.0, 3.0, 2.0, 3.0]), ("min-max", [0, 100, 50, 100]), ("rank", [0, 100, 50, 100])]
)
def test_normalisation(how: Any, expected: list[float]) -> None:
    """As they are, spread between least and largest, or by place."""
    values, slope, start = normalise(np.array([1.0, 3.0, 2.0, 3.0]), Among(np.ones(4, bool)), how)
    assert (slope * values + start).tolist() == pytest.approx(expected)


def test_normalisation_looks_at_the_feasible_only_and_spreads_no_rounding_errors() -> None:
    """An infeasible extreme does not count; values equal up to rounding all become 100."""
    values, slope, start = normalise(np.array([0.0, 1.0, 2.0]), Among(np.array([False, True, True])), "min-max")
    assert (slope * values + start).tolist()[1:] == [0, 100]
    values, slope, start = normalise(np.array([75.0, 75.0 + 1e-14]), Among(np.ones(2, bool)), "min-max")
    assert (slope * values + start).tolist() == [100, 100]


def test_preferences_taints_data_and_spread() -> None:
    """The small scores prefer what their request asks for."""
    offline = fleet(
        machine(
            "a", labels={"disk": "ssd", "image-x": "yes"}, operator={"taints": [{"key": "old", "effect": "avoid"}]}
        ),
        machine("b", labels={"disk": "hdd", "rack": "r1"}),
        instances=[{"id": "1", "machine": "a", "cluster": "c"}],
    )
    prefer = request(prefer=[{"selector": "disk=ssd", "weight": 3}, {"selector": "rack", "weight": 1}])
    assert scores(MachinePreference(), offline, prefer) == {"a": 100, "b": pytest.approx(100 / 3)}
    assert scores(MachinePreference(rounding=True), offline, prefer)["b"] == 33
    assert scores(TaintPreference(), offline) == {"a": 0, "b": 100}
    assert scores(TaintPreference(), offline, request(tolerations=[{"key": "old"}])) == {"a": 100, "b": 100}
    assert scores(DataLocality(), offline, request(data_labels=["image-x", "disk=hdd"])) == {"a": 50, "b": 50}
    assert scores(Spread(), offline, request(cluster="c")) == {"a": 0, "b": 100}
    assert scores(Spread(), offline, request(cluster="other")) == {"a": 100, "b": 100}


# ---- windows and data


@pytest.mark.parametrize("row", cases("load_watcher", "window"), ids=by_name)
def test_a_window_not_kept_falls_back_to_the_next_shorter(row: dict[str, Any]) -> None:
    """A profile's window that is not kept becomes the next shorter one, as load-watcher means it."""
    lengths = {"5m": 300, "10m": 600, "15m": 900}
    kept = sorted(lengths[name] for name in row["inputs"]["caches"])
    used = Sight(window=lengths[row["inputs"]["asked"]]).window_s(kept)
    name = next(name for name, length in lengths.items() if length == used)
    assert row["inputs"]["caches"][name][-1] == row["expected"]["values"]


def test_each_machine_goes_by_its_longest_covered_window() -> None:
    """A machine five minutes old is judged by five minutes beside others judged by the hour."""
    thin = {"cpu": {"mean": 5, "coverage": 0.1}, "memory": {"mean": 5, "coverage": 0.1}}
    young = {"300": {"cpu": 9, "memory": 9}, "3600": thin}
    offline = fleet(
        machine("old", windows={"300": {"cpu": 1, "memory": 1}, "3600": {"cpu": 2, "memory": 2}}),
        machine("young", windows=young),
        machine("younger", windows={"300": thin, "3600": thin}),
    )
    machines = see(offline)
    assert machines.window_s.tolist() == [3600, 300, 3600]
    assert machines.mean[0].tolist() == [2, 9, 5]
    assert machines.warming.tolist() == [False, False, True]
    assert see(offline, None, Sight(window="shortest")).mean[0].tolist() == [1, 9, 5]


def test_a_requests_own_window_must_be_kept() -> None:
    """An unknown window in the request is an error that names the field and those there are."""
    offline = fleet(machine("m", usage={"cpu": 1, "memory": 1}))
    assert ranked(offline, window_s=300).machines.window_s.tolist() == [300]
    with pytest.raises(InvalidRequest, match="window_s: no window of 120 s is kept; there are 300, 900, 3600"):
        ranked(offline, window_s=120)


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
    refused = ranked(fleet(*old, instances=promised), cpu=2)
    assert refused.summary == "0/2 feasible: 2 stale"
    alone = ranked(fleet(*old, instances=promised), parse_profile(ALONE, "alone"), cpu=2)
    assert alone.chosen == "b"
    assert alone.answer()["warnings"][0] == "no machine has data younger than 60 s: ranked by requests alone"
    fresh = machine("c", usage={"cpu": 9, "memory": 90})
    assert ranked(fleet(*old, fresh, instances=promised), parse_profile(ALONE, "alone"), cpu=1).chosen == "c"


# ---- the answer


def mixed() -> OfflineFleet:
    """Return five machines of which none takes much: three busy, two stale."""
    busy = [machine(f"busy{n}", usage={"cpu": 9.5, "memory": 10}) for n in range(3)]
    return fleet(*busy, *(machine(f"old{n}", usage={"cpu": 1, "memory": 1}, age_s=900) for n in range(2)))


def test_no_machine_fits_is_an_answer_in_one_line() -> None:
    """The reason line counts each refused machine once, for the first filter that refused it."""
    found = ranked(mixed())
    assert found.chosen is None
    assert found.summary == "0/5 feasible: 3 cpu over threshold, 2 stale"
    answer = found.answer()
    assert answer["machine"] is None
    assert answer["candidates"] == []
    assert answer["refusals"] == [
        {"filter": "usage_threshold", "reason": "cpu over threshold", "machines": 3},
        {"filter": "fresh", "reason": "stale", "machines": 2},
    ]


def test_a_request_larger_than_any_machine_says_so() -> None:
    """More than any machine has is told from full machines."""
    assert ranked(mixed(), cpu=1000).summary == "0/5 feasible: 3 cpu larger than the machine, 2 stale"


def test_the_answer_has_the_terms_of_the_choice() -> None:
    """Mean, std, credit, request, window, age, scores with raw value and weight, runners-up and warnings, as JSON."""
    offline = fleet(
        machine("a", usage={"cpu": {"mean": 2, "std": 1}, "memory": 20}, age_s=7),
        machine("b", usage={"cpu": {"mean": 6, "std": 1}, "memory": 60}),
        instances=[{"id": "i", "machine": "a", "cpu": 1, "memory": 10, "placed_ago_s": 0}],
    )
    answer = ranked(offline, cpu=2, memory=5).answer()
    json.dumps(answer, allow_nan=False)
    best, runner_up = answer["candidates"]
    assert (answer["machine"], best["machine"], runner_up["machine"]) == ("a", "a", "b")
    assert best["resources"]["cpu"] == {
        "mean": 2.0, "std": 1.0, "credit": 1.0, "promised": 1.0, "allocatable": 10.0, "utilization": pytest.approx(0.3),
        "request": 2.0,
    }  # fmt: skip
    assert (best["window_s"], best["age_s"], best["instances"]) == (3600, pytest.approx(7), 1)
    assert best["scores"]["global_variance"]["weight"] == 3
    assert best["risk"] == pytest.approx((0.3 + 0.2 + 0.1) / 2)
    assert best["score"] == pytest.approx((3 * 100 + 100 * (1 - best["risk"])) / 4)
    assert answer["expected"] == {"cpu": 2, "memory": 5, "nic": 0}


def test_explain_has_every_machine_with_every_verdict() -> None:
    """With explain each machine shows each filter's verdict with what it compared, the refused ones too."""
    answer = ranked(mixed(), explain=True, cpu=1).answer()
    assert len(answer["machines"]) == 5
    shown = {each["machine"]: each for each in answer["machines"]}
    verdict = next(each for each in shown["busy0"]["filters"] if each["filter"] == "fits")
    assert verdict["allowed"] is False
    assert verdict["reason"] == "cpu too full"
    assert verdict["compared"]["taken"]["cpu"] == 9.5
    assert "machines" not in ranked(mixed(), cpu=1).answer()


def test_warnings_tell_warming_and_stale() -> None:
    """A chosen machine that is warming, and how many others are, or have old data."""
    thin = {"cpu": {"mean": 1, "coverage": 0.2}, "memory": {"mean": 1, "coverage": 0.2}}
    offline = fleet(machine("new", usage=thin), machine("old", usage={"cpu": 1}, age_s=900))
    warnings = ranked(offline).answer()["warnings"]
    assert warnings == [
        "new is warming: 20% of its window is covered",
        "1 of 2 machines are warming",
        "1 of 2 machines have data older than 60 s",
    ]


def test_a_ranking_stays_as_it_was_when_the_ledger_moves_on() -> None:
    """An answer read after later placements shows what the decision saw."""
    offline = fleet(*(machine(f"m{n}", usage={"cpu": 1, "memory": 1}) for n in range(3)))
    first = ranked(offline, cpu=1)
    before = json.dumps(first.answer(3, explain_all=True))
    for number in range(5):
        offline.ledger.apply(instance_of(request(cpu=1), "m0", offline.now_s, f"i{number}"))
        ranked(offline, cpu=1)
    assert json.dumps(first.answer(3, explain_all=True)) == before


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_patched_columns_equal_columns_made_anew(data: st.DataObject) -> None:
    """After any placements and releases a ranking equals that of a fresh view of the same ledger."""
    described = [machine(f"m{n}", usage={"cpu": n % 5, "memory": 10 * (n % 4)}) for n in range(6)]
    offline = fleet(*described)
    asked = {"cpu": 1, "memory": 5, "maxmemory": 1, "ports": [1]}
    live: list[str] = []
    for number in range(data.draw(st.integers(1, 8))):
        ranked(offline, data.draw(st.sampled_from(sorted(PROFILES.by_name))), **asked)
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
        patched, fresh = ranked(offline, name, **asked), ranked(anew, name, **asked)
        assert patched.feasible.tolist() == fresh.feasible.tolist()
        assert patched.total.tolist() == pytest.approx(fresh.total.tolist(), abs=1e-9)


def test_a_plot_is_a_png(tmp_path: Any) -> None:
    """The candidates are drawn into a PNG file, and so is an answer without any."""
    for name, offline in (("some", fleet(machine("m", usage={"cpu": 1, "memory": 1}))), ("none", mixed())):
        path = tmp_path / f"{name}.png"
        save_plot(ranked(offline, cpu=1).answer(), path)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_score_used_twice_is_told_twice() -> None:
    """Packing by cpu and by memory: the second has its number, and a refused machine no place in either."""
    text = '[[filters]]\nuse = "cordon"\n' + "".join(
        f'[[scores]]\nuse = "target_load_packing"\nresource = "{name}"\n' for name in ("cpu", "memory")
    )
    offline = fleet(
        machine("a", usage={"cpu": 4, "memory": 0}), machine("b", usage={"cpu": 4}, operator={"cordon": True})
    )
    found = rank(request(), offline.snapshot, offline.ledger, parse_profile(text, "twice"), offline.now_s)
    told = {one["machine"]: one["scores"] for one in found.answer(explain_all=True)["machines"]}
    assert {name: score["value"] for name, score in told["a"].items()} == {
        "target_load_packing": 100,
        "target_load_packing 2": 40,
    }
    assert [score["value"] for score in told["b"].values()] == [None, None]


@pytest.mark.parametrize("profile", sorted(PROFILES.by_name))
@pytest.mark.parametrize(
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
