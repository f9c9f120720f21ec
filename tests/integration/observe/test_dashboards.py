"""The whole stack with a simulated fleet, scraped by a real Prometheus: every query of every dashboard has its data."""

import json
import math
import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import redis
from kafka import KafkaProducer

from ops.exporter.__main__ import serve
from ops.exporter.exporter import Exporter
from ops.exporter.settings import ExporterSettings
from ops.exporter.state import Reader
from ops.stack.servers.process import free_port, wait_until
from ops.stack.stack import Stack, StackSettings
from schemas.names import Names
from schemas.tables.learned import ChanceBin, Chances, Learned
from scorer.client import Client, WindwardError
from scorer.commands.machines import machines as machines_command
from scorer.ranking.profiles.catalogue import load_profiles
from streams.worker.topics import TopicSettings
from tests.grafana.asked import FOLDER, Choice, choices, interpolate, legend, panels, queries
from tests.grafana.prometheus import Prometheus
from tests.integration.kubernetes.test_evictor import evictor
from tests.ops.metrics import exposed_metrics
from tests.support.extender_process import extender, order
from tests.support.fresh import all_fresh
from tests.support.kube_api import kube_api

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("prometheus"), reason="NOT RUN: no prometheus on the PATH (Debian: apt-get install prometheus)"
    ),
]

CLASSES = Path(__file__).parents[3] / "docs/examples/classes.toml"
TABLES = """
[planner]                   # no machine is hot: what makes the fleet more even is proposed, and soon expires
rule = "thresholds"
deviation = true
high = {cpu = 1}
low = {cpu = 1}
rest_s = 0
every = "1s"
proposal_s = "3s"
[record]
write_s = 1
"""
"""What single processes of the stack are told."""
MACHINES = 30
HERE = "sim-00003"
OURS, BARE = "windward", "bare"
"""Two fleets in one Prometheus."""
STEP_S = 1
CHANCES = Chances(limit=0.9, std_factor=1.0, floor=0.05, at=time.time(), bins={"cpu": [ChanceBin(100.0, 1.0, 0.5)]})


@dataclass
class Run:
    prometheus: Prometheus
    redis_url: str
    start_s: float


@pytest.fixture(scope="module")
def api():
    with kube_api() as made:
        made.put("pod", HERE)
        yield made


@pytest.fixture(scope="module")
def run(api, tmp_path_factory):
    """Start everything, let it place, confirm, refuse and release for a while."""
    settings = StackSettings(
        kafka_port=0, redis_port=0, metrics_port=0, prometheus=True, prometheus_port=0, prometheus_interval_s=STEP_S,
        machines=MACHINES, backfill_s=4000, partitions=2, scorers=2, record=True, planner=True,
        load_watcher=True, pods=api.url, state_dir=tmp_path_factory.mktemp("stack"),
    )  # fmt: skip
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WINDWARD_")}
    environ["WINDWARD_FLUSH_INTERVAL_S"] = "1"  # by default every 50 ms: more than a busy machine needs here
    environ["WINDWARD_INSTANCES_FLUSH_S"] = "1"
    environ["WINDWARD_LEARN_S"] = "5"
    tables = tmp_path_factory.mktemp("config") / "windward.toml"
    tables.write_text(TABLES)
    # a profile that has sums by class to show
    environ |= {
        "WINDWARD_PROFILES": str(CLASSES), "WINDWARD_PROFILE": CLASSES.stem, "WINDWARD_CONFIG": str(tables),
    }  # fmt: skip
    with (
        Stack(settings, environ) as stack,
        Client(stack.redis_url, timeout_s=20) as client,
        asked_extender(stack),
        evictor(stack.redis_url, Names("windward"), api.url) as (_, evictors),
        KafkaProducer(bootstrap_servers=stack.kafka) as producer,
    ):
        with redis.Redis.from_url(stack.redis_url) as server:  # what chances came true takes half an hour to be seen
            server.set(Names("windward").learned, msgspec.json.encode(Learned(chances=CHANCES)))
        scrape(stack, "windward-evictor", int(evictors.rpartition(":")[2]), OURS)
        found = Run(Prometheus(stack.prometheus.url), stack.redis_url, time.time())
        wait_until(lambda: all_fresh(client, MACHINES), 90, "each machine is known by a recent sample")
        wait_until(lambda: usable(client.rank(cpu=1)), 90, "the fleet can be used")
        assert machines_command.main(["cordon", HERE, "--redis-url", stack.redis_url], {}) == 0
        number = 0

        def work():
            nonlocal number
            number += 1
            client.place(cpu=0.5, memory="1G", id=f"i{number}")
            client.confirm(f"i{number}")
            if number % 3 == 0:
                client.release(f"i{number}")
            elif number > 90:  # what the slowest metric waits for must not fill the fleet
                client.release(f"i{number - 60}" if (number - 60) % 3 else f"i{number}")
            client.place(cpu=10_000, id=f"huge{number}")
            client.rebalance()  # a planner answers it
            producer.send(TopicSettings().names.samples_topic, b"no sample", key=b"nobody").get(timeout=20)
            return number > 20 and not missing_metrics(found.prometheus)

        confirm_on(client, "here", lambda: "sim-00004")
        confirm_on(client, "uneven", lambda: worst(client))  # so there is a move to propose
        wait_until(work, 120, "every metric is there")
        wait_until(lambda: work() and settled(found), 120, "rates have their samples")
        with bare_fleet(stack, found.prometheus):
            yield found


def confirm_on(client, name, machine):
    """Confirm an instance on a machine as soon as it takes one: on a slow host its data are stale for a moment."""
    wait_until(lambda: client.place(cpu=1, memory="1G", id=name, machine=machine())["machine"], 90, f"{name} is placed")
    client.confirm(name)


def worst(client):
    """Return the last of the machines that take a small instance; a cordoned one where none does."""
    candidates = client.rank(cpu=1, top=MACHINES)["candidates"]
    return candidates[-1]["machine"] if candidates else HERE


@contextmanager
def bare_fleet(stack, prometheus):
    """Show the same machines as a second fleet, by an exporter alone with default settings: no label, no class."""
    settings = ExporterSettings(redis_url=stack.redis_url, metrics_port=free_port(), prefix=BARE)
    reader = Reader(replace(settings, prefix=OURS))
    server = serve(Exporter(reader, settings, load_profiles(), "1"), settings)
    scrape(stack, "windward-exporter", settings.metrics_port, BARE)
    try:
        bare = f'{{fleet="{BARE}"}}'
        seen = f"windward_machine_utilization_ratio{bare} and on () windward:fleet_machines:max{bare}"
        wait_until(lambda: bool(prometheus.at(seen, time.time())), 60, "the second fleet is there")
        yield
    finally:
        server.stop()
        reader.close()


@contextmanager
def asked_extender(stack):
    """Ask till the end: an extender that Prometheus scrapes, twice a second as a scheduler does, and a planner."""
    ended = threading.Event()
    with (
        extender(stack.redis_url, Names("windward")) as (_, port, page),
        Client(stack.redis_url, timeout_s=20) as client,
        ThreadPoolExecutor(1) as thread,
    ):

        def ask():
            number = 0
            while not ended.wait(0.5):
                order(port, [HERE, "sim-00004"], f"pod{(number := number + 1)}")
                if number % 4 == 0:
                    with suppress(WindwardError):  # no planner is there at first
                        client.rebalance()

        scrape(stack, "windward-extender", int(page.rpartition(":")[2]), OURS)
        asking = thread.submit(ask)
        try:
            yield
        finally:
            ended.set()
        asking.result()


def scrape(stack, job, port, fleet):
    path = stack.settings.state_dir / "prometheus" / "prometheus.yml"
    configuration = json.loads(path.read_text())
    page = {"targets": [f"127.0.0.1:{port}"], "labels": {"fleet": fleet}}
    jobs = {one["job_name"]: one for one in configuration["scrape_configs"]}
    if job in jobs:
        jobs[job]["static_configs"].append(page)
    else:
        configuration["scrape_configs"].append(jobs["windward-exporter"] | {"job_name": job, "static_configs": [page]})
    path.write_text(json.dumps(configuration))
    stack.prometheus.signal(signal.SIGHUP)


def usable(answer):
    """Whether all machines are known with fresh data, and most take an instance, whatever the time of day."""
    known = answer["fleet"] > MACHINES and not [one for one in answer["refusals"] if one["filter"] == "fresh"]
    return known and answer["feasible"] > MACHINES // 2


def missing_metrics(prometheus):
    """Return what we expose and Prometheus does not have yet; a threshold of one machine nobody has set."""
    return exposed_metrics() - prometheus.metrics() - {"windward_machine_threshold_ratio"}


def settled(run):
    """Whether the slowest to come are there: what is recorded from rates, of placements and releases."""
    now = time.time()
    recorded = run.prometheus.over("windward:scorer_query_duration_seconds:p99_rate5m >= 0", now - 60, now, STEP_S)
    enough = [labels["method"] for labels, points in recorded if len(points) > 2]
    return "release" in enough and bool(run.prometheus.at("windward:scorer_conflicts:ratio_rate5m", now))


def values(machine="sim-00004"):
    """Return the choices a user may have made."""
    return {
        "fleet": "windward", "window": "5m", "resource": "cpu", "label": "zone", "value": ".*", "machine": machine,
        "__rate_interval": f"{8 * STEP_S}s",
    }  # fmt: skip


def cases():
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        dashboard = json.loads(path.read_text())
        for asked in queries(dashboard, values()):
            found.append(pytest.param(asked, id=f"{path.stem}-{asked.kind}-{asked.title}-{asked.reference}"))
    return found


def once(series, asked):
    """Every series has a name of its own, made of labels it has."""
    names = [legend(asked.legend, labels) for labels, _ in series]
    assert len(set(names)) == len(names), names
    assert "" not in names


def is_timeseries(series, asked):
    """Lines with names of their own and a number at the end; no profile of this stack has ``survive``."""
    once(series, asked)
    assert all(len(points) >= 2 for _, points in series)
    assert any(math.isfinite(points[-1][1]) for _, points in series) != (asked.title == "Without a place")


def is_stat(series, asked):
    """Figures with names of their own, before a line of the past or of this moment alone."""
    (once if asked.instant else is_timeseries)(series, asked)
    assert any(math.isfinite(points[-1][1]) for _, points in series)


def is_heatmap(series, asked):
    """Buckets that hold more the higher they reach, up to all machines."""
    once(series, asked)
    buckets = sorted((float(labels["le"]), points[-1][1]) for labels, points in series)
    assert math.isinf(buckets[-1][0])
    assert [count for _, count in buckets] == sorted(count for _, count in buckets)
    assert buckets[-1][1] >= MACHINES


def is_table(series, asked):
    """Rows by a label they all have, each once."""
    by = "job" if "build_info" in asked.expression else "alertname" if "ALERTS" in asked.expression else "machine"
    rows = [labels[by] for labels, _ in series]
    assert len(set(rows)) == len(rows)


SHAPES = {"timeseries": is_timeseries, "stat": is_stat, "bargauge": once, "heatmap": is_heatmap, "table": is_table}


@pytest.mark.parametrize("asked", cases())
def test_a_query_has_data_of_its_shape(run, asked):
    """Each is executed as Grafana would; an empty answer is a mistake in the query, or a metric that is gone."""
    now = time.time()
    if asked.kind == "variable":
        found = run.prometheus.variable(asked.expression)
        assert found
        assert values().get(asked.title, ".*") in [*found, ".*"]
        return
    if asked.kind == "annotation":
        series = run.prometheus.over(asked.expression, run.start_s, now, STEP_S)
        (points,) = [points for _, points in series]
        if asked.title == "Placements":
            assert run.start_s < points[-1][1] / 1000 < now
        return
    deadline = time.monotonic() + 20
    while True:  # while the machine is busy all data may be stale for a moment, and a line has to begin anew
        try:
            has_its_shape(run, asked)
            break
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(STEP_S)


def has_its_shape(run, asked):
    now = time.time()
    if asked.instant:
        series = run.prometheus.at(asked.expression, now)
    else:
        series = run.prometheus.over(asked.expression, max(run.start_s, now - 60), now, STEP_S)
    if asked.title == "Alerts that fire" and not series:
        return
    assert series, asked.expression
    SHAPES[asked.type](series, asked)


@pytest.mark.parametrize("choice", get_args(Choice))
@pytest.mark.parametrize("fleet", [OURS, BARE])
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_no_query_fails_by_a_choice(run, path, fleet, choice):
    """Prometheus takes every query with each variable at its default, its first and its last value.

    On a fleet with labels, classes, moves and a recorder, and on one without.
    """
    dashboard = json.loads(path.read_text())
    chosen = choices(dashboard, run.prometheus.variable, choice, fleet=fleet)
    for asked in queries(dashboard, chosen | {"__rate_interval": f"{8 * STEP_S}s"}):
        if asked.kind != "variable":
            run.prometheus.at(asked.expression, time.time())


def empty_panels(run, name, choice):
    """Return whether each panel without data is in an open row, by title, on the fleet of an exporter alone."""
    dashboard = json.loads((FOLDER / f"{name}.json").read_text())
    chosen = choices(dashboard, run.prometheus.variable, choice, fleet=BARE) | {"__rate_interval": f"{8 * STEP_S}s"}
    opened = {panel["id"] for panel in dashboard["panels"]}
    found = {}
    for panel in panels(dashboard):
        asked = [interpolate(target["expr"], chosen) for target in panel["targets"]]
        if not any(run.prometheus.at(expression, time.time()) for expression in asked):
            assert len(panel["fieldConfig"]["defaults"]["noValue"]) >= 10, panel["title"]
            found[panel["title"]] = panel["id"] in opened
    return found


@pytest.mark.parametrize("name", ["fleet", "machine"])
def test_what_is_empty_says_why_and_is_closed(run, name):
    """With the defaults of dashboard and exporter the open rows have data, but for what scorer and planner show."""
    empty = empty_panels(run, name, "default")
    expected = {"Newest sample", "Broken rules", "Without a place"} if name == "fleet" else set()
    assert {title for title, opened in empty.items() if opened} == expected
    assert len(empty) >= {"fleet": 5, "machine": 2}[name]


@pytest.mark.parametrize("choice", get_args(Choice))
@pytest.mark.parametrize("name", [path.stem for path in sorted(FOLDER.glob("*.json"))])
def test_what_is_empty_by_a_choice_says_why(run, name, choice):
    """A label that only another fleet has, processes that this fleet does not run."""
    empty = empty_panels(run, name, choice)
    assert ("Mean by $label: $resource, $window" in empty) == ((name, choice) == ("fleet", "last"))


def test_every_series_of_our_processes_says_its_fleet(run):
    """The label is the process's own: none is renamed to make room for that of the target."""
    now = time.time()
    assert run.prometheus.at('{job=~"windward-.*",fleet=""}', now) == []
    assert run.prometheus.at('{job=~"windward-.*",exported_fleet!=""}', now) == []
    agents = run.prometheus.at("group by (fleet) (windward_agent_build_info)", now)
    assert [labels for labels, _ in agents] == [{"fleet": OURS}]


def test_a_cordon_is_an_annotation(run):
    """Of the machine that is cordoned: 1, which Grafana draws; of others 0, which it does not."""
    for machine, value in ((HERE, 1.0), ("sim-00004", 0.0)):
        dashboard = json.loads((FOLDER / "machine.json").read_text())
        (asked,) = [each for each in queries(dashboard, values(machine)) if each.title == "Cordoned"]
        assert run.prometheus.at(asked.expression, time.time())[0][1][0][1] == value


def test_every_rule_is_evaluated(run):
    """Prometheus has read both files and no rule fails; a healthy stack fires nothing critical."""
    rules = [rule for group in run.prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) >= 25
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
    firing = [
        rule["name"]
        for rule in rules
        for alert in rule.get("alerts", ())
        if alert["state"] == "firing" and alert["labels"]["fleet"] == OURS
    ]
    critical = [rule["name"] for rule in rules if rule.get("labels", {}).get("severity") == "critical"]
    assert critical
    assert not set(firing) & set(critical)


def test_every_process_is_scraped_without_a_warning(run):
    """All targets are up: each kind of process, and two scorers and exporters."""
    targets = run.prometheus.get("targets")["activeTargets"]
    assert sorted(each["labels"]["job"] for each in targets) == [
        "windward-agent", "windward-evictor", "windward-exporter", "windward-exporter", "windward-extender",
        "windward-load-watcher", "windward-planner", "windward-pods", "windward-record", "windward-scorer",
        "windward-scorer", "windward-stream",
    ]  # fmt: skip

    def without_error():  # one scrape may take longer than its second where the cores are busy
        return all(each["health"] == "up" for each in run.prometheus.get("targets")["activeTargets"])

    wait_until(without_error, 30, "all targets are up")


def test_the_stack_says_where_prometheus_is(run, tmp_path):
    """A second one on the same port is refused by the setting's name."""
    port = int(run.prometheus._url.rpartition(":")[2])
    settings = StackSettings(
        kafka_port=0, redis_port=0, metrics_port=0, prometheus=True, prometheus_port=port, streams=0, scorers=0,
        agent=False, exporter=False, state_dir=tmp_path,
    )  # fmt: skip
    with pytest.raises(Exception, match=f"prometheus_port: something listens on 127.0.0.1:{port} already"):
        Stack(settings, {}).start()
