"""``windward drain`` from a file: the plan, as a table and as JSON, what it refuses, its exit codes."""

import json
from pathlib import Path

from scorer.commands.planning.drain import main
from tests.scorer.fleets import machine

FILE = str(Path(__file__).parents[4] / "docs" / "examples" / "hot.json")


def run(capsys, *words, code=0):
    assert main(["--fleet-file", FILE, *words], {}) == code
    return capsys.readouterr().out


def test_every_instance_finds_a_machine(capsys):
    answer = json.loads(run(capsys, "a1", "--force", "--json"))
    assert [(one["id"], one["source"], one["target"], one["cpu"]) for one in answer["moves"]] == [
        ("db-1", "a1", "a2", 6.0), ("web-1", "a1", "a3", 4.0), ("web-2", "a1", "a3", 3.0),
    ]  # fmt: skip
    assert (answer["drained"], answer["cordoned"], answer["blocked"]) == (["a1"], False, [])
    shown = run(capsys, "a1", "--force").splitlines()
    assert shown[1].split() == ["db-1", "a1", "a2", "6.00", "12.0G"]
    assert shown[-1] == (
        "a1: only planned, nothing is changed; 3 of 3 instances find a machine "
        "(3 machines, 3 instances, profile windward)"
    )


def test_what_stays_is_told_why(capsys):
    shown = run(capsys, "a1", code=3)
    assert "db-1   a1  its label movable=false says that it stays" in shown
    assert "2 of 3 instances find a machine, 1 stays" in shown
    everything = json.loads(run(capsys, "a?", "--force", "--json", code=3))
    assert {one["reason"] for one in everything["blocked"]} == {"0/3 feasible: 3 cordoned"}
    assert everything["drained"] == ["a1", "a2", "a3"]


def test_an_empty_machine(capsys):
    assert run(capsys, "a2") == "a2: only planned, nothing is changed; no instance is there\n"


def test_the_machines_that_are_the_cheapest_to_empty(capsys, tmp_path):
    machines = [machine(f"m{n}", 16, "64G", usage={"cpu": {"mean": 2, "std": 0.2}, "memory": "4G"}) for n in range(3)]
    there = [{"id": f"i{n}", "machine": f"m{n // 2}", "cpu": 1, "memory": "1G"} for n in range(3)]
    file = tmp_path / "fleet.json"
    file.write_text(json.dumps({"machines": machines, "instances": there}))
    assert main(["--fleet-file", str(file), "--consolidate", "1", "--json"], {}) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["drained"] == ["m1"]
    assert [one["id"] for one in answer["moves"]] == ["i2"]
    assert answer["consolidate"]["machines"][0]["instances"] == 1
    assert main(["--fleet-file", str(file), "--consolidate", "1"], {}) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["emptied", "instances", "memory", "to", "copy"]
    assert shown[1].split()[:2] == ["m1", "1"]
    assert main(["--fleet-file", str(file), "--consolidate", "9"], {}) == 3
    assert "of 9 machines can be emptied" in capsys.readouterr().out
    assert run(capsys, "--consolidate", "1", code=3) == (
        "no machine can be emptied: 0 were tried; left out: 2 without instances, 1 with an instance that may not move\n"
    )


def test_a_name_that_is_none(capsys):
    assert main(["--fleet-file", FILE, "a11"], {}) == 1
    assert "no machine 'a11'" in capsys.readouterr().err
