"""Repair of broken rules: as few moves as a search of all sequences, scenes of other projects, limits."""

import heapq
from collections import Counter
from dataclasses import replace
from functools import cache
from math import ceil
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scorer.ledger.record.instance import Moving, copy_with
from scorer.planning.balance.advice import advice
from scorer.planning.balance.rounds import Rounds, UnderWay, condition_of
from scorer.planning.violations import violations
from scorer.ranking.inputs import machines_of
from scorer.ranking.profiles.rebalance_section import Rebalancing
from tests.effort import examples
from tests.scorer.fleets import IDLE, PROFILES, exchanges, fleet, machine, steps, unplaced

FREELY = {"moves_max": 999, "from_machine_max": 999, "to_machine_max": 999, "cluster_max": 999, "hour_max": 0.0}


def planned(machines, instances, **more):
    of, leaving, rounds = fleet(*machines, instances=instances), more.pop("leaving", {}), more.pop("rounds", None)
    under_way = UnderWay(more.pop("pending", {}), more.pop("handing", {}))
    chosen = Rebalancing(rule="repair", **{**FREELY, "rest_s": 0.0, **more})
    for name, to in leaving.items():
        moving = Moving(to=to, since=1.0, until=9e9, number=1)
        of.ledger.apply(copy_with(of.ledger.instances[name], moving=moving))
    return advice(of.inputs(replace(PROFILES.choose("windward"), rebalance=chosen)), rounds, under_way)


def moved(plan, instances):
    at = {one.id: one.target for one in steps(plan)}
    return [{**one, "machine": at.get(one["id"], one["machine"])} for one in instances]


def broken(machines, instances):
    inputs = fleet(*machines, instances=instances).inputs(PROFILES.choose("windward"))
    return len(violations(machines_of(inputs), inputs.ledger))


# ---- against brute force


def any_fleet(seed):
    """Three to five machines on two or three racks, some with little room; members of two groups on any of them."""
    dice = Random(seed)
    count, racks, groups = dice.randint(3, 5), dice.randint(2, 3), dice.randint(1, 2)
    sizes = dice.choice([(4, 8), (2, 3)])
    machines = [
        machine(f"m{n}", float(dice.choice(sizes)), 1000, usage=IDLE, labels={"rack": str(n % racks)})
        for n in range(count)
    ]
    free = [each["capacity"]["cpu"] for each in machines]
    rules = [
        [
            {
                "instances": {"cluster": f"c{group}", **({"role": "master"} if dice.random() < 0.3 else {})},
                "topology": dice.choice(["rack", "machine"]),
                **dice.choice([{"others": 0}, {"others": 1}, {"share": 0.5}, {"skew": 1}]),
            }
            for _ in range(dice.randint(1, 2))
        ]
        for group in range(groups)
    ]
    instances = []
    for n in range(dice.randint(3, 6)):
        group, cpu = dice.randrange(groups), dice.choice([1, 1, 2])
        if room := [at for at in range(count) if free[at] >= cpu]:
            at = dice.choice(room)
            free[at] -= cpu
            instances.append(
                {
                    "id": f"i{n}", "machine": f"m{at}", "cpu": cpu, "memory": dice.randint(1, 9),
                    "cluster": f"c{group}", "role": dice.choice(["master", "replica"]), "expected": {"cpu": 0},
                    "anti_affinity": rules[group] if dice.random() < 0.8 else [],
                }
            )  # fmt: skip
    return machines, instances


class Brute:
    """All sequences of moves that keep capacity, filters and every rule that holds, in plain words."""

    def __init__(self, machines, instances):
        self.machines, self.instances = machines, instances
        self.rules = [
            (rule, {each["id"] for each in instances if rule in each["anti_affinity"]})
            for position, one in enumerate(instances)
            for rule in one["anti_affinity"]
            if not any(rule in other["anti_affinity"] for other in instances[:position])
        ]
        self.excess = cache(self._excess)

    def _excess(self, state, *, strictly=False):
        """Return by rule and domain how many members are too many; ``strictly``: as the filter refuses one more."""
        found = {}
        for number, (rule, holders) in enumerate(self.rules):
            names = [each["labels"]["rack"] if rule["topology"] == "rack" else each["name"] for each in self.machines]
            members = [all(one[key] == value for key, value in rule["instances"].items()) for one in self.instances]
            here = Counter(names[at] for at, of in zip(state, members, strict=True) if of)
            for domain in {*names}:
                having = [
                    member
                    for one, at, member in zip(self.instances, state, members, strict=True)
                    if names[at] == domain and one["id"] in holders
                ]
                most = rule.get("others", 0) + (all(having) if strictly else any(having)) if having else 99
                if "share" in rule:
                    most = ceil(rule["share"] * sum(members))
                elif "skew" in rule:
                    most = rule["skew"] + min(here[each] for each in names)
                found[number, domain] = max(0, here[domain] - most)
        return found

    def may(self, state, then, n):
        """Return whether one move is allowed: that of instance n from a state to the next."""
        used = Counter[int]()
        for one, at in zip(self.instances, then, strict=True):
            used[at] += one["cpu"]
        if any(used[at] > each["capacity"]["cpu"] for at, each in enumerate(self.machines)):
            return False
        before, after, strict = self.excess(state), self.excess(then), self.excess(then, strictly=True)
        one, target = self.instances[n], self.machines[then[n]]
        concerned = (
            (number, target["labels"]["rack"] if rule["topology"] == "rack" else target["name"])
            for number, (rule, holders) in enumerate(self.rules)
            if one["id"] in holders or all(one[key] == value for key, value in rule["instances"].items())
        )
        return all(after[key] <= before[key] for key in before) and not any(strict[key] for key in concerned)

    def least(self, start):
        """Return the least excess that moves can reach, and the fewest moves and bytes that reach it."""
        best = {start: (0, 0)}
        queue, goal = [(0, 0, start)], (99, 0, 0)
        while queue:
            moves, memory, state = heapq.heappop(queue)
            if (moves, memory) > best[state]:
                continue
            goal = min(goal, (sum(self.excess(state).values()), moves, memory))
            if not goal[0]:
                break
            for n, at in enumerate(state):
                for to in range(len(self.machines)):
                    then = (*state[:n], to, *state[n + 1 :])
                    cost = (moves + 1, memory + self.instances[n]["memory"])
                    if to != at and cost < best.get(then, (99, 0)) and self.may(state, then, n):
                        best[then] = cost
                        heapq.heappush(queue, (*cost, then))
        return goal


def compared(seed):
    """Return excess, moves and bytes by repair and by brute force; each step of the plan is allowed."""
    machines, instances = any_fleet(seed)
    brute, plan = Brute(machines, instances), planned(machines, instances)
    place = {one["id"]: n for n, one in enumerate(instances)}
    start = state = tuple(int(one["machine"][1:]) for one in instances)
    memory = 0
    for one in steps(plan):
        n = place[one.id]
        then = (*state[:n], int(one.target[1:]), *state[n + 1 :])
        assert brute.may(state, then, n), (seed, one.id)
        state, memory = then, memory + instances[n]["memory"]
    assert not steps(planned(machines, moved(plan, instances))), seed
    return (sum(brute.excess(state).values()), len(steps(plan)), memory), brute.least(start)


@settings(max_examples=examples(20, 400), deadline=None)
@given(st.integers(0, 2**32))
def test_no_move_breaks_a_rule_and_a_second_run_moves_nothing(seed):
    """Each move is one of those of brute force; where both mend the same, one move more at most."""
    (excess, moves, _), (least, fewest, _) = compared(seed)
    assert excess >= least
    assert excess > least or moves <= fewest + 1


def test_as_few_moves_as_brute_force():
    """Of all fleets that both mend alike: at most 5 % more moves, and 5 % more bytes; few need several at once."""
    found = [compared(seed) for seed in range(examples(300, 3000))]
    alike = [(got, least) for got, least in found if got[0] == least[0]]
    moves, fewest = (sum(each[side][1] for each in alike) for side in (0, 1))
    memory, least_memory = (sum(each[side][2] for each in alike) for side in (0, 1))
    assert fewest > 30
    assert moves <= 1.05 * fewest
    assert memory <= 1.05 * least_memory
    assert len(alike) >= 0.95 * len(found)


def exchanged(plan, instances):
    before = {one["id"]: one["role"] for one in instances if "role" in one}
    roles = {one.id: one.role for one in exchanges(plan)} | {
        one.swap_role_with: before[one.id] for one in exchanges(plan)
    }
    return [{**one, "role": roles.get(one["id"], one["role"])} for one in instances]


@settings(max_examples=examples(60, 400), deadline=None)
@given(st.integers(0, 2**32))
@example(68)  # a move after the exchange must see it
@example(69)  # who was exchanged may not move
@example(516)  # a rule that stays broken is not broken elsewhere
@example(7000459)  # an exchange that only a move makes useful
def test_with_roles_no_step_breaks_a_rule(seed):
    """The exchanges make no rule worse, each move after them is one of brute force, and nobody changes twice."""
    machines, instances = any_fleet(seed)
    plan, at = planned(machines, instances, roles=True), tuple(int(one["machine"][1:]) for one in instances)
    then = exchanged(plan, instances)
    handing = {one.id: one.swap_role_with for one in exchanges(plan)}
    under_way = planned(machines, instances, roles=True, handing=handing)
    assert (exchanges(under_way), moved(under_way, then)) == ([], moved(plan, then))
    brute, before = Brute(machines, then), Brute(machines, instances).excess(at)
    assert all(brute.excess(at)[key] <= before[key] for key in before) or not exchanges(plan)
    state, place = at, {one["id"]: n for n, one in enumerate(instances)}
    for one in steps(plan):
        n = place[one.id]
        after = (*state[:n], int(one.target[1:]), *state[n + 1 :])
        assert brute.may(state, after, n)
        state = after
    changed = [
        name for one in plan.moves if one.target or one.swap_role_with for name in (one.id, one.swap_role_with) if name
    ]
    assert len({*changed}) == len(changed)
    again = planned(machines, moved(plan, then), roles=True)
    assert not exchanges(again)
    assert exchanges(plan) or not steps(again)  # who was exchanged moves in the next one


# ---- scenes


def racks(*counts, cpu=64.0):
    return [
        machine(f"{rack}{n}", cpu, 1000, usage=IDLE, labels={"rack": rack})
        for rack, count in zip("abcd", counts, strict=False)
        for n in range(count)
    ]


def group(on, *rules, cluster="shop", **more):
    whom = {"cluster": cluster, **more.pop("of", {})}
    ruled = [{"instances": whom, **rule} for rule in rules]
    return [
        {"id": f"{cluster}-{n}", "machine": at, "cpu": 1, "memory": 1 + n, "cluster": cluster, "anti_affinity": ruled}
        | more
        for n, at in enumerate(on.split())
    ]


BY_RACK, BY_MACHINE = {"topology": "rack", "skew": 1}, {"topology": "machine", "skew": 1}
APART = {"topology": "machine", "others": 0}
OTHER = [group("a0 a0", BY_RACK)[1]]
OF_FOUR_RACKS = (
    "".join(
        f"{rack}{n} " * count for rack in "abd" for n, count in enumerate([6, 6, 5, 4] if rack == "a" else [6, 5, 5, 5])
    )
    + "d1 "
)


@pytest.mark.parametrize(
    ("machines", "instances", "moves", "left"),
    [
        # masters of six clusters on one rack, since the other was lost and is back
        (racks(3, 3), [one for n in range(6) for one in group("a0 a1", BY_RACK, cluster=f"c{n}")], 6, 0),
        (racks(2, 2), group("a0 a0 a1 a1 a0 a1", BY_RACK, APART | {"others": 1}), 3, 0),
        # descheduler#1918: by zone 3, 3, 3, on 5, 2, 2 nodes: by node a skew of 2 that no move mends
        (racks(5, 2, 2), group("a0 a1 a2 b0 b0 b1 c0 c0 c1", BY_RACK, BY_MACHINE), 0, 2),
        # descheduler#785: most nodes are in one zone, the others are full
        (racks(4, 1, cpu=2), group("a0 a1 a2", BY_RACK) + group("b0 b0", cluster="full"), 0, 1),
        (racks(4, 1, cpu=2), group("a0 a1 a2", BY_RACK) + group("b0", cluster="full"), 1, 0),
        # of two the one with less memory fits nowhere
        (racks(1, 1, cpu=4), group("a0", BY_RACK, cpu=2) + group("b0 b0 b0", cluster="full") + OTHER, 1, 0),
        # descheduler#1535: a rack of four was down: 16 of 64 go there, the descheduler moves 26
        (racks(4, 4, 4, 4), group(OF_FOUR_RACKS, BY_RACK, BY_MACHINE), 16, 0),
        # ProxLB#335: the rules hold, the load is uneven: nothing; ProxLB#249: only those two
        (racks(3), group("a0 a1", APART) + group("a0 a0 a0 a0", cluster="free"), 0, 0),
        (racks(3), group("a0 a0 a1", APART) + group("a0 a1 a1 a1 a2", cluster="free"), 1, 0),
        # rules that contradict each other: no more than two a rack, and half of them on each machine
        (racks(1, 1), group("a0 a0 a0", {"topology": "rack", "others": 0}, {"topology": "rack", "share": 0.5}), 1, 1),
    ],
)
def test_scenes(machines, instances, moves, left):
    """Run again and again on its own result, it proposes nothing more, also where a rule stays broken."""
    plan = planned(machines, instances)
    then = moved(plan, instances)
    assert (len(steps(plan)), broken(machines, then)) == (moves, left)
    again = planned(machines, then)
    assert (steps(again), len(unplaced(again))) == ([], min(left, len({one.reason for one in unplaced(again)})))
    assert steps(planned(machines, moved(again, then))) == []
    assert bool(left) == bool(unplaced(again))
    assert left or again.why == "no rule is broken"


@pytest.mark.parametrize(
    ("more", "moves"),
    [
        ({}, 3),
        ({"moves_max": 2}, 2),
        ({"cluster_max": 1}, 1),
        ({"from_machine_max": 1}, 2),
        ({"to_machine_max": 1}, 2),
        ({"classes": ("batch",)}, 0),
        ({"same": ("rack",)}, 0),
        ({"pending": {"shop-0": "b0"}}, 2),
        ({"leaving": {"shop-0": "b0"}}, 2),
        ({"pending": {"shop-0": "b0", "shop-2": "b1", "shop-4": "b1"}}, 0),
    ],
)
def test_the_limits_of_a_plan_hold(more, moves):
    """Six members on the first of two racks: three go, as fast as the settings let them."""
    plan = planned(racks(2, 2), group("a0 a1 a0 a1 a0 a1", BY_RACK), **more)
    assert len(steps(plan)) == moves
    assert all("cluster=shop by rack: skew 1" in step.reason for step in steps(plan))


def roles(said, *rules, cluster="shop"):
    """Return members of a cluster by machine and role: "a0=master b0=replica"; the rules are about masters."""
    on, each = zip(*(word.split("=") for word in said.split()), strict=True)
    members = group(" ".join(on), *rules, cluster=cluster, of={"role": "master"})
    return [{**one, "role": role} for one, role in zip(members, each, strict=True)]


OF_REPLICAS = {"instances": {"cluster": "shop", "role": "replica"}}
LOST = "a0=master a1=master a2=master b0=replica b1=replica b2=replica"


@pytest.mark.parametrize(
    ("said", "rules", "swaps", "moves"),
    [
        (LOST, [BY_RACK], 1, 0),  # a rack was lost and is back: one of three masters goes back
        ("a0=master a0=master b0=replica b1=replica", [BY_RACK], 1, 0),
        ("a0=master a0=master a1=replica a2=replica", [BY_RACK], 0, 1),  # no replica on the other rack
        ("a0=master a0=master a1=replica b0=replica", [BY_RACK, APART], 1, 0),  # one swap mends both
        ("a0=master a0=master b0=master b0=replica", [APART], 0, 1),  # a swap would break what it mends
        ("a0=master a1=master b0=replica b0=master", [BY_RACK], 0, 0),
        ("a0=master a0=master a0=replica b0=replica", [BY_RACK, APART, APART | OF_REPLICAS], 0, 1),  # it breaks another
    ],
)
def test_a_role_is_handed_over_before_an_instance_moves(said, rules, swaps, moves):
    """Where that is enough, in a planner's rounds, too; when it is done the second run proposes nothing."""
    machines, instances = racks(3, 3), roles(said, *rules)
    plan = planned(machines, instances, roles=True)
    assert (len(exchanges(plan)), len(steps(plan)), unplaced(plan)) == (swaps, moves, [])
    by_id = {one["id"]: one for one in moved(plan, instances)}
    for one in exchanges(plan):
        assert one.reason.endswith(f"hand its role to {one.swap_role_with}: nothing is copied")
        by_id[one.swap_role_with]["role"], by_id[one.id]["role"] = by_id[one.id]["role"], one.role
    then = list(by_id.values())
    again = planned(machines, then, roles=True)
    assert (broken(machines, then), again.moves, again.why) == (0, [], "no rule is broken")
    settled = planned(machines, instances, roles=True, rounds=Rounds(condition_of(Rebalancing(), 60.0)))
    assert (exchanges(settled), moved(settled, instances)) == (exchanges(plan), moved(plan, instances))
    handing = {one.id: one.swap_role_with for one in exchanges(plan)}
    under_way = planned(machines, instances, roles=True, handing=handing)
    assert (exchanges(under_way), moved(under_way, instances)) == ([], moved(plan, instances))


def test_one_that_others_need_stays():
    """The only one near an instance that wants it near does not leave; the other member does."""
    near = {"id": "log", "machine": "a0", "cpu": 1, "memory": 1, "affinity": [{"instances": {"app": "x"}}]}
    members = group("a0 a0", APART)
    members[0]["labels"] = {"app": "x"}
    assert [one.id for one in steps(planned(racks(2), [near, *members]))] == ["shop-1"]
    assert [one.id for one in steps(planned(racks(2), members))] == ["shop-0"]
