"""The figures of machines and fleet: those of ``windward machines show``, and what is left out."""

import logging
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import msgspec
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ops.exporter import fleet
from ops.exporter.exporter import Exporter
from ops.exporter.exposition import page
from ops.exporter.machines import MachineFamilies
from ops.exporter.settings import ExporterSettings, Statistic, window_name
from ops.exporter.state import State
from schemas.messages.operator import OperatorFacts
from schemas.messages.sample import MachineFacts
from schemas.resources import RESOURCES
from schemas.rpc.request import read_request
from schemas.tables.window_table import decode_table
from scorer.ledger.record.instance import Moving
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.plugins import detail, guarded
from scorer.ranking.profiles.profile import PlacedFilter, Profile
from scorer.ranking.rank import rank
from scorer.rpc.methods.listings import machines as shown_by_scorer
from scorer.rpc.methods.listings import risk
from scorer.snapshot.builder import build_snapshot
from tests.window_tables import WINDOWS_S, window_table

NOW_S = 1_700_000_000.0
ODD = 'odd"name\\1'
PROFILE = load_profiles().choose()
ALL = Statistic.__args__


def table(names, *, partition=0, age_s=5.0, seed=0):
    """Return a table of machines under random load."""
    load = np.random.default_rng(seed).uniform(0.05, 0.95, len(names))
    capacity = [16.0, 2.0**36, 1.25e9, *[1.0] * (len(RESOURCES) - 3)]
    raw = window_table(names, utilization=load, capacity=capacity, at=NOW_S - age_s, partition=partition)
    return decode_table(raw)


def state(tables, **more):
    ledger = LedgerView(more.pop("instances", ()))
    facts, operator = more.pop("facts", {}), more.pop("operator", {})
    snapshot = build_snapshot(tables, facts, operator, ledger_machines=ledger.machine_names)
    return State(snapshot, ledger, PROFILE, NOW_S, **more)


def read(body, *, fleet=False):
    """Return the values of each metric by their labels, without that of the fleet unless it is asked for."""
    found = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            values = found.setdefault(sample.name, {})
            key = tuple(sorted((name, value) for name, value in sample.labels.items() if fleet or name != "fleet"))
            assert key not in values, f"{sample.name} twice: {key}"
            values[key] = sample.value
    return found


def of_machines(seen, **selection):
    return read(page(MachineFamilies(ExporterSettings(**selection)).families(seen)))


def of_fleet(seen, **selection):
    return read(page(fleet.families(seen, ExporterSettings(probe={"cpu": "1"}, **selection))))


def at(values, **labels):
    return values[tuple(sorted(labels.items()))]


def names_in(found, metric):
    return {dict(labels)["machine"] for labels in found.get(metric, {})}


def placed(name, machine, **request):
    """Return an instance reserved a minute ago."""
    return instance_of(read_request({"id": name} | request), machine, NOW_S - 60)


def test_values_are_those_of_machines_show():
    """For one state and time each figure is what the scorer's listing says, by allocatable, in every window."""
    names = [f"m{number}" for number in range(20)] + [ODD]
    seen = state(
        [table(names)],
        operator={"m1": OperatorFacts(share={"cpu": 0.5}, cordon=True), "m2": OperatorFacts(reserve={"memory": 2e9})},
        instances=[placed("i1", "m3", cpu=2, memory="4G"), placed("i2", ODD, cpu=1, memory="1G")],
    )
    found = of_machines(seen, statistics=ALL)
    for window_s in WINDOWS_S:
        answer = shown_by_scorer({"window_s": window_s}, seen)
        listing = msgspec.json.decode(msgspec.json.encode(answer.machines))
        assert len(listing) == len(names)
        for one in listing:
            for resource, told in one["resources"].items():
                here = {"machine": one["machine"], "resource": resource, "window": window_name(window_s)}
                if told["mean"] is None:
                    continue
                mean = at(found["windward_machine_utilization_ratio"], **here, statistic="mean")
                std = at(found["windward_machine_utilization_stddev_ratio"], **here)
                assert mean == pytest.approx(told["mean"] / told["allocatable"], abs=6e-8)
                assert std == pytest.approx(told["std"] / told["allocatable"], abs=6e-8)
            coverage = at(
                found["windward_machine_coverage_ratio"], machine=one["machine"], window=window_name(window_s)
            )
            assert coverage == pytest.approx(one["coverage"], abs=6e-8)
    answer = shown_by_scorer({}, seen)
    listing = msgspec.json.decode(msgspec.json.encode(answer.machines))
    for one in listing:
        machine = {"machine": one["machine"]}
        assert at(found["windward_machine_instances"], **machine) == one["instances"]
        assert at(found["windward_machine_cordoned"], **machine) == one["cordon"]
        assert NOW_S - at(found["windward_machine_last_sample_timestamp_seconds"], **machine) == pytest.approx(
            one["age_s"], abs=1e-3
        )
        for resource, told in one["resources"].items():
            here = machine | {"resource": resource}
            if told["allocatable"] is None:
                continue
            credit = at(found["windward_machine_credit_ratio"], **here)
            requested = at(found["windward_machine_requested_ratio"], **here)
            assert credit == pytest.approx(told["credit"] / told["allocatable"], abs=6e-8)
            assert requested == pytest.approx(told["promised"] / told["allocatable"], abs=6e-8)
            (allocatable,) = [
                values for name, values in found.items() if name.startswith(f"windward_machine_allocatable_{resource}_")
            ]
            assert at(allocatable, **machine) == told["allocatable"]


def test_risk_is_what_an_explained_ranking_tells():
    """Of a request that wants nothing, by the profile's own load variation risk."""
    seen = state([table(["a", "b", "c"])])
    ranking = rank(read_request({"explain": True}), RankingInputs(seen.snapshot, seen.ledger, PROFILE, NOW_S))
    found = of_machines(seen)
    (term,) = [term for term in ranking.terms if term.weighted.score.name == "load_variation_risk"]
    for row, name in enumerate(seen.snapshot.names):
        said = ranking.said(term, row)[1]
        told = detail(term.weighted.score, said, ranking.request, term.machines, row)["risks"]
        for resource, value in told.items():
            risk = at(found["windward_machine_risk_ratio"], machine=name, resource=resource)
            assert risk == pytest.approx(value, abs=6e-8)


def test_the_machines_that_will_soon_be_hot_are_named():
    """The ten first by the same chance as in the scorer's answer, stale ones left out, however many exporters share."""
    load = np.linspace(0.3, 0.9, 15)
    fresh = decode_table(window_table([f"m{n:02d}" for n in range(15)], utilization=load, at=NOW_S))
    seen = state([fresh, decode_table(window_table(["old"], utilization=[0.9], at=NOW_S - 600, partition=1))])
    found = of_fleet(seen, shard="2/2")
    told = {dict(labels)["machine"]: value for labels, value in found["windward_machine_soon_hot_ratio"].items()}
    answer = risk({"top": 100}, seen)
    assert told == pytest.approx({row.machine: row.chance for row in answer.machines[:10]}, abs=5e-5)
    assert "m14" in told
    likely = sum(row.chance > 0.5 for row in answer.machines) / 15
    assert 0 < likely < 1
    assert at(found["windward_fleet_soon_hot_ratio"]) == pytest.approx(likely)
    assert at(of_fleet(seen, soon_hot_limit=0.95)["windward_fleet_soon_hot_ratio"]) < likely


def test_a_stale_machine_keeps_its_facts_and_loses_its_load():
    """Its load is left out, not frozen; the time of its last sample, its state and its promises stay."""
    seen = state([table(["new"]), table(["old"], age_s=600, partition=1)], instances=[placed("i", "old", cpu=1)])
    found = of_machines(seen, statistics=ALL)
    for metric, values in found.items():
        machines = {dict(labels)["machine"] for labels in values}
        load = any(part in metric for part in ("utilization", "risk", "credit", "coverage", "peak", "threshold"))
        assert ("old" in machines) == (not load), metric
    assert at(found["windward_machine_fresh"], machine="old") == 0
    assert at(found["windward_machine_instances"], machine="old") == 1
    whole = of_fleet(seen)
    assert at(whole["windward_fleet_machines"], state="stale") == 1
    assert at(whole["windward_fleet_machines"], state="fresh") == 1
    here = {"resource": "cpu", "window": "5m"}
    assert at(whole["windward_fleet_machines_by_utilization"], **here, le="+Inf") == 1


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_each_machine_is_in_one_shard(shards):
    """A machine of two partitions, one without data and one only the ledger knows: each is once over all shards."""
    tables = [
        table(["a", "b", "both"], partition=0, age_s=20),
        table(["c", "both"], partition=1, age_s=5),
        table(["d", "e"], partition=2),
    ]
    facts = {"facts-only": MachineFacts(v=1, machine="facts-only", boot=1, at=NOW_S)}
    seen = state(tables, facts=facts, instances=[placed("i", "ledger-only", cpu=1)])
    pages = [of_machines(seen, shard=f"{shard + 1}/{shards}") for shard in range(shards)]
    for metric, wanted in (
        ("windward_machine_info", {"a", "b", "c", "d", "e", "both", "facts-only", "ledger-only"}),
        ("windward_machine_utilization_ratio", {"a", "b", "c", "d", "e", "both"}),
    ):
        each = [names_in(found, metric) for found in pages]
        assert set().union(*each) == wanted
        assert sum(map(len, each)) == len(wanted)
    if shards == 3:
        assert "both" in names_in(pages[1], "windward_machine_info")


def test_figures_of_the_fleet_are_over_its_fresh_machines():
    """Quantiles are machines' own values, the deviation is over machines, the heatmap adds up."""
    load = [0.1, 0.2, 0.3, 0.95]
    fresh = decode_table(window_table(["a", "b", "c", "d"], utilization=load, at=NOW_S))
    seen = state([fresh, table(["old"], age_s=1e4, partition=1)], operator={"ghost": OperatorFacts(cordon=True)})
    found = of_fleet(seen)
    here = {"resource": "cpu", "window": "15m"}
    quantiles = {q: at(found["windward_fleet_utilization_ratio"], **here, quantile=q) for q in ("0.0", "0.5", "1.0")}
    assert quantiles == pytest.approx({"0.0": 0.1, "0.5": 0.2, "1.0": 0.95})
    assert at(found["windward_fleet_utilization_stddev_ratio"], **here) == pytest.approx(np.std(load))
    assert at(found["windward_fleet_utilization_mean_ratio"], **here) == pytest.approx(np.mean(load))
    heat = {
        le: at(found["windward_fleet_machines_by_utilization"], **here, le=le) for le in ("0.05", "0.3", "0.9", "+Inf")
    }
    assert heat == {"0.05": 0, "0.3": 3, "0.9": 3, "+Inf": 4}
    states = {dict(labels)["state"]: value for labels, value in found["windward_fleet_machines"].items()}
    assert states == {"fresh": 4, "stale": 1, "silent": 1, "warming": 0, "cordoned": 1}


@pytest.mark.parametrize(("fresh", "stale", "known"), [(2, 2, True), (2, 3, False), (0, 4, False)])
def test_the_fleet_is_left_out_while_most_machines_are_stale(fresh, stale, known):
    """An outage of the pipeline is no full fleet, and the machines that go on are not the fleet."""
    tables = [table([f"old{number}" for number in range(stale)], age_s=600)]
    if fresh:
        tables.append(table([f"m{number}" for number in range(fresh)], partition=1))
    found = of_fleet(state(tables))
    for name in ("headroom", "utilization_mean", "utilization_stddev", "risk", "soon_hot"):
        assert (f"windward_fleet_{name}_ratio" in found) is known, name
    assert ("windward_machine_soon_hot_ratio" in found) is (fresh > 0)
    assert "windward_fleet_requested_ratio" in found


def test_the_probe_meets_what_a_query_meets():
    """Refusals by filter add up with the feasible to all machines; every filter of the profile is there, from 0 on."""
    seen = state([table([f"m{n}" for n in range(30)])], operator={"m3": OperatorFacts(cordon=True)})
    found = of_fleet(seen)
    ranking = rank(read_request({"cpu": "1"}), RankingInputs(seen.snapshot, seen.ledger, PROFILE, NOW_S))
    refusals = {dict(labels)["filter"]: value for labels, value in found["windward_fleet_probe_refusals"].items()}
    assert refusals.keys() == {each.filter.name for each in PROFILE.filters}
    assert refusals["cordon"] == 1
    feasible = at(found["windward_fleet_probe_feasible_machines"], profile="windward")
    assert feasible == ranking.feasible_count
    assert feasible + sum(refusals.values()) == 30


@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken"
    reason: ClassVar[str] = "of another mind"

    def __call__(self, asked, machines):
        return 1 / 0


def test_a_plugin_that_fails_costs_the_probe_alone(caplog):
    """The rest of the page is there; the log says once why."""
    failing = Profile("failing", filters=(PlacedFilter(guarded(Broken, "filter")()),))
    seen = replace(state([table(["a"])]), profile=failing)
    reader = SimpleNamespace(read=lambda profile, now_s: seen)
    exporter = Exporter(reader, ExporterSettings(), load_profiles(), "1")
    with caplog.at_level(logging.WARNING, "windward.exporter"):  # a command may have left another level
        for _ in range(2):
            found = read(exporter.render())
            assert at(found["windward_exporter_up"]) == 1
            assert at(found["windward_fleet_machines"], state="fresh") == 1
            assert not [name for name in found if "probe" in name]
    (said,) = [record for record in caplog.records if record.message == "exporter.probe.failed"]
    assert said.values == {"error": "filter broken failed: ZeroDivisionError: division by zero"}


@pytest.mark.parametrize("machines", [1, 50, 400])
def test_the_fleet_has_as_many_series_whatever_its_size(machines):
    found = of_fleet(state([table([f"m{n}" for n in range(machines)])]))
    assert 250 <= sum(map(len, found.values())) <= 100 + 250 * len(RESOURCES) // 3


def test_an_empty_fleet_has_a_page():
    seen = state([])
    assert of_machines(seen) == {}
    assert at(of_fleet(seen)["windward_fleet_machines"], state="fresh") == 0


@pytest.mark.parametrize("open_metrics", [False, True])
def test_every_series_of_a_page_says_its_fleet(open_metrics):
    """Those of machines, of the fleet, of the exporter and of its process; beside the labels they have anyway."""
    seen = state([table(["a", ODD])])
    reader = SimpleNamespace(read=lambda *_: seen)
    exporter = Exporter(reader, ExporterSettings(statistics=ALL, prefix="north"), load_profiles(), "1")
    labelled = read(exporter.render(open_metrics=open_metrics), fleet=True)
    named = {name: {dict(labels)["fleet"] for labels in values} for name, values in labelled.items()}
    assert set.union(*named.values()) == {"north"}


def test_labels_of_the_allow_list_are_shown():
    """Under valid names; labels not asked for stay away. What may be chosen is told while no machine is known."""
    labels = {"zone": 'a"1', "rack/row": "7", "secret": "x"}
    facts = {"m": MachineFacts(v=1, machine="m", boot=1, at=NOW_S, labels=labels)}
    allowed = ("zone", "rack/row")
    choices = of_fleet(state([]), labels=allowed)["windward_fleet_label_info"]
    assert [dict(name)["label"] for name in choices] == ["machine", "zone", "rack_row"]
    found = of_machines(state([table(["m", "n"])], facts=facts), labels=allowed)
    assert found["windward_machine_info"] == {
        (("machine", "m"), ("rack_row", "7"), ("zone", 'a"1')): 1.0,
        (("machine", "n"),): 1.0,
    }


@pytest.mark.parametrize(
    ("per_machine", "machines_max", "shown"),
    [("auto", 10, True), ("auto", 2, False), ("always", 2, True), ("never", 10, False)],
)
def test_a_large_fleet_shows_its_machines_on_request(per_machine, machines_max, shown):
    seen = state([table(["a", "b", "c"])])
    assert ExporterSettings(per_machine=per_machine, machines_max=machines_max).shows_machines(seen.snapshot) is shown


def test_only_the_wanted_windows_and_statistics_are_shown():
    """Each costs its series: what nobody asked for is not there."""
    found = of_machines(state([table(["a"])]), windows=(300,), statistics=("max",))
    labels = [dict(each) for each in found["windward_machine_utilization_ratio"]]
    assert {(each["window"], each["statistic"]) for each in labels} == {("5m", "max")}
    assert "windward_machine_utilization_stddev_ratio" not in found
    assert "windward_machine_peak_ratio" not in found


def test_instances_are_counted_by_state():
    """A moving one is neither reserved nor confirmed; every state has a series."""
    asked, moving = read_request({"cpu": 1}), Moving(to="b", since=NOW_S, until=NOW_S + 60)
    reserved = instance_of(asked, "a", NOW_S, "r")
    confirmed = msgspec.structs.replace(reserved, id="c", state="confirmed", expires_at=0.0)
    going = msgspec.structs.replace(confirmed, id="m", moving=moving)
    shown = of_fleet(state([table(["a", "b"])], instances=[reserved, confirmed, going]))
    by_state = {dict(labels)["state"]: value for labels, value in shown["windward_fleet_instances"].items()}
    assert by_state == {"reserved": 1, "confirmed": 1, "moving": 1}
