"""Scores by what is allocated, against kube-scheduler's own tables: its rows as requests and fleets of ours."""

import pytest

from schemas.resources import ABOUT, RESOURCES
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.scores.balanced_allocation import BalancedAllocation
from scorer.ranking.scores.least_allocated import LeastAllocated
from scorer.ranking.scores.most_allocated import MostAllocated
from scorer.ranking.scores.requested_to_capacity_ratio import RequestedToCapacityRatio
from tests.scorer.fleets import by_name, cases, fleet, machine, raw_scores, request, score_told, scores

DIFFERENT = {
    "resource weight larger than MaxNodeScore": "a weight has no upper bound: totals are divided by their sum",
    "resource with zero weight": "a weight of 0 leaves the resource out; the peer refuses the setting",
}
"""Rows that Windward deliberately answers otherwise, and why."""

DEFAULTS = {"default_cpu": 0.1, "default_memory": 200 * 2**20}
"""What the peer counts for a container that says nothing, as the built-in profile `kubernetes` has it."""

UNITS = {"cpu": ("cpu_millicores", 1000), "memory": ("memory_bytes", 1)}


def places(row):
    """Return which resource stands for each that a row weighs: what the peer calls extended takes one to spare."""
    named = [resource["name"] for resource in row["inputs"]["resources"]]
    others = [name for name in named if name not in UNITS]
    spare = [name for name in reversed(RESOURCES) if name not in named and not ABOUT[name].is_share]
    mine = {} if others and not set(named) & UNITS.keys() else {name: name for name in UNITS}
    return mine | dict(zip(others, spare, strict=False))


def amounts(said, at):
    keys = {name: UNITS.get(name, (name, 1)) for name in at}
    return {at[name]: said[key] / unit for name, (key, unit) in keys.items() if said.get(key) is not None}


def newcomer(containers, at):
    """Return the request for a pod. An instance asks for one amount: a deployer adds up what its containers ask.

    A pod without any container counts nothing: it asks for 0, which is not the same as not to say.
    """
    parts = [amounts(container, at) for container in containers] or [dict.fromkeys(at.values(), 0.0)]
    return {name: sum(part.get(name, 0.0) for part in parts) for name in {name for part in parts for name in part}}


def read(row):
    """Return the fleet of a row, its request, and the settings of a score. A placed container is an instance."""
    inputs, at = row["inputs"], places(row)
    machines = [
        machine(each["name"], None, None, capacity=amounts(each["allocatable"] or {}, at))
        for each in inputs["machines"]
    ]
    instances = [
        {"id": f"{pod_number}-{number}", "machine": pod["machine"], **amounts(container, at)}
        for pod_number, pod in enumerate(inputs["existing"])
        for number, container in enumerate(pod["containers"])
    ]
    settings = {
        "weights": {at[resource["name"]]: resource["weight"] for resource in inputs["resources"]},
        "extended": [place for name, place in at.items() if name not in UNITS],
        "rounding": True,
    }
    return fleet(*machines, instances=instances), request(**newcomer(inputs["incoming"]["containers"], at)), settings


@pytest.mark.parametrize(
    ("use", "row"),
    [
        pytest.param(use, row, id=f"{use}: {row['name']}")
        for use in ("least_allocated", "most_allocated")
        for row in cases(f"k8s_{use}")
        if row["name"] not in DIFFERENT
    ],
)
def test_allocated_as_kube_scheduler(use, row):
    offline, asked, settings = read(row)
    score = {"use": use, **settings, **DEFAULTS}
    if "status" in row["expected"] or "config_error_field" in row["expected"]:
        with pytest.raises(ProfileError, match="weights"):
            raw_scores(offline, score, asked)
        return
    assert raw_scores(offline, score, asked, credits="none") == row["expected"]["scores"]


@pytest.mark.parametrize(
    ("use", "row", "score"),
    [
        pytest.param(use, row, score, id=row["name"])
        for use, score in (("least_allocated", 25), ("most_allocated", 50))
        for row in cases(f"k8s_{use}")
        if row["name"] in DIFFERENT
    ],
)
def test_weights_that_the_peer_refuses(use, row, score):
    """101 of cpu and 1 of memory are as much as they are; 0 of cpu leaves memory alone."""
    offline, asked, settings = read(row)
    assert list(raw_scores(offline, {"use": use, **settings, **DEFAULTS}, asked).values()) == [score]


@pytest.mark.parametrize("use", ["least_allocated", "most_allocated", "requested_to_capacity_ratio"])
def test_an_amount_of_0_is_not_the_default(use):
    """As the peer: an explicit 0 counts 0, of the instance asked for as of those placed; none given the default."""

    def of(placed, **asked):
        offline = fleet(machine("m", 1, 1000 * 2**20), instances=[{"id": "i", "machine": "m", **placed}])
        return raw_scores(offline, {"use": use, "rounding": True, **DEFAULTS}, request(**asked))["m"]

    zero, default = {"cpu": 0, "memory": 0}, {"cpu": 0.1, "memory": 200 * 2**20}
    assert of({}) == of(default, **default) != of(zero) == of({}, **zero) == of(zero, **default)
    assert of(zero, **zero) != of(zero)


@pytest.mark.parametrize("kind", [LeastAllocated, MostAllocated, RequestedToCapacityRatio, BalancedAllocation])
def test_an_allocation_score_tells_the_shares_it_went_by(kind):
    offline = fleet(machine("m", 10, None), instances=[{"id": "i", "machine": "m", "cpu": 2, "memory": 5}])
    told = score_told(offline, {"use": kind.name}, request(cpu=1))["m"]
    assert told["shares"] == {"cpu": pytest.approx(0.3), "memory": None}


def seed_machines(inputs):
    def amounts_of(said):
        return {"cpu": said["cpu_millicores"] / 1000, "memory": said["memory_bytes"]}

    machines = [machine(m["name"], **amounts_of(m["capacity"])) for m in inputs["machines"]]
    there = [{"id": m["name"], "machine": m["name"], **amounts_of(m["requested"])} for m in inputs["machines"]]
    return fleet(*machines, instances=there)


@pytest.mark.parametrize(
    "row", cases("seed_examples", "least_allocated") + cases("seed_examples", "balanced"), ids=by_name
)
def test_the_studys_worked_examples(row):
    inputs, expected = row["inputs"], row["expected"]
    asked = request(cpu=inputs["request"]["cpu_millicores"] / 1000, memory=inputs["request"]["memory_bytes"])
    offline = seed_machines(inputs)

    def of(use, **settings):
        return list(raw_scores(offline, {"use": use, **settings}, asked).values())

    if row["kind"] == "least_allocated":
        assert of("least_allocated") == pytest.approx(expected["recomputed_exact"])
        assert of("least_allocated", rounding=True) == expected["k8s_integer"]
    else:
        assert of("balanced_allocation") == pytest.approx(expected["recomputed_exact"])
        assert of("balanced_allocation", rounding=True) == expected["k8s_integer_v135"]
        assert of("balanced_allocation", rounding=True, form="v1.36") == expected["k8s_integer_v136"]


@pytest.mark.parametrize(
    ("plugin", "score"), [(LeastAllocated, 60.0), (MostAllocated, 40.0), (RequestedToCapacityRatio, 60.0)]
)
def test_a_resource_without_allocatable_is_left_out(plugin, score):
    """4 of 10 cores; of memory the operators keep back all there is."""
    offline = fleet(machine("m", 10, 100, operator={"reserve": {"memory": 100}}))
    assert scores(plugin(weights={"cpu": 1.0, "memory": 1.0}), offline, request(cpu=4)) == {"m": score}


@pytest.mark.parametrize("row", cases("k8s_balanced_allocation"), ids=by_name)
def test_balanced_allocation_as_kube_scheduler(row):
    """Balance after the placement (to v1.35) and its change (v1.36) give the peer's whole numbers."""
    offline, asked, settings = read(row)
    form = {"std_after": "v1.22", "delta": "v1.36"}[row["inputs"]["variant"]]
    found = score_told(offline, {"use": "balanced_allocation", "form": form, **settings}, asked)
    skipped = row["expected"].get("status") == "Skip"
    assert {name: told["raw"] for name, told in found.items() if told} == ({} if skipped else row["expected"]["scores"])


def test_the_balance_of_two_is_half_their_distance_to_the_last_bit():
    """Of 8 and 1 of 10 the peer's floats make 64.99..., which truncates to 64, and so do ours."""
    offline = fleet(
        machine("m", "10m", 10), machine("other", "10m", 10), instances=[{"id": "i", "machine": "m", "memory": 1}]
    )
    found = scores(BalancedAllocation(rounding=True), offline, request(cpu="8m"))
    assert found == {"m": 64, "other": 60}


@pytest.mark.parametrize(
    "row", cases("seed_examples", "balanced_legacy") + cases("seed_examples", "balanced_legacy_volumes"), ids=by_name
)
def test_balance_as_up_to_v1_21(row):
    """The old form takes the distance of two shares, the variance of three, and 0 when one is full."""
    names = ("cpu", "memory", "nic")[: len(row["inputs"]["fractions"])]
    allocated = dict(zip(names, row["inputs"]["fractions"], strict=True))
    whole = machine("m", None, None, capacity=dict.fromkeys(names, PARTS))
    there = {name: share * PARTS for name, share in allocated.items()} | {"cpu": allocated["cpu"] * PARTS - 1}
    weights = dict.fromkeys(names, 1.0)
    score = {"use": "balanced_allocation", "form": "v1.21", "weights": weights, "extended": [], "rounding": True}
    found = raw_scores(fleet(whole, instances=[{"id": "a", "machine": "m", **there}]), score, request(cpu=1))
    assert found["m"] == row["expected"]["score"]


def test_one_resource_alone_is_balanced():
    """There is nothing to compare it with: 100 in every form, on a full machine, too."""
    offline = fleet(machine("m", 10, 10), instances=[{"id": "i", "machine": "m", "cpu": 6}])
    for form in ("v1.21", "v1.22"):
        plugin = BalancedAllocation(form=form, weights={"cpu": 1.0})
        assert [scores(plugin, offline, request(cpu=cpu))["m"] for cpu in (1, 4)] == [100, 100]


PARTS = 10_000
"""Cores, or bytes, of a machine whose allocated shares a row gives."""


@pytest.mark.parametrize("row", cases("k8s_requested_to_capacity_ratio", "score"), ids=by_name)
def test_requested_to_capacity_ratio_as_kube_scheduler(row):
    offline, asked, settings = read(row)
    shape = [[point["utilization_percent"], point["score_0_10"]] for point in row["inputs"]["shape"]]
    score = {"use": "requested_to_capacity_ratio", "shape": shape, **settings, **DEFAULTS}
    assert raw_scores(offline, score, asked) == row["expected"]["scores"]


@pytest.mark.parametrize(
    ("name", "allocatable", "expected"),
    [
        ("a resource without allocatable is left out", {"cpu": 0, "memory": 1000}, 30),
        ("so is one whose allocatable nobody knows", {"memory": 1000}, 30),
        ("without any the score is 0", {"cpu": 0, "memory": 0}, 0),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_ratio_of_a_resource_that_is_not_there(name, allocatable, expected):
    offline = fleet(machine("m", None, None, capacity=allocatable))
    plugin = RequestedToCapacityRatio(shape=((0, 0), (100, 10)), rounding=True)
    assert scores(plugin, offline, request(cpu=1, memory=300)) == {"m": expected}


def test_a_resource_that_scores_0_counts_neither_way():
    """0 is neutral in the peer: a full resource beside one of 80 leaves 80."""
    offline = fleet(machine("m", 1, 100))
    score = {"use": "requested_to_capacity_ratio", "shape": [[0, 10], [100, 0]], "rounding": True}
    assert raw_scores(offline, score, request(cpu=1, memory=20)) == {"m": 80}


@pytest.mark.parametrize("row", cases("k8s_requested_to_capacity_ratio", "broken_linear"), ids=by_name)
def test_broken_line_truncates_as_the_peer(row):
    points = [(point["utilization"], point["score"]) for point in row["inputs"]["points"]]
    at = row["inputs"]["p"]
    if not (points[0][0] >= 0 and points[-1][0] <= 100 and 0 <= at <= 100 and all(0 <= y <= 100 for _, y in points)):
        pytest.skip("no machine has such a utilization, and no shape such a point")
    shape = tuple((float(x), y / 10) for x, y in points)
    plugin = RequestedToCapacityRatio(shape=shape, rounding=True, weights={"cpu": 1.0})
    found = scores(plugin, fleet(machine("m", 100)), request(cpu=at))
    assert found == {"m": row["expected"]["value"]}
