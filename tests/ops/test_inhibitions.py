"""An outage pages once, for what it is: what each failure fires, less what Alertmanager's rules inhibit."""

import re
from pathlib import Path

import pytest

from tests.ops.test_rules import NAMES
from tests.ops.yaml_files import read_yaml

FOLDER = Path(__file__).parents[2] / "ops/prometheus"
ALERTMANAGER = read_yaml((FOLDER / "alertmanager.yml").read_text())
RULES = ALERTMANAGER["inhibit_rules"]
FAILURES = read_yaml((FOLDER / "tests/failures.yml").read_text())["tests"]
HEALTHY = "4m30s"
"""Before anything fails."""


def labels_of(series):
    return dict(re.findall(r'(\w+)="([^"]*)"', series))


def matches(matchers, alert):
    """Return whether all matchers hold; a regular expression matches the whole value."""
    for matcher in matchers:
        name, how, value = re.fullmatch(r'(\w+)(=~?)"([^"]*)"', matcher).groups()
        given = alert.get(name, "")
        if not (re.fullmatch(value, given) if how == "=~" else value == given):
            return False
    return True


def not_inhibited(firing):
    """Yield what Alertmanager notifies of: a missing label is equal to an empty one."""
    for alert in firing:
        if not any(
            matches(rule["target_matchers"], alert)
            and matches(rule["source_matchers"], other)
            and all(alert.get(name, "") == other.get(name, "") for name in rule["equal"])
            for rule in RULES
            for other in firing
        ):
            yield alert


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure["name"].partition(":")[0])
def test_a_failure_pages_once_for_what_it_is(failure):
    """Of all that fires, and promtool says that it does, the alert on what failed is left alone."""
    guilty = failure["name"].partition(": ")[2]
    at = {
        one["eval_time"]: [labels_of(each["labels"]) for each in one["exp_samples"]]
        for one in failure["promql_expr_test"]
    }
    assert at.pop(HEALTHY) == []
    assert len(at) >= 2
    assert {one["expr"] for one in failure["promql_expr_test"]} == {'ALERTS{alertstate="firing"}'}
    for time, firing in at.items():
        assert [alert["alertname"] for alert in not_inhibited(firing)] == [guilty], time


def test_each_process_and_server_has_a_failure():
    """Broker, Redis, each process, those of Kubernetes, too; some fire more than their own alert."""
    assert len(FAILURES) == len({failure["name"].partition(": ")[2] for failure in FAILURES}) == 12
    last = [len(failure["promql_expr_test"][-1]["exp_samples"]) for failure in FAILURES]
    assert sorted(last)[-3:] >= [4, 5, 12]


def test_another_fleet_is_not_muted():
    away = {"alertname": "WindwardStreamBrokerAway", "fleet": "north", "instance": "w"}
    stale = {"alertname": "WindwardSamplesStale", "fleet": "south"}
    assert list(not_inhibited([away, stale])) == [away, stale]
    assert list(not_inhibited([away, stale | {"fleet": "north"}])) == [away]


def test_rules_name_alerts_there_are_and_never_mute_each_other():
    """Every rule is by fleet; an alert that inhibits another is never inhibited by it, over any number of steps."""
    muted = {}
    for rule in RULES:
        assert rule.keys() == {"source_matchers", "target_matchers", "equal"}
        assert "fleet" in rule["equal"]
        sources, targets = (
            {name for name in NAMES if matches(rule[end], {"alertname": name})}
            for end in ("source_matchers", "target_matchers")
        )
        named = {
            part
            for end in ("source_matchers", "target_matchers")
            for part in re.findall(r"\bWindward\w+", str(rule[end]))
        }
        assert named == sources | targets
        for source in sources:
            muted.setdefault(source, set()).update(targets)
    for source in muted:
        reached, frontier = set[str](), {source}
        while frontier:
            frontier = set().union(*(muted.get(name, set()) for name in frontier)) - reached
            reached |= frontier
        assert source not in reached


def test_alerts_of_a_fleet_are_one_group_with_a_receiver():
    """The first notification waits until the guilty alert fires, too."""
    route = ALERTMANAGER["route"]
    assert route["group_by"] == ["fleet"]
    assert route["group_wait"] == "1m"
    assert route["receiver"] in [one["name"] for one in ALERTMANAGER["receivers"]]
