"""The load-aware filter and score and the estimates against Koordinator's own tables.

A row becomes a fleet file, a request and a profile file, by names and units alone; what the peer's rules do with them
the scorer does.
"""

import json
from importlib import resources

import pytest

from schemas.resources import PRIORITY_CLASSES
from scorer.ranking import explain
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import LoadModel
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.scores.load_aware import LoadAware
from tests.scorer.fleets import (
    CASES,
    allowed,
    by_name,
    cases,
    fleet,
    machine,
    ranked,
    raw_scores,
    request,
    scores,
    told,
    toml,
    verdicts,
)

FILTER, SCORE, ESTIMATOR = "koordinator_load_aware_filter", "koordinator_load_aware_score", "koordinator_estimator"
UNITS = {"cpu_millicores": ("cpu", 1000), "memory_bytes": ("memory", 1)}
WINDOW_S = 300
"""The peer averages its usage over this."""

LEDGER = "the class of an instance is the ledger's: what an agent says of its class is not asked"
DIFFERENT = {"PodAssignCache/usage and delta vectors with 6 assigned pods": LEDGER}
"""Rows that Windward deliberately answers otherwise, and why."""


def amounts(said):
    """Return amounts in the words of a request; the names by class (mid_cpu, batch_cpu) are one here."""
    found = {}
    for name, value in said.items():
        resource, unit = UNITS[name.removeprefix("mid_").removeprefix("batch_")]
        assert resource not in found
        found[resource] = value / unit
    return found


def instance(pod):
    limits = amounts(pod["limits"])
    kind = pod["priority_class"].removeprefix("koord-")
    return {"priority_class": kind, **amounts(pod["requests"]), **({"limits": limits} if limits else {})}


def placed(pods, metric=None):
    """Return the pods on the machine `m` as instances, each with its usage where the machine's report has it."""
    reported = {pod["name"]: amounts(pod["usage"]) for pod in (metric or {}).get("pods", ())}
    return [
        {"id": pod["name"], "machine": "m", "placed_ago_s": pod.get("scheduled_age_s", 0), **instance(pod)}
        | ({"usage": reported[pod["name"]]} if pod["name"] in reported else {})
        for pod in pods
    ]


def shares(percents):
    return {name: percent / 100 for name, percent in (percents or {}).items()}


def estimate(percents):
    """Return the estimate with these factors, as the built-in profile has it; none at all without a factor."""
    return {
        "base": "larger",
        "factor": shares(percents) or {"cpu": 0.0, "memory": 0.0},
        "default": {"cpu": 0.25, "memory": 209715200} if percents else {},
        "round_to": {"cpu": 0.001, "memory": 1},
    }


def window(duration_s, kind):
    """Return how a filter or a score is told which usage to go by.

    A percentile without a length is that of the longest window that has one, and else the mean.
    """
    if kind is None:
        return {"window": WINDOW_S, "missing": "estimates"}
    missing = "estimates" if duration_s else "mean"
    return {"window": duration_s or "longest-covered", "missing": missing, "statistic": kind}


def profile(parameters):
    aggregated = parameters["aggregated"] or {}
    assert not parameters["prod_usage_include_sys"]
    of_filter = {
        "use": "usage_threshold",
        "thresholds": shares(parameters["usage_thresholds_percent"]),
        "prod_thresholds": shares(parameters["prod_usage_thresholds_percent"]),
        "percentile_thresholds": shares(aggregated.get("usage_thresholds_percent")),
        "expiration_s": parameters["node_metric_expiration_s"] if parameters["filter_expired_node_metrics"] else 0.0,
        "pass_expired": parameters["enable_schedule_when_node_metrics_expired"],
        "rounding": True,
        "instead": True,
        **window(aggregated.get("usage_aggregated_duration_s"), aggregated.get("usage_aggregation_type")),
    }
    score = {
        "use": "load_aware",
        "weights": parameters["resource_weights"],
        "dominant_weight": parameters["dominant_resource_weight"],
        "prod_usage": parameters["score_according_prod_usage"],
        "expiration_s": parameters["node_metric_expiration_s"],
        "rounding": True,
        **window(aggregated.get("score_aggregated_duration_s"), aggregated.get("score_aggregation_type")),
    }
    return {
        "window": WINDOW_S,
        "credits": "koordinator-pending",
        "stale": "refuse",
        "stale_s": 180.0,
        "estimate": estimate(parameters["estimated_scaling_factors_percent"]),
        "filters": [of_filter],
        "scores": [score],
    }


def statistics(said, **of_percentiles):
    """Return a usage as means, with percentiles where they are reported; what a report leaves out is 0."""
    means, percentiles = amounts(said), {kind: amounts(values) for kind, values in of_percentiles.items()}
    return {
        name: {"mean": means.get(name, 0.0), **{kind: values.get(name, 0.0) for kind, values in percentiles.items()}}
        for name in ("cpu", "memory")
    }


def usage(metric):
    """Return what a machine's report says, as a fleet file does.

    The peer leaves a percentile out while its samples span less than half of the window: such windows are here covered
    to less than half. A report without the machine's own usage is one of another resource alone.
    """
    age_s = 1e9 if metric["update_age_s"] is None else metric["update_age_s"]
    if metric["node_usage"] is None:
        return {"age_s": age_s, "usage": {"nic": 0}}
    mean = metric["node_usage"]
    return {
        "age_s": age_s,
        "usage": {name: said | {"coverage": 0.4} for name, said in statistics(mean).items()},
        "windows": {str(each["duration_s"]): statistics(mean, **each["usage"]) for each in metric["aggregated"]},
        "system": {"cpu": 0.0, "memory": 0.0} | amounts(metric.get("system_usage") or {}),
    }


def offline_fleet(inputs):
    node, metric = inputs["machine"], inputs["metric"]
    groups = {
        "thresholds": node["custom_usage_thresholds_percent"],
        "prod_thresholds": node["custom_prod_usage_thresholds_percent"],
        "percentile_thresholds": (node["custom_aggregated"] or {}).get("usage_thresholds_percent"),
    }
    aggregated = inputs["params"]["aggregated"] or {}
    lengths = [aggregated.get(f"{use}_aggregated_duration_s") for use in ("usage", "score")]
    lengths += [WINDOW_S, *(each["duration_s"] for each in (metric or {}).get("aggregated", ()))]
    return fleet(
        machine(
            cpu=None,
            memory=None,
            capacity=amounts(node["allocatable"]),
            operator={name: shares(percents) for name, percents in groups.items() if percents is not None},
            **(usage(metric) if metric is not None else {}),
        ),
        windows_s=sorted({length for length in lengths if length}),
        instances=placed(inputs["assigned"], metric),
    )


@pytest.mark.parametrize("row", cases(FILTER), ids=by_name)
def test_load_aware_filter_as_koordinator(row):
    inputs, expected = row["inputs"], row["expected"]
    settings = profile(inputs["params"])
    (of_filter,), _ = settings.pop("filters"), settings.pop("scores")
    said = verdicts(offline_fleet(inputs), of_filter, request(**instance(inputs["incoming"])), **settings)["m"]
    assert said["allowed"] == (expected["verdict"] == "pass")
    if not said["allowed"]:
        assert ("stale" in said["reason"]) == ("expired" in expected["reason"])
        for name in ("cpu", "memory"):
            assert (name in said["reason"]) == (name in expected["reason"])


@pytest.mark.parametrize("row", cases(SCORE), ids=by_name)
def test_load_aware_score_as_koordinator(row):
    inputs = row["inputs"]
    settings = profile(inputs["params"])
    (score,), _ = settings.pop("scores"), settings.pop("filters")
    found = raw_scores(offline_fleet(inputs), score, request(**instance(inputs["incoming"])), **settings)
    assert found == {"m": row["expected"]["score"]}


@pytest.mark.parametrize("row", cases(ESTIMATOR, "estimate_pod"), ids=by_name)
def test_estimate_of_an_instance_as_koordinator(row):
    """Larger of limit and request, times the factor, capped at the limit, with the peer's defaults."""
    inputs, expected = row["inputs"], row["expected"]
    assert not inputs["allow_customize"]
    settings = {"estimate": estimate(inputs["scaling_factors_percent"])}
    found = explain.answer(ranked(fleet(machine()), settings, request(**instance(inputs["pod"])))).expected
    assert in_units(found) == expected


@pytest.mark.parametrize("row", cases(ESTIMATOR, "estimate_node"), ids=by_name)
def test_an_operators_capacity_wins_as_the_raw_allocatable(row):
    inputs, expected = row["inputs"], row["expected"]
    raw = amounts(inputs["raw_allocatable_annotation"] or {})
    one = machine(
        cpu=None, memory=None, capacity=amounts(inputs["allocatable"]), operator={"capacity": raw} if raw else {}
    )
    resources = told(fleet(one), {})["m"]["resources"]
    found = {name: resources[name]["allocatable"] for name in ("cpu", "memory")}
    assert {name: value for name, value in in_units(found).items() if value is not None} == expected


def in_units(found):
    return {key: None if found[name] is None else round(found[name] * unit) for key, (name, unit) in UNITS.items()}


ROUNDED = {"missing": "estimates", "rounding": True}
NOTHING = {"expected": {"cpu": 0, "memory": 0}}
"""A request that is expected to use nothing, so that what is there already stands alone."""


def compared(row, groups, **usage):
    """Return which load the filter sees on a machine of one core and one byte with a row's pods and reports."""
    of_filter = {"use": "usage_threshold", **ROUNDED, **groups}
    inputs = row["inputs"]
    said = {"system": {"cpu": 0.0, "memory": 0.0} | amounts(inputs["metric"].get("system_usage") or {})}
    offline = fleet(machine(cpu=1, memory=1, **said, **usage), instances=placed(inputs["assigned"], inputs["metric"]))
    settings = {"credits": "koordinator-pending", "estimate": estimate(row["inputs"]["scaling_factors_percent"])}
    return in_units(verdicts(offline, of_filter, request(**NOTHING), **settings)["m"]["compared"]["usage"])


ALL = {"cpu": 1.0, "memory": 1.0}


@pytest.mark.parametrize("row", cases(ESTIMATOR, "pending_vectors"), ids=by_name)
def test_pending_instances_as_koordinator(row):
    expected = row["expected"]
    idle, thin = {"cpu": 0, "memory": 0}, {"mean": 0, "coverage": 0.2}
    full = compared(row, {"percentile_thresholds": ALL}, usage={"cpu": thin, "memory": thin})
    assert full == expected["node_estimated"]
    assert compared(row, {"thresholds": ALL}, usage=idle) == expected["node_delta"]
    prod = compared(row, {"prod_thresholds": ALL}, usage=idle)
    both = {key: expected["prod_usage"][key] + expected["prod_delta"][key] for key in UNITS}
    if row["name"] in DIFFERENT:  # an instance of prod that its agent calls mid: what it uses is prod all the same
        extra = {"cpu_millicores": 3000 - 2000, "memory_bytes": 6 * 2**30 - 4 * 2**30}
        assert prod == {key: both[key] + extra[key] for key in UNITS} != both
        return
    assert prod == both


def test_the_built_in_profile_has_the_peers_defaults():
    """The profile named koordinator is the one that the tables' own defaults make."""
    built_in = load_profiles().choose("koordinator").effective()
    for table in (FILTER, SCORE):
        mine = parse_profile(toml(profile(json.loads((CASES / f"{table}.json").read_text())["defaults"])), "mine")
        (of_filter,), (score,) = mine.effective()["filters"], mine.effective()["scores"]
        for each in (of_filter, score):  # said for each in a row, for all in the built-in profile
            for name in ("window", "credits", "debits", "estimate", "learned"):
                assert each.pop(name) == built_in[name]
        assert of_filter in built_in["filters"]
        assert score in built_in["scores"]
        for name in ("window", "credits", "estimate", "stale", "stale_s"):
            assert mine.effective()[name] == built_in[name]


# ---- rules of the peer that no row of its tables shows


BUSY = {"cpu": {"mean": 6.2}, "memory": {"mean": 10}}


def under_the_built_in(**asked):
    """Return the ranking, by the profile koordinator, of a machine of 10 cores that uses 6.2; 6.5 is the threshold."""
    return ranked(fleet(machine("m", 10, "10G", usage=BUSY)), "koordinator", request(**asked))


@pytest.mark.parametrize("kind", PRIORITY_CLASSES)
def test_a_class_without_an_amount_counts_the_default_unless_it_says_0(kind):
    """The peer estimates 0 for class free, and for mid without an amount; here the request says so."""
    one = {"priority_class": kind}
    assert explain.answer(under_the_built_in(**one)).expected["cpu"] == 0.25
    assert explain.answer(under_the_built_in(**one, **NOTHING)).expected["cpu"] == 0


def test_what_must_run_everywhere_is_asked_for_under_a_profile_without_the_filter():
    """The peer lets a DaemonSet's pod pass its load filter; here a profile of one's own leaves the filter out."""
    assert under_the_built_in(cpu=1).chosen is None
    built_in = resources.files("scorer.ranking").joinpath("profiles", "koordinator.toml").read_text()
    start = built_in.index('[[filters]]\nuse = "usage_threshold"')
    without = built_in[:start] + built_in[built_in.index("[[filters]]", start + 1) :]
    daemon = parse_profile(without, "daemon")
    assert ranked(fleet(machine("m", 10, "10G", usage=BUSY)), daemon, request(cpu=1, machine="m")).chosen == "m"


# ---- settings


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
)
@pytest.mark.parametrize("rounding", [True, False])
def test_zeros_switch_a_group_and_those_behind_it_off(name, settings, operator, passes, rounding):
    """The first group that is given decides, even if it says nothing: then not even old data is looked at."""
    more = {"expiration_s": 180.0, **ROUNDED} if rounding else {}
    plugin = UsageThreshold(**{"thresholds": {"cpu": 0.65}, "instead": True, **settings, **more})
    assert allowed(plugin, fleet(machine(**KOORDINATOR_OLD, operator=operator))) == {"m": passes}


def test_what_counts_where_a_percentile_is_missing():
    """Asked for a length of its own the peer counts estimates, asked for any the mean."""
    thin = {"cpu": {"mean": 8, "coverage": 0.2}, "memory": {"mean": 80, "coverage": 0.2}}
    offline = fleet(machine(usage=thin), instances=[{"id": "i", "machine": "m", "cpu": 4, "memory": 40}])
    load_model = LoadModel(credits="none")

    def of(missing):
        plugin = UsageThreshold(percentile_thresholds={"cpu": 0.6}, missing=missing, rounding=True)
        score = LoadAware(statistic="p95", missing=missing, rounding=True)
        return allowed(plugin, offline, None, load_model)["m"], scores(score, offline, None, load_model)["m"]

    assert of("estimates") == (True, 60)
    assert of("mean") == (False, 20)


@pytest.mark.parametrize(
    ("name", "used", "passes"),
    [
        ("14.5 by fractions, a hair below by the peer's floats", {"cpu": "29m"}, True),
        ("a millicore more", {"cpu": "30m"}, False),
        ("a byte below the half", {"memory": 525_016_802_263}, True),
        ("a byte above it", {"memory": 525_016_802_264}, False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_whole_percents_are_rounded_as_the_peer_rounds_them(name, used, passes):
    """The quotient of whole millicores or bytes, times 100, in floats: 29 of 200 are 14 % of cpu."""
    offline = fleet(machine(cpu="200m", memory="512Gi", usage={"cpu": 0, "memory": 0, **used}))
    of_filter = {"use": "usage_threshold", "thresholds": {"cpu": 0.14, "memory": 0.95}, **ROUNDED}
    assert verdicts(offline, of_filter, credits="none")["m"]["allowed"] is passes


def test_a_machine_that_does_not_report_a_resource_has_no_percentile_of_it_either():
    """Estimates count where a percentile is missing, not where everything is: the machine passes, and scores 0."""
    busy = [{"id": "i", "machine": "m", "cpu": 9, "memory": 90}]
    offline = fleet(machine(usage={"nic": 1}), instances=busy)
    of_filter = {"use": "usage_threshold", "percentile_thresholds": {"cpu": 0.5}, **ROUNDED}
    assert verdicts(offline, of_filter)["m"]["allowed"]
    score = {"use": "load_aware", "statistic": "p95", **ROUNDED}
    assert raw_scores(offline, score) == {"m": 0}


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
def test_load_aware_settings(name, settings, age_s, score):
    offline = fleet(machine(usage={"cpu": 8, "memory": 40}, age_s=age_s))
    assert scores(LoadAware(rounding=True, **settings), offline) == {"m": score}


@pytest.mark.parametrize(("with_system", "used"), [(False, 0.3), (True, 0.5)])
def test_what_the_system_uses_counts_as_prod_where_that_is_asked_for(with_system, used):
    """The peer's prodUsageIncludeSys, in the filter and in the score; batch counts in neither."""
    offline = fleet(
        machine(usage={"cpu": 9, "memory": 0}, system={"cpu": 2, "memory": 0}),
        instances=[
            {"id": "a", "machine": "m", "cpu": 9, "memory": 0, "usage": {"cpu": 3, "memory": 0}},
            {"id": "b", "machine": "m", "priority_class": "batch", "memory": 0, "usage": {"cpu": 4, "memory": 0}},
        ],
    )
    own = {"prod_with_system": with_system}
    of_filter = {"use": "usage_threshold", "prod_thresholds": {"cpu": 0.49}, **own}
    said = verdicts(offline, of_filter, request(), credits="koordinator-pending")["m"]
    assert said["compared"]["usage"]["cpu"] == pytest.approx(used)
    assert said["allowed"] == (used < 0.49)
    score = {"use": "load_aware", "prod_usage": True, "weights": {"cpu": 1}, **own}
    assert raw_scores(offline, score, request(), credits="koordinator-pending")["m"] == pytest.approx(100 - 100 * used)


@pytest.mark.parametrize(
    ("what", "usage", "mean"), [("less than expected", 1, 9 + 3), ("more", 7, 9), ("nothing", None, 9 + 4)]
)
def test_a_pending_instance_counts_less_what_it_is_seen_to_use(what, usage, mean):
    """``max(0, estimate - usage)``, on top of what the machine uses; nothing once it is not pending."""
    said = {} if usage is None else {"usage": {"cpu": usage}}
    for placed_ago_s, expected in ((5, mean), (600, 9.0)):
        one = {"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": placed_ago_s, **said}
        offline = fleet(machine(cpu=40, usage={"cpu": 9}), instances=[one])
        found = told(offline, {"credits": "koordinator-pending"})["m"]["resources"]["cpu"]
        assert found["mean"] + found["credit"] == expected, what
