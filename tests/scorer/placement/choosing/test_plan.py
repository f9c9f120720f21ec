"""Batches: the same machines as one placement after another, with every wish about the whole batch."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.rpc.request import InvalidRequest
from scorer.commands.shared.fleet_file import read_fleet
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.plan import by_kind, expand, kinds_of, plan
from scorer.ranking.inputs import Tables
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request

PROFILES = load_profiles()


def one_at_a_time(requests, offline, profile):
    found = []
    kept = Tables()
    for number, asked in enumerate(requests):
        chosen = rank(asked, offline.inputs(profile, kept)).chosen
        found.append(chosen)
        if chosen is not None:
            offline.ledger.apply(instance_of(asked, chosen, offline.now_s, f"single-{number}"))
    return found


def planned(requests, offline, profile):
    return list(plan(requests, offline.inputs(profile)).machines)


@st.composite
def fleets(draw, machines_max=12):
    """Draw a fleet: few sizes, so that ties happen; loads on a coarse grid; some machines warming, old or silent."""
    machines = []
    for number in range(draw(st.integers(1, machines_max))):
        cpu, memory = draw(st.sampled_from([8.0, 16.0])), draw(st.sampled_from([64e9, 128e9]))
        usage = {
            "cpu": {"mean": cpu * draw(st.integers(0, 9)) / 10, "std": draw(st.integers(0, 3)) / 10},
            "memory": memory * draw(st.integers(0, 9)) / 10,
        }
        machines.append(
            machine(
                f"m{number:02}",
                cpu,
                memory,
                usage=draw(st.sampled_from([usage, usage, usage, {}])),
                age_s=draw(st.sampled_from([0, 5, 500])),
                operator=draw(st.sampled_from([{}, {}, {"cordon": True}, {"reserve": {"cpu": 1}}])),
            )
        )
    instances = [
        {
            "id": f"old-{number}",
            "machine": draw(st.sampled_from(machines))["name"],
            "cpu": draw(st.integers(0, 2)),
            "memory": 4e9,
            "maxmemory": 4e9,
            "placed_ago_s": draw(st.sampled_from([10, 1000, 1e6])),
            "ports": [6379],
        }
        for number in range(draw(st.integers(0, 4)))
    ]
    return {"machines": machines, "instances": instances}


asks = st.fixed_dictionaries(
    {"cpu": st.sampled_from([0, 0.5, 1, 3]), "memory": st.sampled_from([0, 1e9, 6e9])},
    optional={
        "ports": st.sampled_from([[6379], [7000]]),
        "maxmemory": st.sampled_from([1e9, 30e9]),
        "labels": st.just({"app": "redis"}),
        "anti_affinity": st.just([{"instances": {"app": "redis"}}]),
        "cluster": st.just("c1"),
        "role": st.just("master"),
        "cluster_masters": st.sampled_from([3, 8]),
        "priority_class": st.sampled_from(["prod", "batch"]),
        "expected": st.just({"cpu": 0.7}),
    },
)


NINE_TO_THE_THRESHOLD = {
    "machines": [
        {
            "name": "m0",
            "capacity": {"cpu": 8.0, "memory": 64e9},
            "usage": {"cpu": {"mean": 0.0, "std": 0.0}, "memory": 0.0},
            "age_s": 0,
            "operator": {"reserve": {"cpu": 1}},
        }
    ]
}
"""Nine times 0.7 cores are 90 % of seven: eight added up one by one, and eight times 0.7, differ in the last digit."""


@settings(max_examples=examples(140, 1_400), deadline=None)
@given(described=fleets(), asked=asks, count=st.integers(2, 25), name=st.sampled_from([*PROFILES.by_name, "windward"]))
@example(described=NINE_TO_THE_THRESHOLD, asked={"expected": {"cpu": 0.7}}, count=9, name="windward")
def test_identical_instances_go_where_one_at_a_time_goes(described, asked, count, name):
    requests = [request(**asked)] * count
    profile = PROFILES.choose(name)
    together = planned(requests, read_fleet(described), profile)
    assert together == one_at_a_time(requests, read_fleet(described), profile)


@settings(max_examples=examples(40, 400), deadline=None)
@given(
    described=fleets(),
    kinds=st.lists(asks, min_size=1, max_size=4),
    order=st.lists(st.integers(0, 3), min_size=2, max_size=12),
    name=st.sampled_from(["windward", "kubernetes"]),
)
@example(
    described={"machines": [machine(f"m{n}", 8, 64e9, usage={"cpu": 0, "memory": 0}) for n in range(3)]},
    kinds=[{"cpu": 2, "memory": 1e9}, {"cpu": 3, "memory": 1e9}],
    order=[0, 1] * 4,
    name="kubernetes",
)
@example(
    described={
        "machines": [
            machine(f"m{n}", 4 * (1 + n % 3), 64e9, usage={"cpu": 2.1 * (1 + n % 3) - n / 10, "memory": 1e9 * n})
            for n in range(12)
        ]
    },
    kinds=[{"cpu": 0.1 + n / 20, "memory": 1e9} for n in range(12)],
    order=[*range(12), *range(12)],
    name="windward",
)
def test_unlike_instances_go_kind_by_kind_where_one_at_a_time_goes(described, kinds, order, name):
    profile = PROFILES.choose(name)
    requests = [request(**kinds[kind % len(kinds)], id=f"i{number}") for number, kind in enumerate(order)]
    offline = read_fleet(described)
    before = dict(offline.ledger.instances)
    together = planned(requests, offline, profile)
    assert offline.ledger.instances == before
    turns = [position for kind in by_kind(kinds_of(requests), range(len(requests))) for position in kind]
    singles = one_at_a_time([requests[position] for position in turns], read_fleet(described), profile)
    assert together == [machine for _, machine in sorted(zip(turns, singles, strict=True))]


def four(**more):
    idle = {"cpu": 0, "memory": 0}
    return fleet(*(machine(f"m{n}", 4, 8e9, usage=idle, labels={"rack": f"r{n // 2}"}, **more) for n in range(4)))


def test_a_partial_answer_says_what_is_missing_and_why():
    offline = four()
    found = plan([request(cpu=3)] * 6, offline.inputs(PROFILES.choose()))
    assert sorted(filter(None, found.machines)) == ["m0", "m1", "m2", "m3"]
    assert found.machines[4:] == (None, None)
    assert found.reasons == {4: "0/4 feasible: 4 too much cpu promised", 5: "0/4 feasible: 4 too much cpu promised"}


def test_all_or_nothing_places_nothing_when_one_is_missing():
    offline = four()
    asked = request(cpu=3, all_or_nothing=True)
    found = plan([asked] * 5, offline.inputs(PROFILES.choose()))
    assert set(found.machines) == {None}
    assert found.reasons
    assert None not in plan([asked] * 4, offline.inputs(PROFILES.choose())).machines


@pytest.mark.parametrize(
    ("limits", "different"), [({"machines_max": 1}, 1), ({"machines_max": 2}, 2), ({"machines_min": 3}, 3)]
)
def test_a_batch_keeps_to_the_number_of_different_machines(limits, different):
    offline = four()
    packed = parse_profile('[[scores]]\nuse = "most_allocated"\n[[filters]]\nuse = "fits"', "packed")
    profile = PROFILES.choose() if "machines_max" in limits else packed
    found = planned([request(cpu=0.5, memory=1e9, **limits)] * 4, offline, profile)
    assert len(set(found)) == different


@pytest.mark.parametrize(
    ("limits", "held", "wanted"),
    [
        ({"machines_max": 1}, ["m2"], ["m2", "m2"]),
        ({"machines_max": 1, "cpu": 3}, ["m2"], ["m2", None]),
        ({"machines_max": 2}, ["m2", "m3", "m2"], ["m2", "m3"]),
        ({"machines_min": 3}, ["m0"], ["m1", "m2"]),
        ({"machines_min": 4}, ["m0", "m1"], ["m2", "m3"]),
    ],
)
def test_machines_of_instances_placed_before_count(limits, held, wanted):
    """The rest of a batch that is repeated or tried again keeps to the number of machines of the whole."""
    offline = four()
    requests = [request(**{"cpu": 0.5, "memory": 1e9, **limits})] * 2
    found = plan(requests, offline.inputs(PROFILES.choose()), held)
    assert sorted(found.machines, key=lambda name: (name is None, name)) == wanted
    assert [why.endswith("among the 1 machines of the batch") for why in found.reasons.values()] == [True] * (
        None in wanted
    )


def test_more_different_machines_than_instances_is_an_error():
    offline = four()
    with pytest.raises(InvalidRequest, match="machines_min"):
        plan([request(machines_min=3)] * 2, offline.inputs(PROFILES.choose()))


def test_affinity_inside_the_batch_keeps_it_together():
    offline = four()
    near = request(labels={"app": "a"}, affinity=[{"instances": {"app": "a"}, "topology": "rack"}])
    found = planned([near] * 4, offline, PROFILES.choose())
    assert len({offline.snapshot.rules.labels(offline.snapshot.roster.index[str(name)])["rack"] for name in found}) == 1


def test_a_request_for_many_becomes_single_ones():
    asked = msgspec.structs.replace(request(cpu=1, count=3), id="web")
    assert [each.id for each in expand(asked)] == ["web-1", "web-2", "web-3"]
    assert {each.count for each in expand(asked)} == {1}
    assert [each.id for each in expand(request(count=2))] == ["", ""]
