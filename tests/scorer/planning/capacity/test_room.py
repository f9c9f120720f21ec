"""How many more instances of a kind fit: as many as placing them one by one finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.trial import Trial
from scorer.planning.capacity.mix_room import CYCLE_MAX, GREEDY_MAX, KINDS_MAX, mean_of, mix_of, mix_room
from scorer.planning.capacity.room import MACHINE_MAX, room
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request


def found(of, profile="windward", **params):
    return room(request(**params), Trial(of.inputs(load_profiles().choose(profile))))


def one_by_one(of, profile, **params):
    """Copies by machine when they are placed one after the other until none fits."""
    asked, overlay, counts = request(**params), Overlay(of.ledger), [0] * len(of.snapshot)
    while (
        chosen := rank(
            asked, RankingInputs(of.snapshot, overlay.base, load_profiles().choose(profile), of.now_s).on(overlay)
        ).chosen
    ) is not None and sum(counts) < 500:
        overlay.propose(instance_of(asked, chosen, of.now_s, f"copy {sum(counts)}"))
        counts[of.snapshot.names.index(chosen)] += 1
    return counts


def small():
    """Three machines: idle, half used, and cordoned."""
    return fleet(
        machine("idle", 8, 100, usage={"cpu": 0.5, "memory": 5}),
        machine("used", 8, 100, usage={"cpu": 4, "memory": 60}),
        machine("closed", 8, 100, usage={"cpu": 0, "memory": 5}, operator={"cordon": True}),
        instances=[{"id": "i", "machine": "used", "cpu": 5, "memory": 10}],
    )


def test_promises_limit_it():
    """What is promised already is counted; the filter that refuses the next copy is named with its machines."""
    here = found(small(), "kubernetes", cpu=2, memory=1)
    assert here.copies.tolist() == [4, 1, 0]
    assert here.total == 5
    assert not here.at_least
    assert [(one.filter, one.machines) for one in here.limits] == [("fits", 2), ("cordon", 1)]


def test_measured_load_limits_it_first():
    """Under a profile with thresholds on usage: a copy counts with what it is expected to use."""
    by_load = found(small(), "koordinator", cpu=1, memory=1).copies.tolist()
    assert by_load == one_by_one(small(), "koordinator", cpu=1, memory=1)
    assert by_load[1] < found(small(), "kubernetes", cpu=1, memory=1).copies.tolist()[1]


def test_what_may_be_there_once():
    assert found(small(), cpu=0.1, memory=1, ports=[7000]).copies.tolist() == [1, 1, 0]


def test_a_filter_over_the_fleet_is_asked_one_by_one():
    racks = fleet(*(machine(f"m{n}", usage={"cpu": 1, "memory": 5}, labels={"rack": "ab"[n % 2]}) for n in range(4)))
    apart = {"labels": {"app": "x"}, "anti_affinity": [{"instances": {"app": "x"}, "topology": "rack"}]}
    assert found(racks, cpu=0.1, memory=1, **apart).total == 2


def test_nothing_asked_has_no_limit():
    here = found(small(), "kubernetes", labels={"app": "x"})
    assert here.at_least
    assert here.copies.max() == MACHINE_MAX


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["windward", "koordinator", "kubernetes", "trimaran", "seed"]))
def test_it_is_what_placing_one_by_one_finds(seed, profile):
    rng = np.random.default_rng(seed)
    of = fleet(
        *(
            machine(
                f"m{n}", float(rng.integers(2, 12)), 100,
                usage={"cpu": {"mean": float(rng.uniform(0, 6)), "std": 0.2}, "memory": float(rng.uniform(5, 80))},
            )
            for n in range(4)
        ),
        instances=[
            {"id": f"i{n}", "machine": f"m{rng.integers(4)}", "cpu": float(rng.uniform(0, 2)), "memory": 4}
            for n in range(6)
        ],
    )  # fmt: skip
    params = {"cpu": float(rng.uniform(0.3, 2)), "memory": float(rng.uniform(1, 20))}
    assert found(of, profile, **params).copies.tolist() == one_by_one(of, profile, **params)


@pytest.mark.parametrize("copies", [1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000])
def test_any_number_is_found(copies):
    of = fleet(machine("m", float(copies) + 0.5, 10_000, usage={"cpu": 0, "memory": 5}))
    assert found(of, "kubernetes", cpu=1, memory=1).total == copies


IDLE = {"cpu": 0, "memory": 0}


def of_sizes(*cpus, machines=(8, 8), **more):
    """Machines of these cores, and an instance of each size on a machine of its own."""
    return fleet(
        machine("old", 100, 1e4, usage=IDLE, operator={"cordon": True}),
        *(machine(f"m{n}", cores, 1e4, usage=IDLE) for n, cores in enumerate(machines)),
        instances=[{"id": f"i{n}", "machine": "old", "cpu": cpu, "memory": 1, **more} for n, cpu in enumerate(cpus)],
    )


def fits(of, profile="kubernetes", greedy_max=GREEDY_MAX):
    mix, trial = mix_of(of.ledger.instances.values(), 0.0), Trial(of.inputs(load_profiles().choose(profile)))
    return mix, mix_room(mix, trial, greedy_max), trial.overlay


def test_until_the_first_kind_no_longer_fits():
    """By hand: of 16 cores, 2 x (1 + 2 + 4) and the next cycle's 1; its 2 do not fit into what is left."""
    mix, found, _ = fits(of_sizes(1, 2, 4))
    assert [kind.request.cpu for kind in mix.kinds] == [1.0, 2.0, 4.0]
    assert found.total == sum(found.fit)
    assert found.fit == (3, 2, 2)
    assert found.first is mix.kinds[1]
    assert (found.limits[0].filter, found.limits[0].reason) == ("fits", "too much cpu promised")
    assert sum(found.by_machine.values()) == found.total


@pytest.mark.parametrize("profile", ["kubernetes", "windward", "seed"])
def test_one_kind_is_a_count_of_copies(profile):
    of = of_sizes(1.5, machines=(8, 4, 20))
    mix, found, _ = fits(of, profile)
    alone = room(mix.kinds[0].request, Trial(of.inputs(load_profiles().choose(profile))))
    assert found.total == alone.total > 0
    assert found.spread == 0


def test_nothing_fits_and_nothing_was_placed():
    """The first instance is refused; without a mix there is nothing to say."""
    _, found, overlay = fits(of_sizes(9))
    assert (found.total, bool(found.limits)) == (0, True)
    assert overlay.held_on("m0") == []
    assert fits(of_sizes())[1].total == 0


@pytest.mark.parametrize("profile", ["kubernetes", "windward"])
@pytest.mark.parametrize("classes", [("prod", "prod"), ("prod", "batch")])
def test_what_is_spread_at_once_is_near_to_one_by_one(profile, classes):
    cores = tuple(float(cores) for cores in np.random.default_rng(1).integers(20, 60, 30))
    of = fleet(
        machine("old", 100, 1e4, usage=IDLE, operator={"cordon": True}),
        *(machine(f"m{n}", each, 1e4, usage=IDLE) for n, each in enumerate(cores)),
        instances=[
            {"id": f"i{n}", "machine": "old", "cpu": cpu, "memory": 1, "priority_class": which}
            for n, (cpu, which) in enumerate(zip((0.5, 1.5), classes, strict=True))
        ],
    )
    _, exact, _ = fits(of, profile)
    _, near, _ = fits(of, profile, greedy_max=100)
    assert exact.spread == 0
    assert near.spread > exact.total / 2
    assert near.total == pytest.approx(exact.total, rel=0.03)
    assert abs(near.fit[0] - near.fit[1]) <= 2 + 8  # a rounding each time that a part is spread


@settings(max_examples=examples(15, 15), deadline=None)
@given(st.data())
def test_no_machine_holds_more_than_it_has(data):
    """Sums along the count stay below allocatable, spread or not; and what limits it is told."""
    sizes = data.draw(st.lists(st.floats(0.5, 6), min_size=1, max_size=10))
    machines = tuple(data.draw(st.lists(st.floats(1, 30), min_size=1, max_size=4)))
    of = of_sizes(*sizes, machines=machines)
    mix, found, overlay = fits(of, "kubernetes", data.draw(st.sampled_from([10, GREEDY_MAX])))
    for n, cores in enumerate(machines):
        assert sum(one.amounts[0] or 0.0 for one in overlay.held_on(f"m{n}")) <= cores * (1 + 1e-9)
    asked = sum((kind.request.cpu or 0.0) * fit for kind, fit in zip(mix.kinds, found.fit, strict=True))
    if not found.spread:
        held = sum(one.amounts[0] or 0.0 for n in range(len(machines)) for one in overlay.held_on(f"m{n}"))
        assert held == pytest.approx(asked)
    assert found.first is not None
    assert found.limits


NOW_S = 1_700_000_000.0


def placed(cpu, ago_s=60.0, **more):
    amounts = Request(cpu=cpu, memory=1e9).given_amounts()
    return Instance(id="i", machine="m", state="confirmed", amounts=amounts, reserved_at=NOW_S - ago_s, **more)


def test_kinds_by_what_is_asked():
    """The most frequent first; what was placed before the moment does not count."""
    lately = [placed(1.0)] * 6 + [placed(2.0)] * 2 + [placed(1.0, priority_class="batch")] * 4
    mix = mix_of([*lately, placed(9.0, ago_s=3_600)], NOW_S - 600)
    assert [(kind.request.cpu, kind.request.priority_class, kind.instances, kind.cycle) for kind in mix.kinds] == [
        (1.0, "prod", 6, 3), (1.0, "batch", 4, 2), (2.0, "prod", 2, 1),
    ]  # fmt: skip
    assert (mix.instances, mix.covered) == (12, 12)
    assert mix.kinds[0].request.nic is None
    assert mean_of([mix.kinds[0], mix.kinds[2]]).cpu == pytest.approx(5 / 4)
    assert mix_of([], NOW_S).kinds == ()


def test_a_mean_is_alike_on_each_python():
    """Since 3.12 a sum of floats is rounded otherwise: ten times 0.1 was a little less than 1."""
    assert mix_of([placed(0.1)] * 10, 0.0).kinds[0].request.cpu == 0.1


def test_many_sizes_are_a_few_kinds():
    """Within a factor of about two they are one, with their mean: the sum of what was asked stays."""
    sizes = [0.5 + n / 100 for n in range(100)]
    mix = mix_of([placed(size) for size in sizes], 0.0)
    assert 1 < len(mix.kinds) <= KINDS_MAX
    assert sum((kind.request.cpu or 0) * kind.instances for kind in mix.kinds) == pytest.approx(sum(sizes))


def test_what_is_expected_is_in_the_mean_only_where_all_say_it():
    said = {"expected": (0.5, *[-1.0] * (len(RESOURCES) - 1))}
    kinds = mix_of([placed(1.0, **said), placed(2.0, **said), placed(4.0)], 0.0).kinds
    assert [kind.request.expected for kind in kinds] == [{"cpu": 0.5}, {"cpu": 0.5}, {}]
    assert mean_of(kinds[:2]).expected == {"cpu": 0.5}
    assert mean_of(kinds).expected == {}


@given(st.lists(st.floats(0.01, 1e4), max_size=60), st.lists(st.sampled_from(["", "web", "db"]), max_size=3))
def test_a_cycle_is_short_and_has_every_kind(sizes, names):
    mix = mix_of([placed(size, kind=name) for size in sizes for name in names or [""]], 0.0)
    assert len(mix.kinds) <= KINDS_MAX
    assert all(kind.cycle >= 1 for kind in mix.kinds)
    assert sum(kind.cycle for kind in mix.kinds) <= CYCLE_MAX + KINDS_MAX
    assert mix.covered <= mix.instances
