"""The load-aware filter and score and the estimates against Koordinator's own tables."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.resources import CPU, MEMORY, PRIORITY_CLASSES
from scorer.credits import Estimate
from scorer.filters.usage_threshold import UsageThreshold
from scorer.profile import Sight, load_profiles
from scorer.scores.load_aware import LoadAware
from tests.scorer.fleets import allowed, by_name, cases, fleet, machine, request, scores, see

DEFAULT_CPU, DEFAULT_MEMORY = 0.25, 200 * 2**20


def estimate(factors: dict[str, float]) -> Estimate:
    """Return Koordinator's estimate with these factors in percent."""
    return Estimate(
        base="larger",
        factor={name: percent / 100 for name, percent in factors.items()},
        default={"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY} if factors else {},
        round_to={"cpu": 0.001, "memory": 1.0},
    )


def amounts(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod's amounts in the words of a request; the names by class (mid-cpu, batch-cpu) are one here."""
    kind = pod["priority_class"].removeprefix("koord-")
    prefix = "" if kind == "prod" else f"{kind}_"

    def of(said: dict[str, float]) -> dict[str, float]:
        found = {}
        if (cpu := said.get(f"{prefix}cpu_millicores")) is not None:
            found["cpu"] = cpu / 1000
        if (memory := said.get(f"{prefix}memory_bytes")) is not None:
            found["memory"] = memory
        return found

    limits = of(pod["limits"])
    return {"priority_class": kind, **of(pod["requests"])} | ({"limits": limits} if limits else {})


def usage_of(said: dict[str, float]) -> dict[str, float]:
    """Return a usage; what is left out of a report that is there is 0."""
    return {"cpu": said.get("cpu_millicores", 0) / 1000, "memory": said.get("memory_bytes", 0)}


def percents(said: dict[str, float] | None) -> dict[str, float]:
    """Return thresholds as shares."""
    return {name: percent / 100 for name, percent in (said or {}).items()}


def left(pod: dict[str, Any], reported: dict[str, Any] | None, plan: Estimate) -> dict[str, Any]:
    """Return the part of an instance's estimate that its reported usage does not show: max(0, estimate - usage).

    The windows hold no usage by instance, so this is taken while reading.
    """
    if reported is None:
        return {}
    asked = request(**amounts(pod))
    values = plan.of_request(asked).tolist()
    used = usage_of(reported["usage"])
    return {
        "expected": {"cpu": max(0.0, values[CPU] - used["cpu"]), "memory": max(0.0, values[MEMORY] - used["memory"])}
    }


def read(inputs: dict[str, Any], plan: Estimate) -> Any:
    """Return the fleet of a row of the filter's or the score's table."""
    metric, node = inputs["metric"], inputs["machine"]
    allocatable = node["allocatable"]
    known: dict[str, Any] = {}
    windows: dict[str, Any] = {}
    if metric is not None:
        known["age_s"] = 1e9 if metric["update_age_s"] is None else metric["update_age_s"]
        if metric["node_usage"] is None:
            known["usage"] = {"nic": 0}
        else:
            known["usage"] = {
                name: {"mean": value, "coverage": 0.4} for name, value in usage_of(metric["node_usage"]).items()
            }
            if not metric["aggregated"] and not asks_for_percentile(inputs):
                known["usage"] = usage_of(metric["node_usage"])
        for entry in metric["aggregated"]:
            by_type = {kind: usage_of(said) for kind, said in entry["usage"].items()}
            base = usage_of(metric["node_usage"])
            windows[str(entry["duration_s"])] = {
                name: {"mean": base[name], **{kind: said[name] for kind, said in by_type.items()}}
                for name in ("cpu", "memory")
            }
        prod = {pod["name"] for pod in inputs["assigned"] if pod["priority_class"] == "koord-prod"}
        mine = [
            usage_of(p["usage"]) for p in metric["pods"] if p["priority_class"] == "koord-prod" and p["name"] in prod
        ]
        known["classes"] = {"prod": {name: sum(each[name] for each in mine) for name in ("cpu", "memory")}}
    operator: dict[str, Any] = {}
    if node["custom_usage_thresholds_percent"] is not None:
        operator["thresholds"] = percents(node["custom_usage_thresholds_percent"])
    if node["custom_prod_usage_thresholds_percent"] is not None:
        operator["prod_thresholds"] = percents(node["custom_prod_usage_thresholds_percent"])
    if node["custom_aggregated"] is not None:
        operator["percentile_thresholds"] = percents(node["custom_aggregated"]["usage_thresholds_percent"])
    asked_s = window_of(inputs)
    lengths = sorted({int(length) for length in windows} | ({asked_s} if asked_s else set()) or {300})
    reported = {pod["name"]: pod for pod in (metric or {}).get("pods", ())}
    return fleet(
        machine(
            cpu=allocatable["cpu_millicores"] / 1000 if allocatable else None,
            memory=allocatable["memory_bytes"] if allocatable else None,
            windows=windows,
            operator=operator,
            **known,
        ),
        windows_s=lengths,
        instances=[
            {"id": pod["name"], "machine": "m", "placed_ago_s": pod["scheduled_age_s"], **amounts(pod),
             **left(pod, None if asks_for_percentile(inputs) else reported.get(pod["name"]), plan)}
            for pod in inputs["assigned"]
        ],
    )  # fmt: skip


def window_of(inputs: dict[str, Any]) -> int | None:
    """Return the length of the aggregated usage asked for, None for the longest there is."""
    aggregated = inputs["machine"]["custom_aggregated"] or inputs["params"]["aggregated"] or {}
    return aggregated.get("usage_aggregated_duration_s") or aggregated.get("score_aggregated_duration_s")


def asks_for_percentile(inputs: dict[str, Any]) -> bool:
    """Return whether a row is about aggregated usage."""
    return bool(inputs["params"]["aggregated"] or inputs["machine"]["custom_aggregated"])


@pytest.mark.parametrize("row", cases("koordinator_load_aware_filter"), ids=by_name)
def test_load_aware_filter_as_koordinator(row: dict[str, Any]) -> None:
    """The verdict, and its reason, of each row of the peer's filter tables."""
    inputs, parameters = row["inputs"], row["inputs"]["params"]
    plan = estimate(parameters["estimated_scaling_factors_percent"])
    aggregated = parameters["aggregated"] or inputs["machine"]["custom_aggregated"] or {}
    plugin = UsageThreshold(
        thresholds=percents(parameters["usage_thresholds_percent"]),
        percentile_thresholds=percents((parameters["aggregated"] or {}).get("usage_thresholds_percent")),
        statistic=aggregated.get("usage_aggregation_type", "p95"),
        prod_thresholds=percents(parameters["prod_usage_thresholds_percent"]),
        expiration_s=parameters["node_metric_expiration_s"] if parameters["filter_expired_node_metrics"] else 0.0,
        pass_expired=parameters["enable_schedule_when_node_metrics_expired"],
        missing="estimates",
        rounding=True,
    )
    sight = Sight(window=window_of(inputs) or "longest-covered", credits="koordinator-pending", estimate=plan)
    offline, asked = read(inputs, plan), request(**amounts(inputs["incoming"]))
    verdict = allowed(plugin, offline, asked, sight)["m"]
    assert verdict == (row["expected"]["verdict"] == "pass")
    if not verdict:
        reason = next(name for name, mask in plugin.reasons(asked, see(offline, asked, sight)).items() if mask[0])
        assert ("stale" in reason) == ("expired" in row["expected"]["reason"])
        for name in ("cpu", "memory"):
            assert (name in reason) == (name in row["expected"]["reason"])


@pytest.mark.parametrize("row", cases("koordinator_load_aware_score"), ids=by_name)
def test_load_aware_score_as_koordinator(row: dict[str, Any]) -> None:
    """The whole number of each row of the peer's score table."""
    inputs, parameters = row["inputs"], row["inputs"]["params"]
    plan = estimate(parameters["estimated_scaling_factors_percent"])
    plugin = LoadAware(
        weights=parameters["resource_weights"],
        dominant_weight=parameters["dominant_resource_weight"],
        statistic=(parameters["aggregated"] or {}).get("score_aggregation_type", "mean"),
        prod_usage=parameters["score_according_prod_usage"],
        expiration_s=parameters["node_metric_expiration_s"],
        missing="estimates",
        rounding=True,
    )
    sight = Sight(window=window_of(inputs) or "longest-covered", credits="koordinator-pending", estimate=plan)
    asked = request(**amounts(inputs["incoming"]))
    assert scores(plugin, read(inputs, plan), asked, sight) == {"m": row["expected"]["score"]}


@pytest.mark.parametrize("row", cases("koordinator_estimator", "estimate_pod"), ids=by_name)
def test_estimate_of_an_instance_as_koordinator(row: dict[str, Any]) -> None:
    """Larger of limit and request, times the factor, capped at the limit, with the peer's defaults."""
    inputs, expected = row["inputs"], row["expected"]
    values = estimate(inputs["scaling_factors_percent"]).of_request(request(**amounts(inputs["pod"])))
    assert [round(values[CPU] * 1000), round(values[MEMORY])] == [expected["cpu_millicores"], expected["memory_bytes"]]


@pytest.mark.parametrize("row", cases("koordinator_estimator", "estimate_node"), ids=by_name)
def test_an_operators_capacity_wins_as_the_raw_allocatable(row: dict[str, Any]) -> None:
    """What an operator says a machine has replaces what it reports, resource by resource."""
    inputs, expected = row["inputs"], row["expected"]
    raw = inputs["raw_allocatable_annotation"] or {}
    names = {"cpu_millicores": ("cpu", 1000), "memory_bytes": ("memory", 1)}
    said = {names[key][0]: value / names[key][1] for key, value in raw.items()}
    offline = fleet(
        machine(
            cpu=inputs["allocatable"]["cpu_millicores"] / 1000,
            memory=inputs["allocatable"].get("memory_bytes"),
            operator={"capacity": said} if said else {},
        )
    )
    for key, value in expected.items():
        name, unit = names[key]
        assert offline.snapshot.allocatable[("cpu", "memory").index(name), 0] * unit == value


@pytest.mark.parametrize("row", cases("koordinator_estimator", "pending_vectors"), ids=by_name)
def test_pending_instances_as_koordinator(row: dict[str, Any]) -> None:
    """What placed instances add to a machine's usage, to that of class prod, and their full estimates."""
    inputs, expected = row["inputs"], row["expected"]
    plan = estimate(inputs["scaling_factors_percent"])
    if not inputs["scaling_factors_percent"]:
        plan = Estimate(factor={"cpu": 0.0, "memory": 0.0})
    sight = Sight(credits="koordinator-pending", estimate=plan)
    reported = {pod["name"]: pod for pod in inputs["metric"]["pods"]}

    def machines(also: Any) -> Any:
        instances = [
            {"id": pod["name"], "machine": "m", "placed_ago_s": 0, **amounts(pod), **also(pod)}
            for pod in inputs["assigned"]
        ]
        quiet = {"prod": {"cpu": 0, "memory": 0}}
        return see(fleet(machine(usage={"cpu": 0, "memory": 0}, classes=quiet), instances=instances), None, sight)

    def in_prod(pod: dict[str, Any]) -> dict[str, Any]:
        mine = reported.get(pod["name"])
        return left(pod, mine if mine and mine["priority_class"] == "koord-prod" else None, plan)

    def listed(values: Any) -> list[int]:
        return [round(values[CPU, 0] * 1000), round(values[MEMORY, 0])]

    def of(name: str) -> list[int]:
        return [expected[name]["cpu_millicores"], expected[name]["memory_bytes"]]

    assert listed(machines(lambda _: {}).estimated) == of("node_estimated")
    assert listed(machines(lambda pod: left(pod, reported.get(pod["name"]), plan)).mean) == of("node_delta")
    assert listed(machines(in_prod).class_mean("prod")) == of("prod_delta")


KOORDINATOR_OLD = {"usage": {"cpu": 9, "memory": 9}, "age_s": 200}


@pytest.mark.parametrize(
    ("name", "settings", "operator", "passes"),
    [
        ("a group of zeros is given", {"prod_thresholds": {"cpu": 0.0}}, {}, True),
        ("no group is not", {"prod_thresholds": {}}, {}, False),
        ("zeros of a percentile", {"percentile_thresholds": {"cpu": 0.0}}, {}, True),
        ("an operator's zeros", {}, {"prod_thresholds": {"cpu": 0}}, True),
        ("a machine's own thresholds before zeros", {"thresholds": {"cpu": 0.0}}, {"thresholds": {"cpu": 0.5}}, False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.parametrize("rounding", [True, False])
def test_zeros_switch_a_group_and_those_behind_it_off(
    name: str, settings: dict[str, Any], operator: dict[str, Any], passes: bool, rounding: bool
) -> None:
    """The first group that is given decides, even if it says nothing: then not even old data is looked at."""
    more = {"expiration_s": 180.0, "missing": "estimates", "rounding": True} if rounding else {}
    plugin = UsageThreshold(**{"thresholds": {"cpu": 0.65}, **settings, **more})
    assert allowed(plugin, fleet(machine(**KOORDINATOR_OLD, operator=operator))) == {"m": passes}


def test_what_counts_where_a_percentile_is_missing() -> None:
    """Asked for a length of its own the peer counts estimates, asked for any the mean."""
    thin = {"cpu": {"mean": 8, "coverage": 0.2}, "memory": {"mean": 80, "coverage": 0.2}}
    offline = fleet(machine(usage=thin), instances=[{"id": "i", "machine": "m", "cpu": 4, "memory": 40}])
    sight = Sight(credits="none")

    def of(missing: Any) -> tuple[bool, float]:
        plugin = UsageThreshold(percentile_thresholds={"cpu": 0.6}, missing=missing, rounding=True)
        score = LoadAware(statistic="p95", missing=missing, rounding=True)
        return allowed(plugin, offline, None, sight)["m"], scores(score, offline, None, sight)["m"]

    assert of("estimates") == (True, 60)
    assert of("mean") == (False, 20)


@pytest.mark.parametrize(
    ("name", "settings", "age_s", "score"),
    [
        ("cpu and memory 1 each where nothing is said", {}, 0, 40),
        ("the dominant weight alone", {"dominant_weight": 10}, 0, 20),
        ("old data scores nothing", {}, 180, 0),
        ("of any age", {"expiration_s": 0}, 1e6, 40),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_load_aware_settings(name: str, settings: dict[str, Any], age_s: float, score: float) -> None:
    """Weights that nobody gave, and data of any age, are as in the peer."""
    offline = fleet(machine(usage={"cpu": 8, "memory": 40}, age_s=age_s))
    assert scores(LoadAware(rounding=True, **settings), offline) == {"m": score}


def test_the_built_in_profile_has_the_peers_defaults() -> None:
    """The profile named koordinator filters at 65 % and 95 %, and estimates by 85 % and 70 %."""
    profile = load_profiles().choose("koordinator")
    threshold = next(each.filter for each in profile.filters if isinstance(each.filter, UsageThreshold))
    assert (threshold.thresholds, threshold.expiration_s) == ({"cpu": 0.65, "memory": 0.95}, 180)
    asked = request(cpu=4, memory="8Gi")
    assert profile.sight.estimate.of_request(asked).tolist() == [3.4, 6012954214, 0]
    assert PRIORITY_CLASSES[0] == "prod"
