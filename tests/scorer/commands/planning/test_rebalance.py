"""``windward rebalance`` from a file: by both rules, as a table and as JSON, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ops.cli.main import main as windward
from schemas.process.settings import SettingsError
from scorer.client import Moving, UpdateResult, WindwardError
from scorer.commands.planning.carry_out import Calls
from scorer.commands.planning.rebalance import apply, main
from scorer.commands.shared import ask
from tests.scorer.commands.planning.test_carry_out import NoScorer
from tests.scorer.planning.balance.test_by_overload import hot_and_cold
from tests.scorer.rpc.test_results import Scorer as RpcScorer

FILE = str(Path(__file__).parents[4] / "docs" / "examples" / "hot.json")
THRESHOLDS = ("--rule", "thresholds", "--high", "cpu=65,memory=95", "--low", "cpu=45,memory=60")


def run(capsys, *words):
    assert main(["--fleet-file", FILE, *words], {}) == 0
    return capsys.readouterr().out


def as_json(capsys, *words):
    return json.loads(run(capsys, "--json", *words))


def test_by_overload(capsys):
    answer = as_json(capsys)
    (move,) = answer["moves"]
    assert (move["id"], move["source"], move["target"]) == ("web-2", "a1", "a2")
    assert move["reason"] == "cpu of the source 95% -> 76%"
    assert move["utilization"]["target"]["cpu"] == pytest.approx([5 / 16, 8 / 16])
    assert answer["totals"]["machines_over"] == [1.0, 0.0]
    assert answer["movable"] == 2
    assert "web-2  a1    a2" in run(capsys)


def test_by_thresholds(capsys):
    moves = as_json(capsys, *THRESHOLDS)["moves"]
    assert {move["id"] for move in moves} == {"web-1", "web-2"}
    assert moves[0]["reason"] == "node is overutilized, node cpu usage(95.00%)>threshold(65.00%)"
    assert [move["target"] for move in moves] == ["a2", None]
    assert moves[0]["overload"]["target"][1] <= moves[0]["overload"]["source"][0]
    assert as_json(capsys, *THRESHOLDS, "--moves-max", "1")["moves"] == moves[:1]
    assert "1 without a target" in run(capsys, *THRESHOLDS)


def test_by_repair(capsys, tmp_path):
    rule = [{"instances": {"cluster": "c"}}]
    said = {
        "machines": [
            {"name": name, "capacity": {"cpu": 8, "memory": "8G"}, "usage": {"cpu": 1, "memory": 1}} for name in "ab"
        ],
        "instances": [
            {"id": f"c{n}", "machine": "a", "cpu": 1, "memory": "1G", "cluster": "c", "anti_affinity": rule}
            for n in range(3)
        ],
    }
    told = tmp_path / "fleet.json"
    told.write_text(json.dumps(said))
    words = ["--rule", "repair", "--rest-s", "0", "--cluster-max", "9", "--fleet-file", str(told)]
    assert main(words, {}) == 0
    printed = capsys.readouterr().out
    assert "c0  a     b   cluster=c by machine: others 0" in printed
    assert "\n1 move, memory" in printed
    assert "1 without a target: no move that the filters allow mends the rule" in printed
    assert "no rule is broken" in run(capsys, "--rule", "repair")
    rule = [{"instances": {"cluster": "c", "role": "master"}}]
    for one, at, role in zip(said["instances"], "aab", ("master", "master", "replica"), strict=True):
        one |= {"machine": at, "role": role, "anti_affinity": rule}
    told.write_text(json.dumps(said))
    assert main([*words, "--roles"], {}) == 0
    printed = capsys.readouterr().out
    assert "cluster=c,role=master by machine: others 0; hand its role to c2: nothing is copied" in printed
    assert "without a target" not in printed
    assert "1 exchange of roles, without a copy\n0 moves" in printed
    assert main([*words, "--roles", "--json"], {}) == 0
    (move,) = json.loads(capsys.readouterr().out)["moves"]
    assert (move["id"], move["target"], move["swap_role_with"], move["role"]) == ("c0", None, "c2", "replica")
    assert "a1    a2  node is overutilized" in run(capsys, *THRESHOLDS)


def test_the_profile_says_how(capsys, tmp_path):
    koordinator = as_json(capsys, "--profile", "koordinator")
    assert (koordinator["rule"], koordinator["moves"][0]["id"]) == ("thresholds", "web-1")
    assert as_json(capsys, "--profile", "koordinator", "--rule", "overload")["moves"][0]["id"] == "web-2"
    mine = tmp_path / "mine.toml"
    mine.write_text('[rebalance]\nclasses = ["batch"]\n')
    assert as_json(capsys, "--profile", str(mine))["moves"] == []
    assert as_json(capsys, "--profile", str(mine), "--classes", "prod")["moves"]
    mine.write_text("[rebalance]\ngain_min = 2\n")
    with pytest.raises(SettingsError, match=r"mine.toml, line 2: rebalance.gain_min: expected a share from 0 to 1"):
        main(["--fleet-file", FILE, "--profile", str(mine)], {})


def test_before_and_after(capsys):
    answer = as_json(capsys)
    gives, takes = answer["concerned"]
    assert (gives["machine"], gives["gives"], takes["machine"], takes["takes"]) == ("a1", 1, "a2", 1)
    assert gives["utilization"]["cpu"] == pytest.approx([0.95, 12.2 / 16])
    assert takes["overload"] == answer["moves"][0]["overload"]["target"]
    assert answer["std"]["cpu"][1] < answer["std"]["cpu"][0]
    assert answer["moves"][0]["copy"] == answer["copy"] == {"bytes": 8e9, "seconds": 128.0}
    shown = run(capsys)
    assert "a1           1      0  0.0683 -> 0.0053  95% -> 76%" in shown
    assert "standard deviation by resource: cpu 27.6% -> 14.1%" in shown


def test_nothing_to_do(capsys):
    assert run(capsys, "--gain-min", "1").startswith("nothing is worth a move (3 machines, 3 instances")


def test_a_planner_is_asked_with_the_flags_that_are_given(capsys, monkeypatch):
    scorer, asked = RpcScorer(hot_and_cold()), list[dict[str, Any]]()

    def answer(_, kind, method, params):
        asked.append(params)
        return msgspec.convert(scorer.ask(method, **params), kind)

    monkeypatch.setattr(ask, "read", answer)
    assert main(["--json", "--moves-max", "3", "--gain-min", "0.01"], {}) == 0
    assert json.loads(capsys.readouterr().out)["rule"] == "overload"
    assert asked == [{"moves_max": 3, "settings": {"gain_min": 0.01}, "profile": ""}]


class Scorer(NoScorer):
    def __init__(self, refused=None):
        self.refused = refused or {}

    def update(self, id, **changes):  # noqa: A002
        if id in self.refused:
            raise self.refused[id]
        there, target = id == "there", changes["machine"]
        moving = None if there else Moving(to=target, since=1.0, until=9.0, number=3)
        return UpdateResult(id=id, machine=target if there else "S", state="confirmed", amounts=[], moving=moving)


def applied(moves, **refused):
    answer = [{"id": name, "source": source, "target": target, "generation": 1} for name, source, target in moves]
    apply(answer, Calls(Scorer(refused)))
    return {move["id"]: move["applied"] for move in answer}


def test_what_became_of_each_move_is_told():
    moves = [("a", "A", "B"), ("b", "C", "A"), ("c", "B", "D"), ("e", "E", "F"), ("f", "A", None), ("there", "S", "T")]
    assert applied(moves, a=WindwardError("RESOURCE_EXHAUSTED", "no room")) == {
        "a": {"outcome": "refused", "why": "RESOURCE_EXHAUSTED: no room"},
        "b": {"outcome": "dropped", "why": "a does not leave A"},
        "c": {"outcome": "dropped", "why": "a does not come to B"},
        "e": {"outcome": "reserved", "why": "", "until": 9.0, "number": 3},
        "f": None,
        "there": {"outcome": "refused", "why": "there is on T and does not move"},
    }


def test_without_an_answer_the_rest_is_not_tried():
    found = applied([("a", "A", "B"), ("b", "C", "D")], a=WindwardError("DEADLINE_EXCEEDED", "no answer"))
    assert found == {key: {"outcome": "not tried", "why": "DEADLINE_EXCEEDED: no answer"} for key in "ab"}


FILES = ("--profile", "docs/examples/classes.toml", "--fleet-file", "docs/examples/classes.json")


def test_it_says_who_leaves_and_why(capsys):
    assert windward(["drain", "--evict", *FILES]) == 0
    shown = capsys.readouterr().out
    assert "trial  free   busy  calm  cpu of batch and free is 3.40 too much" in shown
    assert "2 should leave; machines above a sum: 1; 2 machines, 5 instances, profile classes" in shown
    assert windward(["drain", "--evict", *FILES, "--json", "--evictions-max", "1"]) == 0
    (eviction,) = json.loads(capsys.readouterr().out)["evictions"]
    assert (eviction["id"], eviction["class"], eviction["target"]) == ("trial", "free", "calm")


def test_a_profile_with_one_sum_is_refused(capsys):
    assert windward(["drain", "--evict", "--fleet-file", FILES[-1]]) == 2
    assert "profile: windward counts all classes together; give `fits` a table `classes`" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["busy"], ["--consolidate", "1"], ["--apply"], ["--force"], ["--wait"], ["--undo"]])
def test_it_looks_at_all_machines_and_only_prints(more, capsys):
    """What chooses machines or changes something is refused beside it."""
    assert windward(["drain", "--evict", *more]) == 2
    assert "evict: looks at all machines and only prints" in capsys.readouterr().err


def test_a_refusal_by_class_is_explained(capsys):
    assert windward(["rank", *FILES, "--cpu", "2", "--priority-class", "batch", "--explain"]) == 0
    assert "1/2 feasible: 1 cpu of batch above what is reclaimable" in capsys.readouterr().out
