"""Alerts and recording rules: promtool takes them, each alert fires and not, each has an entry in the runbook."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ops.grafana.page import DOCS_URL
from ops.stack.servers.local import RULES, configuration, prometheus_binary
from ops.stack.servers.process import LocalError
from tests.grafana.asked import FOLDER, panels
from tests.ops.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
ALERTS, RECORDED = (
    [rule for group in read_yaml((RULES / name).read_text())["groups"] for rule in group["rules"]]
    for name in ("alerts.yml", "recording.yml")
)
NAMES = [alert["alert"] for alert in ALERTS]
TESTS = read_yaml((ROOT / "ops/prometheus/tests/alerts.yml").read_text())["tests"]
RUNBOOK = (ROOT / "docs/runbook.md").read_text()

BASE_URL = '{{ or $externalLabels.windward_%s "%s" }}'
"""How an annotation takes an address from the configuration of Prometheus."""

needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="NOT RUN: no promtool on the PATH (Debian: apt-get install prometheus)"
)


def promtool(*arguments):
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)


@needs_promtool
def test_rules_are_valid():
    done = promtool("check", "rules", *sorted(RULES.glob("*.yml")))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.slow
def test_rules_do_what_their_tests_say():
    """``promtool test rules``, case by case, as an operator runs it."""
    done = promtool("test", "rules", *sorted((ROOT / "ops/prometheus/tests").glob("*.yml")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_has_a_test_of_firing_and_one_of_silence(name):
    about = [test["name"] for test in TESTS if test["name"].startswith(f"{name} ")]
    assert {f"{name} fires", f"{name} is silent"} <= set(about)
    for test in TESTS:
        if test["name"].startswith(f"{name} "):
            (asked,) = test["promql_expr_test"]
            assert f'alertname="{name}"' in asked["expr"]
            assert bool(asked["exp_samples"]) == test["name"].endswith("fires")


def with_fleet(series, fleet):
    """Return a series of promtool's with one more label, or with another value of it."""
    if 'fleet="' in series:
        return re.sub(r'fleet="[^"]*"', f'fleet="{fleet}"', series)
    name, _, labels = series.partition("{")
    return f'{name}{{fleet="{fleet}"{"," if labels else "}"}{labels}'


def as_one_case(cases):
    """Return all cases as one, each of a fleet of its own: what is asked of a case is asked of its fleet alone.

    Promtool makes a database for each case, which takes it a tenth of a second of a core: twenty seconds for all.
    """
    series = []
    asked = []
    for number, case in enumerate(cases):
        fleet = f"fleet-{number}"
        assert case["interval"] == "15s"
        series += [{**one, "series": with_fleet(one["series"], fleet)} for one in case["input_series"]]
        asked += [
            {
                **one,
                "expr": with_fleet(one["expr"], fleet),
                "exp_samples": [{**each, "labels": with_fleet(each["labels"], fleet)} for each in one["exp_samples"]],
            }
            for one in case["promql_expr_test"]
        ]
    return {"name": "all fleets", "interval": "15s", "input_series": series, "promql_expr_test": asked}


@needs_promtool
@pytest.mark.parametrize(("file", "interval"), [("alerts", "1m"), ("failures", "15s")])
def test_fleets_in_one_prometheus_do_what_their_tests_say(file, interval, tmp_path):
    """Each fires what it should and nothing else, whatever the series of a hundred other fleets say."""
    tests = read_yaml((ROOT / f"ops/prometheus/tests/{file}.yml").read_text())
    assert tests["evaluation_interval"] == interval
    written = {"rule_files": sorted(map(str, RULES.glob("*.yml"))), "evaluation_interval": interval}
    (tmp_path / "one.yml").write_text(json.dumps(written | {"tests": [as_one_case(tests["tests"])]}))
    done = promtool("test", "rules", tmp_path / "one.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_keeps_the_fleet():
    for rule in ALERTS + RECORDED:
        grouped = re.findall(r"\b(?:by|on) ?\(([^)]*)\)", rule["expr"])
        assert [each for each in grouped if each and "fleet" not in each.split(", ")] == [], rule["expr"]
        assert not re.search(r"\b(sum|max|min|avg|count|group) ?\((?!\))", re.sub(r"\w+_over_time", "", rule["expr"]))


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_each_alert_tells_what_to_do(alert):
    """Severity, a delay, words for a person, and its entry in the runbook: what it means, where to look, what to do."""
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["for"]
    told = alert["annotations"]
    links = {"runbook_url", "dashboard_url", "__dashboardUid__", "__panelId__"}
    assert {"summary", "description"} | links == told.keys()
    assert told["runbook_url"] == f"{BASE_URL % ('docs', DOCS_URL)}/runbook.html#{alert['alert'].lower()}"
    there = f"/d/{told['__dashboardUid__']}?viewPanel={told['__panelId__']}&var-fleet={{{{ $labels.fleet }}}}"
    assert told["dashboard_url"] == BASE_URL % ("grafana", "http://127.0.0.1:3000") + there
    entry = re.search(rf"^## {alert['alert']}\n(.*?)(?=^## |\Z)", RUNBOOK, re.S | re.M)
    assert entry, "no entry in docs/runbook.md"
    assert re.findall(r"^\*\*(\w+)\.\*\*", entry[1], re.M) == ["Means", "Look", "Do"]


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_each_alert_and_its_panel_lead_to_each_other(alert):
    """The panel asks for a metric of the alert, and links to its entry in the runbook."""
    told = alert["annotations"]
    dashboard = json.loads((FOLDER / f"{told['__dashboardUid__'].removeprefix('windward-')}.json").read_text())
    (panel,) = [one for one in panels(dashboard) if str(one["id"]) == told["__panelId__"]]
    assert f"${{docs}}/runbook.html#{alert['alert'].lower()}" in [link["url"] for link in panel["links"]]
    recorded = {rule["record"]: rule["expr"] for rule in RECORDED}

    def metrics(expression):
        found = set(re.findall(r"windward[\w:]*", re.sub(r"\w+_build_info", "windward_build_info", expression)))
        return found.union(*(metrics(recorded[name]) for name in found & recorded.keys()))

    processes = "_build_info" in " ".join(target["expr"] for target in panel["targets"])
    assert metrics(alert["expr"]) & metrics(" ".join(target["expr"] for target in panel["targets"])) or (
        processes and alert["expr"].startswith(("up{", "(windward:fleet:known unless"))
    )


def test_the_runbook_has_no_other_entry():
    """Alerts that are gone leave it, links lead to entries."""
    headings = re.findall(r"^## (\w+)$", RUNBOOK, re.M)
    assert headings == NAMES
    assert set(re.findall(r"\]\(#(\w+)\)", RUNBOOK)) <= {name.lower() for name in NAMES}


def test_panels_that_the_runbook_names_are_there():
    """What stands in italics after *Look* is a panel, a row or a dashboard."""
    found = set()
    for path in (ROOT / "ops/grafana/dashboards").glob("*.json"):
        dashboard = json.loads(path.read_text())
        found |= {panel["title"].partition(":")[0] for panel in [*dashboard["panels"], *panels(dashboard)]}
    found |= {"Mean by label", "Placements", "Answers"}
    for entry in re.findall(r"\*\*Look\.\*\*(.*?)\n\n", RUNBOOK, re.S):
        for title in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", entry):
            assert " ".join(title.split()) in found, title


@needs_promtool
def test_the_local_configuration_is_valid(tmp_path):
    """What ``windward up --prometheus`` writes, jobs named as in the shipped configuration."""
    written = configuration({"scorer-1": 9464, "scorer-2": 9465, "agent": 9466}, 5, "north")
    assert [job["job_name"] for job in written["scrape_configs"]] == ["windward-scorer", "windward-agent"]
    (tmp_path / "prometheus.yml").write_text(json.dumps(written))
    done = promtool("check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_missing_prometheus_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LocalError, match=r"^prometheus: .*apt-get install prometheus"):
        prometheus_binary()
