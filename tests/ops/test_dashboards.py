"""The dashboards' files: current, complete, every query a valid one, every metric one that somebody shows."""

import ast
import json
import re
from pathlib import Path

import promql_parser
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from ops.exporter.settings import Statistic
from ops.grafana.__main__ import texts
from schemas.resources import RESOURCES
from tests.grafana.asked import FOLDER, queries
from tests.grafana.asked import panels as panels_of
from tests.ops.metrics import PROCESS, UNUSED, exposed_metrics, names_in
from tests.ops.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
FILES = sorted(texts())
VALUES = {
    "datasource": "x", "fleet": "north", "docs": "x",
    "window": "5m", "resource": RESOURCES[0], "label": "zone", "value": ".*", "machine": "m",
    "__rate_interval": "1m",
}  # fmt: skip
RULES = {path.name: read_yaml(path.read_text()) for path in sorted((ROOT / "ops/prometheus/rules").glob("*.yml"))}


def read(name):
    return json.loads((FOLDER / name).read_text())


def panels(name):
    return list(panels_of(read(name)))


def rules():
    return [rule for file in RULES.values() for group in file["groups"] for rule in group["rules"]]


def test_the_files_are_what_the_code_makes():
    """``python -m ops.grafana`` writes them; nobody edits them by hand."""
    assert {path.name for path in FOLDER.iterdir()} == set(FILES)
    for name, text in texts().items():
        assert (FOLDER / name).read_text() == text, f"{name} is old: python -m ops.grafana"


@pytest.mark.parametrize("name", FILES)
def test_a_dashboard_can_be_provisioned(name):
    """A fixed uid and no id; the data source is a variable, the first; links lead to the others."""
    dashboard = read(name)
    assert dashboard["uid"] == f"windward-{name.removesuffix('.json')}"
    assert dashboard["id"] is None
    assert dashboard["schemaVersion"] >= 36
    first = dashboard["templating"]["list"][0]
    assert (first["type"], first["name"], first["query"]) == ("datasource", "datasource", "prometheus")
    assert [link["tags"] for link in dashboard["links"]] == [["windward"]]
    assert "windward" in dashboard["tags"]


@pytest.mark.parametrize("name", FILES)
def test_every_panel_says_what_it_shows(name):
    """Title, description in a sentence, unit and threshold colours; ids and titles differ; none lies over another.

    Without data it says why in words.
    """
    found = panels(name)
    assert len({panel["id"] for panel in found}) == len(found)
    assert len({(panel["title"], panel["type"]) for panel in found}) == len(found)
    for panel in found:
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["description"].endswith("."), panel["title"]
        assert defaults["unit"], panel["title"]
        assert len(defaults["noValue"].split()) >= 2, panel["title"]
        assert defaults["thresholds"]["steps"][0]["value"] is None
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    dashboard = read(name)
    for shown in (dashboard["panels"], *(row.get("panels", ()) for row in dashboard["panels"])):
        taken = set()
        for panel in shown:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not cells & taken, f"{panel['title']} lies over another panel"
            assert max(x for x, _ in cells) < 24
            taken |= cells


@pytest.mark.parametrize("name", FILES)
def test_every_query_is_of_the_chosen_fleet(name):
    """Each metric in it is restricted, but for the choice of the fleet itself."""
    for one in queries(read(name), VALUES):
        if one.kind == "variable" and one.title == "fleet":
            continue
        bare = re.sub(r'"[^"]*"', '""', one.expression.replace('fleet="north"', "fleet=north"))
        assert re.search(r"\{[^}]*fleet=north", bare), one
        metrics = re.findall(r"\b(?:windward[\w:]*|process_\w+|ALERTS)\b(.{0,13})", bare)
        assert [rest for rest in metrics if not rest.startswith("{fleet=north")] == [], one


def test_the_pipeline_opens_with_what_is_wrong():
    rows = [panel for panel in read("pipeline.json")["panels"] if panel["type"] == "row"]
    assert rows[0]["title"] == "What is wrong now"
    assert [row["collapsed"] for row in rows] == [False, *[True] * (len(rows) - 1)]


def test_stale_is_never_green():
    """Where a series has that name, it has a colour or steps of its own, whatever place in the palette it gets."""
    found = 0
    for name in FILES:
        for panel in panels(name):
            expressions = " ".join(target["expr"] for target in panel["targets"])
            steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
            if "windward:fleet_stale:ratio" in expressions:
                found += 1
                assert "green" not in json.dumps(steps), panel["title"]
            shows = "windward:fleet_machines:max" in expressions and "ratio" not in expressions
            overrides = {
                one["matcher"]["options"]: one["properties"] for one in panel["fieldConfig"].get("overrides", ())
            }
            if not shows:
                continue
            found += 1
            assert "green" not in json.dumps(overrides["stale"]), panel["title"]
    assert found >= 4


def test_legends_are_words():
    for name in FILES:
        for one in queries(read(name), VALUES):
            assert not re.fullmatch(r"p\d+|\{\{quantile\}\}|[\d.]+", one.legend), one


@pytest.mark.parametrize("name", FILES)
def test_every_query_is_promql_on_metrics_there_are(name):
    """Each parses, and asks for what our processes expose, a rule records or Prometheus itself makes."""
    known = exposed_metrics() | {rule["record"] for rule in rules() if "record" in rule}
    known |= {"ALERTS", "scrape_duration_seconds"} | PROCESS
    asked = list(queries(read(name), VALUES))
    assert len(asked) >= len(panels(name))
    for one in asked:
        expression = one.expression
        if one.kind == "variable":
            match = re.fullmatch(r"label_(?:values|names)\((.+?)(?:,\s*\w+)?\)", expression)
            assert match, expression
            expression = match[1]
        found = names_in(promql_parser.parse(expression))
        assert found, expression
        assert found <= known, f"{one.title}: {found - known}"


def test_every_rule_asks_for_metrics_there_are():
    known = exposed_metrics() | {rule["record"] for rule in rules() if "record" in rule} | {"up"}
    for rule in rules():
        assert names_in(promql_parser.parse(rule["expr"])) <= known, rule


def test_every_metric_is_shown_or_alerted_on():
    """Or is on the list of those that are not, with the reason; which lists none that is used, or gone."""
    used = set()
    for name in FILES:
        for one in queries(read(name), VALUES):
            used |= set(re.findall(r"windward_\w+", one.expression))
    for rule in rules():
        used |= names_in(promql_parser.parse(rule["expr"]))
    used |= {name for name in exposed_metrics() if name.endswith("_build_info")}  # by __name__ in a panel
    unused = exposed_metrics() - used
    assert unused == UNUSED.keys()


def test_rates_are_over_grafanas_own_interval():
    """A fixed length would show nothing where Prometheus scrapes rarely; the heatmap's gauges have no rate at all."""
    for name in FILES:
        for panel in panels(name):
            for target in panel["targets"]:
                for function, inside in re.findall(r"(rate|increase|delta)\(([^()]*)\)", target["expr"]):
                    assert "[$__rate_interval]" in inside or "[5m]" in inside, (function, inside)
                    assert "by_utilization" not in inside


def test_statistics_asked_for_are_those_the_exporter_has():
    """A statistic that is misspelt would be an empty panel."""
    for name in FILES:
        for one in queries(read(name), VALUES):
            for value in re.findall(r'statistic="(\w+)"', one.expression):
                assert value in Statistic.__args__


def test_reasons_that_are_counted_from_the_start_are_those_there_are():
    """Every reason in the code that refuses a message has its counter at 0 from the start."""
    from streams.fold.admission import REASONS

    found = set()
    for path in [*ROOT.glob("schemas/*.py"), *ROOT.glob("streams/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rejected":
                found |= {node.args[0].value} if isinstance(node.args[0], ast.Constant) else set()
    assert found <= set(REASONS)


def plain(value):
    """Return a model of Grafana's schema as JSON would have it."""
    return json.loads(JSONEncoder().encode(value))


@pytest.mark.parametrize("name", FILES)
def test_a_dashboard_is_one_of_grafanas_schema(name):
    """Read by the types that Grafana publishes for its schema and written again, nothing is lost or other.

    But for two keys of annotations that the types of this version do not have yet.
    """
    dashboard = read(name)
    for annotation in dashboard["annotations"].get("list", ()):
        assert isinstance(annotation.pop("useValueForTime"), bool)
        assert annotation.pop("titleFormat")
    assert without_none(plain(models.Dashboard.from_json(dashboard))) == without_none(dashboard)


def without_none(value):
    """Drop absent values, but for the first step of thresholds, where null means minus infinity."""
    if isinstance(value, dict):
        return {key: without_none(each) for key, each in value.items() if each is not None}
    return [without_none(each) for each in value] if isinstance(value, list) else value
