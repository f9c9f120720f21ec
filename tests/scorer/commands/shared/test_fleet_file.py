"""The commands that need nothing running: rank from files, profiles."""

import json
import re
from pathlib import Path

import pytest

from schemas.process.settings import SettingsError
from scorer.commands.placing import profiles as profiles_command
from scorer.commands.placing import rank as rank_command
from scorer.commands.shared.fleet_file import InvalidFleet, read_fleet
from tests.scorer.fleets import fleet, machine

FLEET = {
    "machines": [
        machine("a", 64, "256G", usage={"cpu": {"mean": 40, "std": 4}, "memory": "100G"}),
        machine("b", 64, "256G", usage={"cpu": 10, "memory": "100G"}),
    ]
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "machines.json").write_text(json.dumps(FLEET))
    (tmp_path / "query.json").write_text(json.dumps({"cpu": 2, "memory": "10G"}))
    return {name: str(tmp_path / f"{name}.json") for name in ("machines", "query")} | {"folder": str(tmp_path)}


def run(command, *arguments):
    return int(command.main(list(arguments), {}))


def test_rank_from_files(files, capsys):
    assert run(rank_command, "--fleet-file", files["machines"], "--query", files["query"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[1].startswith("b ")
    assert "2/2 feasible" in text
    assert run(rank_command, "--fleet-file", files["machines"], "--query", files["query"], "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["machine"], answer["profile"]) == ("b", "windward")


def test_rank_explains(files, capsys):
    assert run(rank_command, "--fleet-file", files["machines"], "--cpu", "2", "--explain") == 0
    text = capsys.readouterr().out
    assert re.search(r"filter fits +ok; cpu promised 0\.00 of \d+\.00, asked 2\.00; cpu used 10\.00 of ", text), text
    assert re.search(r"filter usage_threshold +ok; cpu used, with it \(mean of 1h\) \d+% of 90% allowed; memory ", text)
    assert not re.search(r"e-\d\d|[{}]", text)
    assert "score  expected_overload    100.00 * 3, raw 7" in text


def test_a_refused_machine_says_why_and_has_no_place(files, capsys):
    assert run(rank_command, "--fleet-file", files["machines"], "--cpu", "30", "--explain", "--all") == 0
    text = capsys.readouterr().out
    assert "a: refused" in text
    assert "filter fits                 refused, too much cpu used; cpu promised " in text
    assert "score  expected_overload    raw " in text
    assert "yesterday unknown; limit {memory 256.0G, nic" not in text
    assert "1/2 feasible: 1 too much cpu used" in text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"cpu": "many"}, "query: cpu: 'many' is not an amount"),
        ({"cpu": []}, "query: cpu: expected a number"),
        ({"cpus": 2}, "query: no such field: 'cpus'"),
        ({"selector": "a b"}, "query: selector: cannot read"),
        ({"prefer": [{"selector": "("}]}, "query: prefer[0].selector: cannot read"),
        ({"profile": "none"}, "profile: no profile 'none'"),
        ({"window_s": 7}, "query: window_s: no window of 7 s"),
        ([], "query: "),
    ],
)
def test_a_wrong_query_is_one_line_that_names_the_field(files, query, message):
    Path(files["query"]).write_text(json.dumps(query))
    with pytest.raises(SettingsError) as caught:
        run(rank_command, "--fleet-file", files["machines"], "--query", files["query"])
    assert message in str(caught.value)


def having(entry):
    return {"machines": [machine("m")], "instances": [{"id": "i", "machine": "m"} | entry]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machines": [{"name": "a"}, {"name": "a"}]}, "machines: 'a' is listed twice"),
        ({"machines": [{"name": "a", "capacity": {"gpu": 1}}]}, "a.capacity: no resource 'gpu'"),
        ({"machines": [{"name": "a", "usage": {"cpu": {"mean": "x"}}}]}, "a.mean: 'x' is not an amount"),
        ({"machines": [{"name": "a", "windows": {"hour": {}}}]}, "a.windows: 'hour' is no length"),
        ({"machines": [{"name": "a", "colour": 1}]}, "no such field: 'colour'"),
        ({"machines": [], "instances": [{"cpu": 1}]}, "instances[1].machine: expected a machine's name"),
        ({"machines": [], "instances": [{"id": "i", "machine": "a", "cpu": "x"}]}, "instances[i].cpu: 'x'"),
        ({"machines": [], "operator": {"a": {"share": {"cpu": 2}}}}, "operator of a: share"),
        ({}, "'machines' is missing"),
        (having({"usage": 3}), "instances[i].usage: expected an object"),
        (having({"usage": {"tape": 3}}), "instances[i].usage: no resource 'tape'"),
        (having({"usage": {"cpu": "much"}}), "instances[i].usage.cpu: "),
        (having({"usage": {"cpu": [1]}}), "instances[i].usage.cpu: "),
        (having({"usage": {"cpu": -1}}), "instances[i].usage.cpu: "),
        (having({"usage": {"cpu": 1e300}}), "instances[i].usage.cpu: expected 0 to 1e+16"),
        (having({"usage": {"cpu": 1}, "usage_age_s": "x"}), "instances[i].usage_age_s: expected a number, got text"),
        (
            having({"usage": {"cpu": 1}, "usage_since_s": -1}),
            "instances[i].usage_since_s: expected a number of 0",
        ),
        (having({"usage": {"cpu": 1}, "machine": "a\nb"}), "instances[i].machine: expected a machine's name"),
        ({"machines": [machine("m", system={"tape": 1})]}, "m.system: no resource 'tape'"),
        ({"machines": [machine("a\nb", usage={"cpu": 1})]}, "more than one line"),
    ],
)
def test_a_wrong_fleet_names_machine_and_field(change, message):
    with pytest.raises(InvalidFleet) as caught:
        read_fleet(change)
    assert message in str(caught.value)


def test_a_machine_that_only_the_ledger_knows_is_there_without_data():
    offline = read_fleet({"machines": [], "instances": [{"id": "i", "machine": "ghost"}]})
    assert offline.snapshot.names == ("ghost",)
    assert not offline.snapshot.has_data.any()


def test_profiles_are_listed_and_shown(capsys, tmp_path):
    assert run(profiles_command) == 0
    assert "windward" in capsys.readouterr().out
    assert run(profiles_command, "show", "windward") == 0
    shown = capsys.readouterr().out
    copy = tmp_path / "windward.toml"
    copy.write_text(shown)
    assert run(profiles_command, "show", str(copy)) == 0
    assert capsys.readouterr().out == shown
    assert run(profiles_command, "show", "seed", "--json") == 0
    assert json.loads(capsys.readouterr().out)["name"] == "seed"
    assert run(profiles_command, "plugins") == 0
    assert "score global_variance: Prefer the machine that leaves" in capsys.readouterr().out


def test_profiles_refuses_what_is_not_there():
    with pytest.raises(SettingsError, match="no profile 'nothing'"):
        run(profiles_command, "show", "nothing")
    with pytest.raises(SettingsError, match="no `profiles explode`"):
        run(profiles_command, "explode")


def test_usage_of_instances_and_systems():
    offline = fleet(
        machine("a", usage={"cpu": 9}, age_s=10),
        machine("b", usage={"cpu": 9}, system={"memory": "2G"}),
        instances=[{"id": "i", "machine": "a", "usage": {"cpu": "500m"}, "usage_since_s": 600, "usage_age_s": 30}],
        now=10_000,
    )
    found = offline.snapshot.usages.find("a", "i")
    assert (found.recent, found.daily, found.at, found.since) == ({"cpu": 0.5}, {"cpu": 0.5}, 9_960.0, 9_360.0)
    systems = [offline.snapshot.usages.find(name, "") for name in "ab"]
    assert [one.recent for one in systems if one] == [{}, {"memory": 2e9}]
    assert not fleet(machine(usage={"cpu": 9})).snapshot.usages
