"""Small views: what is learned, lists of machines and of instances, health."""

import io
import json
from contextlib import redirect_stdout

import msgspec
import pytest

from ops.cli import main as cli
from schemas.process.settings import SettingsError
from schemas.tables.learned import Learned, Use
from scorer.client import HealthResult, InstanceRow, InstancesResult, InstanceUsage, WindwardError
from scorer.commands.instances import instances
from scorer.commands.instances.instances import _page
from scorer.commands.machines import machines
from scorer.commands.placing import profiles as command
from scorer.commands.running import health, learned
from scorer.commands.shared import watch
from scorer.commands.shared.watch import ListedSettings, listed
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer


def seen(instances):
    return Use(time=600.0, mean=0.5, between=0.1, within=0.1, seen=instances)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param(None, "nothing is learned yet", id="nothing"),
        pytest.param(Learned(version=1), "no instance is measured", id="no reports"),
        pytest.param(Learned(uses={"": {"cpu": seen(1.0)}}), "1 instance measured for 10m or longer", id="one"),
        pytest.param(Learned(uses={"": {"cpu": seen(19.2)}}), "use by kind is learned from 20 on", id="some"),
        pytest.param(
            Learned(
                uses={"": {"cpu": seen(20.0)}}, instances={"": {"cpu": 20.0}},
                deviations={"": {"cpu": 0.1}}, factors={"cpu": 0.5},
            ),
            "0.50 ± 0.10",
            id="enough",
        ),
    ],
)  # fmt: skip
def test_how_much_is_learned(value, said):
    assert said in learned.show(value, now_s=1.0)


@pytest.mark.parametrize(
    ("limit", "more", "shown", "total"),
    [(5, {}, 5, 25), (15, {}, 15, 25), (30, {}, 25, 25), (15, {"selector": "machine!=m03"}, 15, 24)],
)
def test_the_total_is_that_of_the_fleet(monkeypatch, limit, more, shown, total):
    scorer = Scorer(fleet(*(machine(f"m{number:02}") for number in range(25))))

    def read(_, kind, method, params):
        return msgspec.convert(scorer.ask(method, **params), kind)

    monkeypatch.setattr(machines.ask, "read", read)
    monkeypatch.setattr(machines, "_PAGE", 10)
    found, _ = machines._found(machines.ListSettings(limit=limit, **more))
    assert (len(found.machines), found.total, found.more) == (shown, total, shown < total)


HEALTHY = HealthResult(
    ready=True, scorer="s", version="1", uptime_s=9.0, machines=2, machines_with_data=1, newest_sample_age_s=3.0,
    windows_s=[300], instances=4, ledger_change=7, profiles=["windward"], profile="windward",
)  # fmt: skip


@pytest.mark.parametrize("field", ["ledger_refusal", "ledger_unaccepted", "ledger_unsafe"])
def test_what_is_wrong_with_the_ledger_is_told(field):
    assert "warning" not in health.show(HEALTHY)
    told = health.show(
        HealthResult(**{**{name: HEALTHY[name] for name in HEALTHY.__struct_fields__}, field: "it is full"})
    )
    assert "warning: it is full" in told.splitlines()


USAGE = InstanceUsage(
    at=1_000.0, since=400.0, count=11, partial=True, recent={"cpu": 1.5, "memory": 2e9},
    daily={"cpu": 1.25}, variance={"cpu": 0.5}, day_peak={"cpu": 3.0},
)  # fmt: skip


def row(instance_id, usage):
    return InstanceRow(id=instance_id, machine="m", state="confirmed", cpu=2.0, memory=4e9, usage=usage)


def shown(*rows):
    return instances.show(InstancesResult(instances=list(rows), total=len(rows), more=False), now_s=1_060.0)


def test_the_list_has_what_is_used_beside_what_was_asked():
    head, first, second, _ = shown(row("a", USAGE), row("b", None)).splitlines()
    assert head.split("  ")[-1].strip()
    assert "cpu used" in head
    assert "1.50" in first
    assert "2.00G" in first or "2.0G" in first
    assert "1.50" not in second
    assert "used" not in shown(row("b", None))


def test_the_page_says_since_when_it_is_measured():
    text = _page(row("a", USAGE), 1_060.0)
    assert "used, 30 min     cpu 1.50" in text
    assert "peak of the day  cpu 3.00" in text
    assert "11 reports" in text
    assert "1m ago; what it used before is not known" in text
    assert "used" not in _page(row("a", None), 1_060.0)


MINE = """
stale_s = 90.0
filters = [
    {use = "fits", ratio = {cpu = 2.0}},
    {use = "usage_threshold", thresholds = {cpu = 0.8, memory = 0.9}, percentile_thresholds = {cpu = 0.95}},
    {use = "memory_pressure", available_min = 0.03},
    {use = "maxmemory", share = 0.5},
]
scores = [{use = "least_allocated"}]
"""


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    return str(file)


def test_what_is_compared_is_told_by_resource(mine, capsys):
    """A threshold of a percentile of cpu stands beside that of its mean, and that of memory is still there."""
    assert command.main(["check", mine], {}) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in shown if line.startswith(("  cpu", "  memory"))] == [
        "cpu: promised at most 2 of allocatable (fits)",
        "cpu: used (mean), with the request, at most 2 of allocatable (fits)",
        "cpu: used (p95) at most 0.95 of allocatable (usage_threshold)",
        "cpu: used (mean) at most 0.8 of allocatable (usage_threshold)",
        "memory: promised at most 1 of allocatable (fits)",
        "memory: used (mean), with the request, at most 1 of allocatable (fits)",
        "memory: used (mean) at most 0.9 of allocatable (usage_threshold)",
        "memory: left (mean of the shortest window) at least 0.03 of the capacity (memory_pressure)",
        "memory: maxmemory promised at most 0.5 of allocatable (maxmemory)",
    ]


def test_of_the_peers_rule_only_what_is_compared_is_told(tmp_path, capsys):
    """With `instead` the percentiles take the place of the means, and no other resource is compared by the filter."""
    file = tmp_path / "peer.toml"
    file.write_text(MINE.replace("percentile", "instead = true, percentile"))
    assert command.main(["check", str(file), "--json"], {}) == 0
    told = json.loads(capsys.readouterr().out)["compares"]
    assert [one["resource"] for one in told if one["filter"] == "usage_threshold"] == ["cpu"]


def test_a_difference_is_told_by_setting(mine, tmp_path, capsys):
    other = tmp_path / "other.toml"
    other.write_text(
        MINE.replace("0.8", "0.7").replace("90.0", "60.0").replace("least_", "most_").replace("percentile", "prod")
    )
    assert command.main(["diff", str(other), "--against", mine], {}) == 0
    assert capsys.readouterr().out.splitlines() == [
        "  stale_s: 90.0 -> 60.0",
        "  filters.usage_threshold.thresholds.cpu: 0.8 -> 0.7",
        "  filters.usage_threshold.percentile_thresholds.cpu: 0.95 -> (not given)",
        "- scores.least_allocated",
        "  filters.usage_threshold.prod_thresholds.cpu: (not given) -> 0.95",
        "+ scores.most_allocated",
    ]
    assert command.main(["diff", mine, "--against", mine], {}) == 0
    assert capsys.readouterr().out == "no difference\n"


AWAY = WindwardError("UNAVAILABLE", "no connection", retryable=True)
WRONG = WindwardError("INVALID_ARGUMENT", "no such column")


class Terminal(io.StringIO):
    """A terminal whose user presses Ctrl-C when the answers are over."""

    def isatty(self):
        return True


def drawn(monkeypatch, *answers):
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("COLUMNS", "80")
    waited, left = [], list(answers)

    def sleep(wait_s):
        waited.append(wait_s)
        if not left:
            raise KeyboardInterrupt

    def find():
        answer = left.pop(0)
        if isinstance(answer, WindwardError):
            raise answer
        return answer.split("\n"), lambda found, _: "\n".join(found)

    monkeypatch.setattr(watch.time, "sleep", sleep)
    monkeypatch.setattr(watch.time, "strftime", lambda _: "12:00:00")
    with redirect_stdout(Terminal()) as terminal, pytest.raises(KeyboardInterrupt):
        listed(ListedSettings(watch=True), find)
    assert waited == [2.0] * len(answers)
    first, *frames = terminal.getvalue().split("\x1b[H")
    assert first == "\x1b[2J"
    assert all(frame.endswith("\x1b[K\x1b[J\n") for frame in frames)
    return [frame.replace("\x1b[K", "").removesuffix("\x1b[J\n") for frame in frames]


def test_it_is_drawn_again_every_two_seconds(monkeypatch):
    frames = drawn(monkeypatch, "id\na\n1 of 1", "id\na\nb\n2 of 2", "id\na\nb\nc\n3 of 3")
    assert frames == [
        "12:00:00\nid\na\n1 of 1", "12:00:00\nid\na\nb\n2 of 2", "12:00:00\nid\na\n(2 more lines)\n3 of 3",
    ]  # fmt: skip


def test_a_list_stays_while_the_scorer_is_away(monkeypatch):
    frames = drawn(monkeypatch, "1 of 1", AWAY, "2 of 2")
    away = "12:00:00; no connection: the list is from before\n1 of 1"
    assert frames == ["12:00:00\n1 of 1", away, "12:00:00\n2 of 2"]


@pytest.mark.parametrize("errors", [[AWAY], ["1 of 1", WRONG]])
def test_an_error_ends_it(monkeypatch, errors):
    with pytest.raises(WindwardError):
        drawn(monkeypatch, *errors)


def test_it_is_for_terminals(capsys):
    with pytest.raises(SettingsError, match="standard output is no terminal"):
        listed(ListedSettings(watch=True), lambda: ("", lambda *_: ""))
    for listing in ("machines", "instances"):
        assert cli.main([listing, "--watch", "--json"]) == 2
        assert "watch: for a terminal, not with --json" in capsys.readouterr().err
