"""Room for what may be lost: filled until refused, each domain is lost in turn and everything finds a place."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.commands.planning.capacity import _lost
from scorer.ledger.record.instance import Moving, arrival, copy_with
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.plan import plan
from scorer.placement.choosing.trial import Trial, homeless, ranked
from scorer.placement.placer import expected_change
from scorer.planning.drain.drain import drain
from scorer.planning.room import room
from scorer.ranking import survive
from scorer.ranking.explain import answer, summary
from scorer.ranking.inputs import FleetState, Tables
from scorer.ranking.profiles import catalogue
from scorer.ranking.profiles.plugins import momentary
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.survive import near
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request

IDLE = {"cpu": 0.0, "memory": 0.0}
SIZES = ((1, 4), (2, 4), (1, 8), (3, 8), (2, 12), (4, 16))
RULES = (
    {}, {}, {"cluster": "loose"}, {"cluster": "loose", "ports": [6379]}, {"selector": "disk=ssd"}, {"ports": [6379]},
    {"priority_class": "batch", "role": "master"},
    {"cluster": "apart", "anti_affinity": [{"instances": {"cluster": "apart"}}]},
    {"cluster": "pair", "anti_affinity": [{"instances": {"cluster": "pair"}, "topology": "rack", "others": 1}]},
    {"affinity": [{"instances": {"cluster": "loose"}, "topology": "rack"}]},
)  # fmt: skip


def profile(name, topology, ratio=1.0):
    text = (Path(catalogue.__file__).parent / f"{name}.toml").read_text()
    fits = f'use = "fits"\nratio = {{ cpu = {ratio}, memory = {ratio} }}'
    return parse_profile(f'survive = "{topology}"\n' + text.replace('use = "fits"', fits), f"{name} {topology}")


def racks(machines, count, cpu=12):
    return fleet(*(
        machine(f"m{n}", cpu, 4 * cpu, usage=IDLE, labels={"rack": f"r{n % count}", "disk": "ssd" if n % 2 else "hdd"})
        for n in range(machines)
    ))  # fmt: skip


def put(of, asked, on):
    of.ledger.apply(copy_with(instance_of(asked, on, of.now_s), state="confirmed", started_at=of.now_s))


def filled(of, how, stream, refused=1):
    """Place instances until so many are refused; return how many were placed."""
    tables, placed = Tables(), 0
    for number, params in enumerate(stream):
        asked = request(id=f"i{number}", **params)
        chosen = ranked(asked, of.inputs(how, tables)).chosen
        if chosen is not None:
            put(of, asked, chosen)
            placed += 1
        elif (refused := refused - 1) == 0:
            break
    return placed


def lost(of, how, topology):
    domains = {}
    for row, name in enumerate(of.snapshot.names):
        domains.setdefault(name if topology == "machine" else of.snapshot.rules.labels(row)["rack"], []).append(name)
    return [drain(names, of.inputs(how), lost=True) for names in domains.values()]


@settings(max_examples=examples(12, 60), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["rack", "machine"]), st.sampled_from(["windward", "kubernetes"]))
def test_each_domain_is_lost_in_turn(seed, topology, name):
    """Whatever the sizes, rules, clusters, ports and classes are; by the plan of ``drain --lost``."""
    draw = np.random.default_rng(seed)
    machines, count = int(draw.integers(3, 8)), int(draw.integers(2, 5))
    of, how = racks(machines, count), profile(name, topology)
    picks = zip(draw.integers(len(SIZES), size=200), draw.integers(len(RULES), size=200), strict=True)
    stream = [{"cpu": SIZES[size][0], "memory": SIZES[size][1], **RULES[rule]} for size, rule in picks]
    assert filled(of, how, stream, refused=4)
    lasting = replace(how, filters=tuple(each for each in how.filters if not momentary(each.filter)))
    for profile_then in (how, lasting):  # the load may be another one by then
        assert [one.reason for found in lost(of, profile_then, topology) for one in found.blocked] == []
    told = [_lost("rack", f"r{n}", Trial(of.inputs(how))) for n in range(min(machines, count)) if topology == "rack"]
    assert [one["homeless"] for one in told] == [[]] * len(told)


@pytest.mark.parametrize(
    ("topology", "at_once"),
    [("rack", 1), ("machine", 1), ("rack", 7), ("machine", 7), ("machine", 90)],
)
def test_the_bound_alone_holds_without_rules(topology, at_once, monkeypatch):
    """On fleets too large to try a loss; one by one and in batches, which see their own instances."""
    monkeypatch.setattr(survive, "EXACT_MAX", 0)
    draw, how = np.random.default_rng(at_once), profile("kubernetes", topology)
    of, tables, number = racks(10, 5), Tables(), 0
    while True:
        sizes = [SIZES[size] for size in draw.integers(len(SIZES), size=at_once)]
        asked = [request(id=f"i{number + n}", cpu=cpu, memory=memory) for n, (cpu, memory) in enumerate(sizes)]
        planned = plan(asked, of.inputs(how, tables))
        for one, chosen in zip(asked, planned.machines, strict=True):
            if chosen is not None:
                put(of, one, chosen)
        number += at_once
        if None in planned.machines:
            break
    assert len(of.ledger) > 25
    assert [one.reason for found in lost(of, how, topology) for one in found.blocked] == []
    if topology == "rack":
        told = [_lost("rack", f"r{number}", Trial(of.inputs(how))) for number in range(5)]
        assert [one["homeless"] for one in told] == [[]] * 5


# ---- against the best that is possible


def packs(free, pieces, seen):
    if not pieces:
        return True
    key = (tuple(sorted(free)), len(pieces))
    if key in seen:
        return False
    seen.add(key)
    (cpu, memory), rest = pieces[0], pieces[1:]
    return any(
        packs((*free[:at], (have - cpu, room_left - memory), *free[at + 1 :]), rest, seen)
        for at, (have, room_left) in enumerate(free)
        if have >= cpu and room_left >= memory and free.index((have, room_left)) == at
    )


def possible(domains, size, items):
    """Return whether some assignment of the items survives the loss of each domain, by trying all."""
    items, seen, left = sorted(items, reverse=True), set[Any](), [200_000]

    def survives(load):
        free = [tuple(have - sum(one[r] for one in here) for r, have in enumerate(size)) for here in load]
        return all(
            packs(
                tuple(one for one, of in zip(free, domains, strict=True) if of != gone),
                sorted([one for here, of in zip(load, domains, strict=True) if of == gone for one in here])[::-1],
                set(),
            )
            for gone in set(domains)
        )

    def found(at, load):
        if at == len(items):
            return survives(load)
        key = (at, tuple(sorted(zip(domains, load, strict=True))))
        left[0] -= 1
        if key in seen or left[0] < 0:
            return False
        seen.add(key)
        order = sorted(range(len(load)), key=lambda m: sum(one[0] + one[1] / 4 for one in load[m]))
        return any(
            found(at + 1, [(*here, items[at]) if m == to else here for m, here in enumerate(load)])
            for to in order
            if all(sum(one[r] for one in load[to]) + items[at][r] <= size[r] for r in (0, 1))
        )

    most = [sum(one[r] for one in items) for r in (0, 1)]
    rest = len(domains) - max(domains.count(one) for one in domains)
    return all(most[r] <= rest * size[r] for r in (0, 1)) and found(0, [()] * len(domains))


@pytest.mark.parametrize(
    ("topology", "seeds", "hosted", "flat_lost"), [("machine", 10, 0.95, 0.15), ("rack", 10, 0.98, 0.4)]
)
def test_it_hosts_nearly_the_most_that_is_possible(topology, seeds, hosted, flat_lost):
    """A flat reserve of a tenth hosts about as many or more, and loses instances with many a domain."""
    own = best = unsafe = domains_of_all = 0
    for seed in range(seeds):
        draw = np.random.default_rng(seed)
        machines = int(draw.integers(3, 6))
        count = machines if topology == "machine" else int(draw.integers(2, min(4, machines) + 1))
        items = [SIZES[size] for size in draw.integers(len(SIZES), size=60)]
        stream = [{"cpu": cpu, "memory": memory} for cpu, memory in items]
        placed = filled(racks(machines, count), profile("kubernetes", topology), stream)
        own, most = own + placed, placed
        while possible([n % count for n in range(machines)], (12, 48), items[: most + 1]):
            most += 1
        best += most
        flat = racks(machines, count)
        filled(flat, profile("kubernetes", "", ratio=0.9), stream)
        each = lost(flat, profile("kubernetes", ""), topology)
        unsafe, domains_of_all = unsafe + sum(bool(one.blocked) for one in each), domains_of_all + len(each)
    assert own >= hosted * best
    assert unsafe >= flat_lost * domains_of_all


# ---- one decision


def test_a_refusal_says_why():
    of, how = racks(2, 2, cpu=4), profile("kubernetes", "machine")
    assert filled(of, how, [{"cpu": 1, "memory": 1}] * 9) == 4
    ranking = ranked(request(cpu=1, memory=1), of.inputs(how))
    assert summary(ranking) == "0/2 feasible: 2 keep room for the loss of a machine"
    assert (ranking.chosen, ranking.near) == (None, True)
    told = answer(ranking, explain_all=True)
    assert [(one.filter, one.machines) for one in told.refusals] == [("survive", 2)]
    assert told.machines is not None
    assert [one.filters[-1] for one in told.machines] == [
        {"filter": "survive", "allowed": False, "reason": "keep room for the loss of a machine"}
    ] * 2
    assert room(request(cpu=1, memory=1), Trial(of.inputs(how))).total == 0
    assert ranked(request(cpu=1, memory=1), of.inputs(profile("kubernetes", ""))).feasible_count == 2


def test_the_others_were_not_tried_where_a_better_machine_is_found_by_a_trial():
    """An instance with a rule is tried; the answer says so of the machines after the best."""
    of, how = racks(4, 2), profile("kubernetes", "rack")
    ranking = ranked(request(**RULES[-2]), of.inputs(how))
    assert summary(ranking) == "1/4 feasible: 3 worse, not tried for the loss of a rack"
    assert ranking.best(4).tolist() == [0]


def test_a_place_that_was_missing_before_refuses_nothing_else():
    """An instance that only one rack may have finds no place without it, and is not to blame on others."""
    of, how = racks(4, 2), profile("kubernetes", "rack")
    put(of, request(id="bound", cpu=1, memory=1, selector="disk=ssd,rack=r1"), "m1")
    assert ranked(request(cpu=1, memory=1), of.inputs(how)).chosen is not None
    assert ranked(request(cpu=1, memory=1, selector="rack=r1"), of.inputs(how)).chosen is None
    assert [one.id for found in lost(of, how, "rack") for one in found.blocked] == ["bound"]


@pytest.mark.parametrize(
    ("asked", "came", "later_s", "changes"),
    [
        pytest.param(1, [{}, {}], 0.0, 2, id="changes are counted"),
        pytest.param(2, [{}, {}], 0.0, 0, id="a larger request"),
        pytest.param(1, [{"cpu": 2}, {}], 0.0, 0, id="a larger instance of another scorer"),
        pytest.param(1, [{"cpu": 2}, *[{}] * 9], 0.0, 0, id="a larger instance before many others"),
        pytest.param(1, [{"moved": 2.0}, {}], 0.0, 0, id="a move to more room"),
        pytest.param(1, [{"cluster": "c"}] * 2, 0.0, 0, id="a larger cluster of another scorer"),
        pytest.param(1, [{"selector": "disk=ssd"}] * 2, 0.0, 0, id="a rule of another scorer's instance"),
        pytest.param(1, [{}, {}], survive.FRESH_S, 0, id="old measurements"),
    ],
)
def test_far_from_the_limit_a_decision_counts_changes(asked, came, later_s, changes):
    of, how, tables = racks(100, 5), profile("kubernetes", "rack"), Tables()
    assert near(request(cpu=1, memory=1), of.inputs(how, tables)) is None
    for number, one in enumerate(came):
        fields = {"cpu": 1, "memory": 1, **one}
        cpu = fields.pop("moved", 0.0)
        put(of, request(id=f"i{number}", **fields), "m0")
        if cpu:
            there = of.ledger.instances["i0"]
            new = arrival(copy_with(there, amounts=(cpu, *there.amounts[1:])))
            of.ledger.apply(copy_with(there, moving=Moving("m1", of.now_s, of.now_s + 60, 1, new)))
    later = FleetState(of.snapshot, of.ledger, of.now_s + later_s)
    assert (near(request(cpu=asked, memory=1), later.inputs(how, tables)) is None) == ("selector" not in came[0])
    assert [one.changes for one in tables.kept.values()] == [changes]


def test_near_the_limit_a_reservation_is_refused_after_any_change():
    """The script compares the ledger's last change then, so that no other scorer takes the same room."""
    of, asked = racks(3, 3), request(cpu=1, memory=1)
    assert expected_change(7, asked, of.ledger, near=ranked(asked, of.inputs(profile("kubernetes", "rack"))).near) == 7
    assert expected_change(7, asked, of.ledger, near=ranked(asked, of.inputs(profile("kubernetes", ""))).near) == -9
    assert plan([request(cpu=99), asked], of.inputs(profile("kubernetes", "rack"))).near


def test_machines_are_filled_up_where_only_so_all_find_a_place():
    """By the score 4, 4, 3, 3 spread over both, and no place is left for 2; higher classes still go first."""
    of = fleet(*(machine(name, 8 + 8 * (name == "gone"), 99, usage=IDLE) for name in ("gone", "a", "b")))
    for number, cpu in enumerate((4, 4, 3, 3, 2)):
        put(of, request(id=f"i{number}", cpu=cpu, memory=1, priority_class="batch" if cpu == 2 else "prod"), "gone")
    inputs = of.inputs(profile("kubernetes", "machine"))
    assert homeless(["gone"], inputs) == 0
    found = drain(["gone"], inputs, lost=True)
    assert not found.blocked
    assert [inputs.ledger.instances[one.id].priority_class for one in found.moves] == ["prod"] * 4 + ["batch"]


def test_machines_without_the_label_take_what_is_lost():
    """They are no domain; where no machine has the label nothing is kept, and the answer warns of it."""
    spare = machine("spare", 12, 48, usage=IDLE)
    of, how = fleet(machine("m0", 12, 48, usage=IDLE, labels={"rack": "r"}), spare), profile("kubernetes", "rack")
    assert filled(of, how, [{"cpu": 1, "memory": 4}] * 40) == 12
    bare = fleet(spare)
    assert filled(bare, how, [{"cpu": 1, "memory": 4}] * 40) == 12
    assert answer(ranked(request(cpu=1), bare.inputs(how))).warnings[0].startswith("no machine has the label 'rack'")
