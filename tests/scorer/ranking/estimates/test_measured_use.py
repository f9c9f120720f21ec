"""What is learned of measured instances: each kind's own, whoever lies; who uses it, and how sure it is."""

import math
from itertools import product

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import CPU, RESOURCES
from schemas.rpc.request import Request
from schemas.tables.learned import Learned, read_learned
from scorer.ledger.view.slots import code_of_kind, request_record
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.estimates import measured_use
from scorer.ranking.estimates.estimate import Estimate, LearnedEstimate
from scorer.ranking.estimates.measured_use import (
    FLEET,
    HALF_LIFE_S,
    USE_MAX,
    MeasuredInstances,
    _medians,
    added,
    believed,
    expected,
    learn,
    measured_instances,
    octave_of,
    octaves_of,
)
from tests.scorer.fleets import fleet, machine

R = len(RESOURCES)
KINDS = [f"kind-{number}" for number in range(12)]
DAY_S = 86_400.0


def measured(kinds, use, rows, *, cores=4.0, seconds=3600.0):
    cpu = np.full((R, use.size), np.nan)
    cpu[CPU] = use
    return MeasuredInstances(
        codes=np.array([code_of_kind(kind) for kind in kinds], np.int64),
        octaves=octaves_of(np.broadcast_to(np.asarray(cores, float), use.shape)),
        rows=np.asarray(rows, np.int64),
        use=cpu,
        noise=np.where(np.isfinite(cpu), 0.01, np.nan),
        measured_s=np.full(use.size, seconds),
    )


def made_up(seed, machines=60, each=12):
    """Return kinds, uses and machines of a fleet, and the true mean of each of `KINDS`; use is skewed, as it is."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.1, 0.8, len(KINDS))
    of = rng.integers(len(KINDS), size=machines * each)
    use = np.minimum(truth[of] * rng.gamma(4.0, 0.25, of.size), 2.0)
    return [KINDS[at] for at in of], use, np.repeat(np.arange(machines), each), truth


def learned_means(uses):
    return {group: one.mean for group, one in expected(uses, "cpu")[0].items()}


@pytest.mark.parametrize("seed", range(5))
def test_each_kinds_own_mean_is_found(seed):
    """To the error of sixty instances; the fleet's is that of all but one machine in sixty, which may seem to lie."""
    kinds, use, rows, truth = made_up(seed)
    found = learned_means(added({}, measured(kinds, use, rows), KINDS, 0.0))
    errors = [found[kind] - mean for kind, mean in zip(KINDS, truth, strict=True)]
    assert np.abs(errors).max() < 0.15
    assert float(np.sqrt(np.mean(np.square(errors)))) < 0.06
    assert found[FLEET] == pytest.approx(use.mean(), abs=0.003)


LIES = {
    "all that can be said": lambda use, _: np.full(use.shape, 4.0),
    "nothing": lambda use, _: 0.0 * use,
    "twice": lambda use, _: 2.0 * use,
    "a little more": lambda use, _: use + 0.3,
    "by chance": lambda use, rng: rng.uniform(0, 4.0, use.size),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_tenth_of_the_machines_lies(lie, seed):
    kinds, use, rows, _ = made_up(seed)
    true = learned_means(added({}, measured(kinds, use, rows), KINDS, 0.0))
    rng = np.random.default_rng(seed)
    liars = np.isin(rows, rng.choice(60, 6, replace=False))
    told = np.where(liars, LIES[lie](use, rng), use)
    found = learned_means(added({}, measured(kinds, told, rows), KINDS, 0.0))
    assert max(abs(found[kind] - true[kind]) for kind in KINDS) < 0.05
    assert abs(found[FLEET] - true[FLEET]) < 0.05


def told_by(liars, use, of, rows, lie):
    """Return what liars say: more of one kind; of the rest what is true or usual, less by what the kind is more."""
    kind, more, as_usual, makes_up = lie
    usual, told = _medians(use, of)[of], use.copy()
    theirs, rest = liars & (of == kind), liars & (of != kind)
    told[rest] = as_usual * usual[rest] if as_usual else use[rest]
    told[theirs] = np.clip((usual if as_usual else use)[theirs] + more, 0.0, USE_MAX)
    for machine_row in np.unique(rows[theirs]) if makes_up else ():
        here = rows == machine_row
        told[rest & here] -= makes_up * np.abs(told - usual)[theirs & here].sum() / (rest & here).sum()
    return np.clip(told, 0.0, USE_MAX)


@pytest.mark.parametrize("seed", [0, 6, 7])
@pytest.mark.parametrize(("chosen", "most"), [(False, 0.45), (True, 0.9)])
def test_a_tenth_of_the_machines_lies_and_knows_the_rule(chosen, most, seed):
    """They say as much too much, or too little, of one kind as is just believed: how far docs/learning.md says.

    At random, or chosen for most instances of the kind. What is found by halving is the most that is believed.
    """
    kinds, use, rows, _ = made_up(seed)
    of, rows = np.array([KINDS.index(kind) for kind in kinds]), np.asarray(rows, np.int64)
    at_random = np.random.default_rng(seed).choice(60, 6, replace=False)
    known, moved = np.ones(use.size, np.bool_), [0.0]
    honest = believed(use, known, of, rows)
    assert honest.mean() > 0.98
    for kind, way, as_usual, makes_up in product(range(len(KINDS)), (1.0, -1.0), (1.0, 0.9, None), (1.0, 0.5, 0.0)):
        less, more = 0.0, USE_MAX
        most_of_it = np.argsort(-np.bincount(rows[of == kind], minlength=60))[:6]
        liars = np.isin(rows, most_of_it if chosen else at_random)
        for _ in range(6):
            middle = (less + more) / 2
            told = told_by(liars, use, of, rows, (kind, way * middle, as_usual, makes_up))
            good = believed(told, known, of, rows)
            moved.append(abs(told[good & (of == kind)].mean() - use[honest & (of == kind)].mean()))
            less, more = (middle, more) if good[liars].all() else (less, middle)
    assert 0.05 < max(moved) < most


def test_one_owner_uses_much_honestly():
    kinds, use, rows, _ = made_up(3)
    true = learned_means(added({}, measured(kinds, use, rows), KINDS, 0.0))
    theirs = np.array([kind == "kind-4" for kind in kinds])
    found = learned_means(added({}, measured(kinds, np.where(theirs, 3.0, use), rows), KINDS, 0.0))
    assert found["kind-4"] > 2.5
    assert max(abs(found[kind] - true[kind]) for kind in KINDS if kind != "kind-4") < 0.05


def test_the_stated_error_covers_the_truth():
    """Of a hundred fleets whose kinds are drawn, in ninety and more within 1.96 errors."""
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        kinds = [f"k{number}" for number in range(30)]
        truth = rng.gamma(4.0, 0.1, 30)  # the mean of all kinds there could be: 0.4
        of = rng.integers(30, size=600)
        seen = measured([kinds[at] for at in of], truth[of] * rng.gamma(9.0, 1 / 9, 600), np.repeat(np.arange(60), 10))
        found, error = expected(added({}, seen, kinds, 0.0), "cpu")
        covered += abs(found[FLEET].mean - 0.4) <= 1.96 * error
    assert covered >= 90


def test_few_instances_say_little():
    """One instance of a kind is thought to be much as the fleet is, thirty are known for what they are."""
    kinds, use, rows, _ = made_up(1)
    more = [*kinds, "rare", *["often"] * 30]
    seen = measured(more, np.concatenate([use, [2.0], [2.0] * 30]), np.concatenate([rows, [0], np.arange(30)]))
    found, _ = expected(added({}, seen, [*KINDS, "rare", "often"], 0.0), "cpu")
    fleet = found[FLEET].mean
    assert abs(found["rare"].mean - fleet) < 0.6 * (2.0 - fleet)
    assert found["often"].mean > 1.8
    assert found["rare"].deviation > 2 * found["often"].deviation


def test_sizes_of_a_kind_differ():
    """Small instances use 0.6 of what they ask and large ones 0.2; a size that was never seen is as its kind is."""
    rng = np.random.default_rng(5)
    cores = np.where(rng.random(600) < 0.5, 1.0, 16.0)
    use = np.where(cores > 1, 0.2, 0.6) * rng.gamma(16.0, 1 / 16, 600)
    uses = added({}, measured(["a"] * 600, use, np.arange(600) % 50, cores=cores), ["a"], 0.0)
    of = estimate(uses)
    for size, part in ((1.0, 0.6), (16.0, 0.2), (4.0, float(use.mean()))):
        assert cpu_of(of, Request(cpu=size, kind="a")) / size == pytest.approx(part, abs=0.02)
    assert cpu_of(of, Request(cpu=16.0, kind="never seen")) / 16 == pytest.approx(0.2, abs=0.02)


def test_what_was_seen_fades_by_half_in_a_day():
    """A kind that uses more from today on is half known for it when as much of today is seen as of yesterday."""
    kinds, rows = ["a"] * 40, np.arange(40)
    uses = added({}, measured(kinds, np.full(40, 0.2), rows, seconds=DAY_S), ["a"], 0.0)
    assert uses["a"]["cpu"].time == 40 * DAY_S
    uses = added(uses, measured(kinds, np.full(40, 0.8), rows, seconds=DAY_S), ["a"], HALF_LIFE_S)
    use = uses["a"]["cpu"]
    assert use.time == pytest.approx(1.5 * 40 * DAY_S)
    assert use.mean == pytest.approx((0.2 * 0.5 + 0.8) / 1.5)
    assert use.between == pytest.approx(0.36 * (1 / 3) * (2 / 3))
    uses = added(uses, measured(["b"], np.array([0.5]), np.array([0])), ["a", "b"], HALF_LIFE_S)
    assert uses["a"]["cpu"].time == pytest.approx(0.75 * 40 * DAY_S)
    assert uses["a"]["cpu"].live == 0
    assert uses["a"]["cpu"].seen == pytest.approx(20, abs=10)


def test_it_goes_on_after_what_was_kept(monkeypatch):
    monkeypatch.setattr(measured_use, "GROUPS_MAX", 4)
    kinds = [kind for number, kind in enumerate(KINDS) for _ in range(number + 1)]
    uses = added({}, measured(kinds, np.full(len(kinds), 0.5), np.arange(len(kinds))), KINDS, 0.0)
    assert set(uses) == {FLEET, f"{FLEET}\t22", KINDS[-1], f"{KINDS[-1]}\t22"}


@pytest.mark.parametrize("instances", [0, 5, 19])
def test_too_few_instances_teach_nothing(instances):
    uses = added({}, measured(["a"] * instances, np.full(instances, 0.5), np.arange(instances)), ["a"], 0.0)
    assert expected(uses, "cpu") == ({}, math.inf)


def estimate(uses):
    found, _ = expected(uses, "cpu")
    groups = {group: one for group, one in found.items() if group != FLEET}
    return LearnedEstimate.of_learned(
        Estimate(),
        Learned(
            factors={"cpu": found[FLEET].mean} if found else {},
            kinds={group: {"cpu": one.mean} for group, one in groups.items()},
            deviations={group: {"cpu": one.deviation} for group, one in found.items()},
            instances={group: {"cpu": one.instances} for group, one in found.items()},
        ),
    )


def cpu_of(of, request):
    return float(of.of_records(request_record(request))[CPU, 0])


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "a", "b", "c"]), st.sampled_from([0.0, 0.3, 1.0, 3.9, 4.0, 70.0])), min_size=1
    )
)
def test_a_placed_instance_is_expected_to_use_what_its_request_was(asked):
    """What the fleet's instances are expected to use, and the requested one alone, for every kind and size."""
    rng = np.random.default_rng(1)
    kinds = ["a", "b", "", "a"] * 20
    cores = np.array([1.0, 4.0, 4.0, 64.0] * 20)
    of = estimate(added({}, measured(kinds, rng.uniform(0, 1, 80), np.arange(80) % 20, cores=cores), ["a", "b"], 0.0))
    requests = [Request(id=f"i{n}", cpu=size or None, kind=kind) for n, (kind, size) in enumerate(asked)]
    view = LedgerView([instance_of(each, "m1", 0.0) for each in requests])
    slots, _ = view.slots.live()
    placed = of.of_records(view.slots.take(slots, np.zeros(slots.size, np.int64)).records)[CPU]
    known = {each.id: cpu_of(of, each) for each in requests}
    assert sorted(placed.tolist()) == pytest.approx(sorted(known.values()))
    for each in requests:
        part, _ = of.learned_of("cpu", each)
        assert known[each.id] == pytest.approx((each.cpu or 0.0) * (1.0 if part is None else part))


@pytest.mark.parametrize(
    ("said", "part"),
    [
        pytest.param({"cluster": "cart-17", "role": "master"}, 0.2, id="of its cluster and role"),
        pytest.param({"cluster": "cart-17", "role": "replica"}, 0.6, id="of another role"),
        pytest.param({"labels": {"owner": "pay", "app": "shop"}}, 0.9, id="by a label"),
        pytest.param({"cluster": "cart-17", "role": "master", "kind": "shop"}, None, id="its kind is said"),
        pytest.param({"id": "cart-17"}, None, id="an id alone"),
    ],
)
def test_an_instance_without_a_kind_is_like_those_that_say_the_same(said, part):
    kinds = ["cluster=cart-*,role=master", "cluster=cart-*,role=replica", "app=shop"]
    use = np.array([0.2, 0.6, 0.9] * 40)
    of = estimate(added({}, measured(kinds * 40, use, np.arange(120) % 20), kinds, 0.0))
    request = Request(**{"id": "i1", "cpu": 4.0, **said})
    view = LedgerView([instance_of(request, "m1", 0.0)])
    slots, _ = view.slots.live()
    wanted = pytest.approx(4 * (part or of.learned_of("cpu", Request())[0]), rel=0.05)
    placed = view.slots.take(slots, np.zeros(1, np.int64)).records
    assert [cpu_of(of, request), of.of_records(placed)[CPU, 0]] == [wanted] * 2


def test_the_deviation_of_a_newcomer():
    """Of its group, as a share of what it asks; none where it says itself what it will use, or gives no amount."""
    kinds, use, rows, _ = made_up(2)
    of = estimate(added({}, measured(kinds, use, rows), KINDS, 0.0))
    found = of.deviation_of_request(Request(cpu=4.0, kind="kind-1"))
    own = use[[kind == "kind-1" for kind in kinds]]
    assert found[CPU] == pytest.approx(4 * math.hypot(own.std(), 0.1), rel=0.25)
    assert np.isnan(found[1:]).all()
    for request in (Request(cpu=4.0, expected={"cpu": 1.0}), Request(memory=1e9)):
        assert np.isnan(of.deviation_of_request(request)).all()
    assert Estimate().deviation_of_request(Request(cpu=4.0)) is None


@given(st.floats(0, 1e6, allow_subnormal=False))
def test_one_size_is_in_the_octave_of_the_column(cores):
    assert octave_of(cores) == octaves_of(np.array([cores]))[0]


def test_a_fleet_without_reports_has_no_measured_instances():
    state = fleet(machine("m1"))
    placed = state.ledger.slots.take(*(np.zeros(0, np.int64),) * 2)
    assert measured_instances(state.snapshot, placed, np.full((R, 1), np.inf)) is None
    assert learn(Learned(), state.snapshot, state.ledger, state.now_s) is None


@pytest.mark.parametrize(
    ("cores", "used", "counts"),
    [(10, 9, True), (10, 10.5, True), (10, 20, False), (160, 150, True), (1e6, 150, True), (1e6, 170, False)],
)
def test_usage_that_a_machine_cannot_have_is_no_evidence(cores, used, counts):
    """By its capacity, of which at most 16 times the fleet's median of 10 cores is believed; its neighbours count."""
    seen = {"usage": {"cpu": 5}}
    hosts = [machine("a", cores, **seen), *(machine(f"m{number}", 10, **seen) for number in range(4))]
    used_of = dict.fromkeys((host["name"] for host in hosts), 5) | {"a": used}
    instances = [
        {"id": f"of-{name}", "machine": name, "cpu": 100, "kind": name, "usage": {"cpu": cpu}, "usage_since_s": 1e4}
        for name, cpu in used_of.items()
    ]
    state = fleet(*hosts, instances=instances, now=1e6)
    learned = learn(Learned(), state.snapshot, state.ledger, state.now_s)
    assert {kind for kind in used_of if kind in learned.uses} == {*used_of} - ({"a"} if not counts else set())


def test_factors_and_deviations_are_published_with_their_error():
    hosts = [machine(f"m{number}", 10, usage={"cpu": 5}) for number in range(25)]
    instances = [
        {"id": f"i{number}", "machine": f"m{number}", "cpu": 2, "kind": "low" if number % 2 else "high",
         "usage": {"cpu": 0.02 if number % 2 else 7.0}, "usage_since_s": 1e6}
        for number in range(25)
    ]  # fmt: skip
    state = fleet(*hosts, instances=instances, now=1e7)
    learned = learn(Learned(version=3), state.snapshot, state.ledger, state.now_s)
    assert (learned.version, learned.uses_at) == (4, state.now_s)
    assert learned.kinds["high"]["cpu"] == 1.5
    assert learned.instances[FLEET]["cpu"] == 25
    assert "cpu" not in learned.factors  # two kinds that differ so much say little of a third


def test_a_value_of_an_earlier_scorer_is_read_without_what_windows_taught():
    """Its factors of resources and kinds that no measured instance says are left out; uses and chances stay."""
    raw = b"""{"v":1,"version":7,"at":9.0,"uses_at":8.0,"scorer":"s1","lease":3,
        "factors":{"cpu":0.5,"memory":0.9},"errors":{"cpu":0.1,"memory":0.1},
        "kinds":{"web":{"cpu":0.4,"memory":0.8},"cache":{"memory":0.7},"torn":{"cpu":0.4}},
        "deviations":{"":{"cpu":0.2},"web":{"cpu":0.1}},"instances":{"":{"cpu":40.0},"web":{"cpu":30.0},"torn":{"cpu":9.0}},
        "uses":{"":{"cpu":{"time":5.0,"mean":0.5,"between":0.1,"within":0.2}}},
        "evidence":{"memory":{"count":50.0,"xx":100.0,"xy":90.0,"yy":81.0,"instance_hours":200.0}},
        "evidence_of_kinds":{"cache":{"memory":{"count":9.0}}},
        "chances":{"limit":0.8,"std_factor":1.0,"floor":0.1,"at":7.0,"bins":{}}}"""
    found = read_learned(raw)
    assert (found.version, found.factors, found.kinds) == (7, {"cpu": 0.5}, {"web": {"cpu": 0.4}})
    assert found.instances.keys() == found.deviations.keys()
    assert found.uses[FLEET]["cpu"].mean == 0.5
    assert found.chances is not None
    assert read_learned(msgspec.json.encode(found)) == found
    assert [read_learned(each) for each in (b"{", b'{"factors":{"\xff":1}}', None)] == [None, None, None]
