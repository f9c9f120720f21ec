"""Koordinator's LowNodeLoad, row by row: what leaves, in which order, from which round on, for which reason.

The rows speak of pods: their class is read from them as the peer does; requests, labels and schedulability go through
the product's own filters. The settings of a row are those of a profile's ``[rebalance]``. What nothing here has is
listed in `NOT_COVERED`.
"""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np
import pytest

from schemas.rpc.request import read_request
from scorer.commands.shared.fleet_file import read_fleet
from scorer.ledger.record.instance import as_request
from scorer.planning.balance.advice import pool_of
from scorer.planning.balance.rounds import condition_of
from scorer.planning.balance.scene import scene_of
from scorer.planning.thresholds import (
    CLASS_RANK,
    NO_CLASS,
    Condition,
    Detector,
    Detectors,
    Pool,
    Rules,
    Side,
    SideDetectors,
    eviction_order,
    limits,
    low_node_load,
    reason,
    usage_score,
    usefulness,
)
from scorer.ranking.inputs import Tables
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.rebalance_section import INSTANCES, Rebalancing
from scorer.ranking.rank import rank

FILE = json.loads((Path(__file__).parent / "cases" / "koordinator_low_node_load.json").read_text())
NAMES = {"cpu_millicores": "cpu", "memory_bytes": "memory", "pods": INSTANCES, "example.com/foo": "nic"}
"""A peer's extended resource is one that not every machine has."""
NOT_COVERED = {
    "filterNodes/invalid selector": "selectors are text: what cannot be read is refused when the request is read",
    "GetNodeRawAllocatable/node has no annotation - use allocatable": "no annotations: allocatable is one figure",
    "GetNodeRawAllocatable/node has invalid raw allocatable annotation - fallback to allocatable": "likewise",
    "TestSortPods": "an instance has a class, and no priority in it, quality of service or cost of its own; "
    "its usage is always known, measured or expected: `test_the_order_of_pods_that_differ_in_what_is_here`",
}
MANUAL_S = 1_000.0
KUBERNETES = load_profiles().choose("kubernetes")


def rows(*kinds):
    covered = (case for case in FILE["cases"] if case["name"] not in NOT_COVERED)
    return [pytest.param(case, id=case["name"]) for case in covered if case["kind"] in kinds]


def renamed(amounts):
    return None if amounts is None else {NAMES.get(name, name): amounts[name] for name in amounts}


def class_rank(pod):
    """Koordinator's class: by label, else by the range of the priority, else by kube-scheduler's quality of service."""
    if "priority_class" in pod:
        return CLASS_RANK.get(pod["priority_class"].removeprefix("koord-"), NO_CLASS)
    for name, start in (("prod", 9000), ("mid", 7000), ("batch", 5000), ("free", 3000)):
        if start <= pod["priority"] < start + 1000:
            return CLASS_RANK[name]
    return CLASS_RANK["batch" if pod["kube_qos"] == "BestEffort" else "prod"]


def fleet_file(machines, pods):
    """The machines and pods of a row as a fleet file has them: cores and bytes, usage of machines and of instances."""

    def amounts(of):
        found = renamed(of) or {}
        return {**{n: found[n] for n in ("memory", "nic") if n in found}, "cpu": found["cpu"] / 1000}

    def used(machine):
        each = [amounts(pod["usage"]) for pod in pods if pod["machine"] == machine["name"]]
        return {name: sum(one.get(name, 0.0) for one in each) for name in amounts(machine["allocatable"])}

    described = [
        {"name": machine["name"], "capacity": amounts(machine["allocatable"]), "usage": used(machine),
         "labels": machine["labels"], "operator": {"cordon": machine["unschedulable"]}}
        for machine in machines
    ]  # fmt: skip
    instances = [
        {"id": pod["name"], "machine": pod["machine"], **amounts(pod["requests"]), "usage": amounts(pod["usage"]),
         "priority_class": pod["priority_class"].removeprefix("koord-")}
        for pod in pods
    ]  # fmt: skip
    return read_fleet({"machines": described, "instances": instances})


def read_pool(fleet, settings, inputs):
    """The pool as the product reads it; a row has a capacity of pods for each machine, a profile one for all."""
    scene = scene_of(fleet.inputs(KUBERNETES, Tables()))
    pods = {pod["name"]: pod for pod in inputs["pods"]}
    pool = pool_of(scene, settings, np.array([pods[one.id]["evictable"] for one in scene.instances]), {})
    capacity, row = pool.capacity.copy(), pool.resources.index(INSTANCES)
    assert set(capacity[row]) == {settings.instances_full}
    most = {machine["name"]: machine["allocatable"]["pods"] for machine in inputs["machines"]}
    capacity[row] = [most[machine] for machine in pool.machines]
    return replace(pool, capacity=capacity)


def balance(inputs):
    params = inputs["params"]
    thresholds = {
        name: renamed(params[f"{name}_thresholds_percent"]) or {} for name in ("low", "high", "prod_low", "prod_high")
    }
    settings = Rebalancing(
        rule="thresholds",
        **thresholds,
        deviation=params["use_deviation_thresholds"],
        rounds_over=params["consecutive_abnormalities"],
        rounds_under=params["consecutive_normalities"],
        weights=renamed(params["resource_weights"]) or {},
        machines_min=params["number_of_nodes"],
        moves_max=params["max_evictions_total"] or 10_000,
    )
    assert params["node_fit"], "what leaves always has a target here"
    fleet = fleet_file(inputs["machines"], inputs["pods"])
    pool, named = read_pool(fleet, settings, inputs), {pod["name"]: pod for pod in inputs["pods"]}
    rules = Rules(settings, condition_of(settings, 60.0), settings.moves_max)
    return low_node_load(pool, rules, by_filters(fleet, pool, named), SideDetectors(), MANUAL_S)


def by_filters(fleet, pool, pods):
    """Which machines take a pod, by the profile `kubernetes`."""
    kept = Tables()

    def fits(instance, places):
        one = fleet.ledger.instances[pool.instances[instance]]
        wanted = pods[one.id]["required_node_labels"]
        selector = ",".join(f"{key}={value}" for key, value in wanted.items())
        request = msgspec.structs.replace(as_request(one, ""), selector=selector)
        ranking = rank(request, fleet.inputs(KUBERNETES, kept))
        index = fleet.snapshot.roster.index
        return np.array([m for m in places if ranking.feasible[index[pool.machines[m]]]], np.int64)

    return fits


@pytest.mark.parametrize("case", rows("balance"))
def test_balance(case):
    assert len(balance(case["inputs"])) == case["expected"]["pods_evicted"]


@pytest.mark.parametrize("case", rows("eviction_reason"))
def test_the_reason(case):
    inputs = case["inputs"]
    side = "prod" if inputs["prod"] else "node"
    percents = renamed(inputs["prod_high_thresholds_percent" if inputs["prod"] else "high_thresholds_percent"]) or {}
    resources = tuple(percents)
    capacity = np.array([(renamed(inputs["allocatable"]) or {})[name] for name in resources], float)
    used = np.array([(renamed(inputs["prod_usage" if inputs["prod"] else "usage"]) or {})[n] for n in resources], float)
    none = np.zeros(0, np.int64)
    pool = Pool(
        resources, ("m",), capacity[:, None], np.ones(1, bool), used[:, None], (), none,
        np.zeros((len(resources), 0)), none > 0, none > 0, none, none * 1.0,
    )  # fmt: skip
    named = {name: (percent, percent) for name, percent in percents.items()}
    _, high, compared_percents = limits(pool, used[:, None], named, False)
    compared = Side(side, used[:, None], high, high, compared_percents, Detectors())
    assert reason(resources, compared, pool.capacity, 0) == case["expected"]["reason"]


@pytest.mark.parametrize("case", rows("anomaly_detection"))
def test_rounds_in_a_row(case):
    inputs = case["inputs"]
    condition = Condition(inputs["consecutive_abnormalities"], inputs["consecutive_normalities"])
    detectors = Detectors()
    for _ in range(inputs["consecutive_abnormalities"]):
        detectors.abnormal(inputs["already_abnormal_machines"], condition, MANUAL_S)
    for _ in range(inputs["extra_detect_rounds"]):
        detectors.abnormal(inputs["source_machines"], condition, MANUAL_S)
    assert detectors.abnormal(inputs["source_machines"], condition, MANUAL_S) == case["expected"]["abnormal"]


@pytest.mark.parametrize("case", rows("anomaly_sequence"))
def test_the_state_of_one_machine(case):
    """Mark by mark; the words with a question mark are answered."""
    inputs = case["inputs"]
    condition = Condition(
        inputs["consecutive_abnormalities"], inputs["consecutive_normalities"], inputs.get("timeout_s", 60.0)
    )
    detector, now_s, answers = Detector(condition), MANUAL_S, []
    for operation in inputs["ops"]:
        if operation.startswith("wait:"):
            now_s += float(operation.removeprefix("wait:"))
            continue
        word = operation.removesuffix("?")
        state = detector.state(now_s) if word == "state" else detector.mark(word == "normal", now_s)
        if operation.endswith("?"):
            answers.append(state)
    assert answers == case["expected"]["answers"]


@pytest.mark.parametrize("case", rows("filter_nodes"))
def test_the_machines_of_a_pool(case):
    fleet = read_fleet([{"name": m["name"], "labels": m["labels"]} for m in case["inputs"]["machines"]])
    wanted = ",".join(f"{key}={value}" for key, value in case["inputs"]["match_labels"].items())
    ranking = rank(read_request({"selector": wanted}), fleet.inputs(KUBERNETES))
    names = [name for name, taken in zip(fleet.snapshot.names, ranking.feasible, strict=True) if taken]
    assert names == case["expected"]["machines"]


@pytest.mark.parametrize("case", rows("sort_nodes"))
def test_the_order_of_sources(case):
    inputs = case["inputs"]
    names = list(inputs["allocatable"])

    def score(machine):
        of = [machine["usage"], inputs["allocatable"], inputs["weights"]]
        return usage_score(*([each.get(name, 0) for name in names] for each in of))

    ordered = sorted(inputs["machines"], key=score, reverse=not inputs["ascending"])
    assert [machine["name"] for machine in ordered] == case["expected"]["order"]


@pytest.mark.parametrize("case", rows("node_usage_score"))
def test_the_score_of_a_source(case):
    inputs = case["inputs"]
    names = list(inputs["usage"])
    score = usage_score(*([inputs[key].get(name, 0) for name in names] for key in ("usage", "capacity", "weights")))
    assert score == case["expected"]["score"]


def ordered(inputs):
    names, pods = list(inputs["weights"]), inputs["pods"]
    excess = np.zeros(len(names))
    if "node_usage" in inputs:
        used, high = ([inputs[key].get(name, 0) for name in names] for key in ("node_usage", "high_thresholds"))
        excess = np.array(used, float) - high
        pods = [{"priority_class": "koord-prod"} | pod for pod in pods]
    usage = np.array([[(pod["usage"] or {}).get(name, 0) for pod in pods] for name in names], float)
    weights = np.array([inputs["weights"][name] for name in names], float)
    ranks, since = ([of(pod) for pod in pods] for of in (class_rank, lambda pod: float(pod.get("created_s", 0))))
    order = eviction_order(np.array(ranks), usefulness(usage, excess, weights), np.array(since))
    return [pods[n]["name"] for n in order]


@pytest.mark.parametrize("case", rows("eviction_order", "sort_pods"))
def test_the_order_of_instances(case):
    assert ordered(case["inputs"]) == case["expected"]["order"]


def test_the_order_of_pods_that_differ_in_what_is_here():
    """Of the peer's table of 23 pods every two of unlike class, and every two that differ in their age alone."""
    case = next(case for case in FILE["cases"] if case["name"] == "TestSortPods")
    pods = {pod["name"]: pod for pod in case["inputs"]["pods"]}
    tied = [set(group) for group in case["expected"]["tied"]]
    missing = ("priority", "kube_qos", "koordinator_qos", "deletion_cost", "eviction_cost")

    def told_apart(one, other):
        if class_rank(pods[one]) != class_rank(pods[other]):
            return True
        alike = all(pods[one][key] == pods[other][key] for key in missing)
        measured = {pods[name]["usage"] is not None for name in (one, other)}
        return alike and len(measured) == 1 and {one, other} not in tied

    expected = [pair for pair in combinations(case["expected"]["order"], 2) if told_apart(*pair)]
    assert len(expected) > 100
    found = ordered(case["inputs"])
    assert [pair for pair in expected if found.index(pair[0]) > found.index(pair[1])] == []


@pytest.mark.parametrize("case", rows("no_targets"))
def test_without_a_target_nothing_is_looked_at(case):
    assert case["inputs"]["target_machines"] == []
    asked = []
    one = np.zeros(1, np.int64)
    pool = Pool(
        ("cpu", "memory"), ("m",), np.full((2, 1), 100.0), np.ones(1, bool), np.zeros((2, 1)), ("i",), one,
        np.full((2, 1), 90.0), one == 0, one == 0, one, one * 1.0,
    )  # fmt: skip
    rules = Rules(Rebalancing(rule="thresholds", low={"cpu": 10}, high={"cpu": 50}), None, 10)
    found = low_node_load(pool, rules, lambda n, _: asked.append(n) or one, SideDetectors(), MANUAL_S)
    assert (found, asked) == ([], [])


def test_every_row_is_run_or_listed():
    run = {
        "balance", "eviction_reason", "anomaly_detection", "anomaly_sequence", "filter_nodes", "sort_nodes",
        "node_usage_score", "sort_pods", "eviction_order", "no_targets",
    }  # fmt: skip
    kinds = {case["name"]: case["kind"] for case in FILE["cases"]}
    assert {name for name, kind in kinds.items() if kind not in run} <= NOT_COVERED.keys() <= kinds.keys()
