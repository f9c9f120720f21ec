"""``windward plan`` from a file: the table, JSON, exit codes; and how a plan is carried out and stops."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schemas.process.settings import SettingsError
from schemas.rpc.request import read_request
from scorer.client import WindwardError
from scorer.commands.planning.plan import main
from scorer.commands.planning.plan_apply import TRIES, Stopped, apply, tried_again
from scorer.planning.wanted.steps import Step

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
FLEET = str(EXAMPLES / "hot.json")


def run(capsys: pytest.CaptureFixture[str], file: object, *words: str, code: int) -> str:
    """What is printed."""
    assert main([str(file), "--machines", FLEET, *words], {}) == code
    return capsys.readouterr().out


def test_every_kind_of_step(capsys: pytest.CaptureFixture[str]) -> None:
    """Signs, machines, why, and the counts below; 3: one finds no machine."""
    shown = run(capsys, EXAMPLES / "wanted.jsonl", "--prune", code=3).splitlines()
    assert [line.split()[:2] for line in shown[1:-1]] == [
        ["-", "db-1"], ["~", "web-2"], [">", "web-1"], ["+", "cache-1"], ["+", "cache-2"], ["!", "huge"],
    ]  # fmt: skip
    assert shown[-1].startswith(
        "2 to place, 1 to move, 1 to change, 0 to update, 1 to release, 1 refused, 0 unchanged (3 machines"
    )
    answer = json.loads(run(capsys, EXAMPLES / "wanted.jsonl", "--json", code=3))
    assert answer["counts"] == {
        "place": 2, "move": 1, "change": 1, "update": 0, "release": 0, "refuse": 1, "same": 0,
    }  # fmt: skip
    assert (answer["others"], answer["applied"]) == (1, False)


def test_exit_codes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """0 nothing to change, 1 changes, 255 no plan could be made."""
    file = tmp_path / "wanted.json"
    file.write_text('{"id": "web-1", "cpu": 4, "memory": "8G"}')
    assert run(capsys, file, code=0).startswith("0 to place, 0 to move, 0 to change, 0 to update, 0 to rele")
    file.write_text('{"id": "web-1", "cpu": 1, "memory": "8G"}')
    run(capsys, file, code=1)
    for text in ("{", '{"id": "a", "selector": "= ="}'):
        file.write_text(text)
        assert main([str(file), "--machines", FLEET], {}) == 255
        assert "windward plan: file: " in capsys.readouterr().err
    assert main([str(tmp_path / "none"), "--machines", FLEET], {}) == 255
    assert main([str(file), "--machines", str(tmp_path / "none")], {}) == 255
    assert main([str(file), "--machines", FLEET, "--profile", "none"], {}) == 255


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--apply", "--machines", FLEET], "apply: a file is only planned on"),
        (["--prune-labels", "a=b"], "prune_labels: goes with --prune"),
        (["--apply", "--profile", "mine.toml"], "profile: --apply needs a profile of the scorer"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], message: str) -> None:
    """It names the setting."""
    with pytest.raises(SettingsError) as error:
        main(["file", *words], {})
    assert message in str(error.value)


STEPS = [
    Step("release", "r", "m1", None, generation=4),
    Step("change", "c", "m1", "m1", generation=5, changes={"cpu": 2.0}),
    Step("move", "v", "m1", "m2", generation=0, changes={"cpu": 3.0, "selector": "a", "role": "master"}),
    Step("refuse", "x"),
    Step("place", "p", None, "m3", request=read_request({"id": "p", "cpu": 1, "ports": [7]})),
    Step("place", "q", None, "m3", request=read_request({"id": "q", "cpu": 1, "labels": {"a": "b"}})),
]


class Scorer:
    """Answers each call, up to one that it refuses."""

    def __init__(self, refused: str = "", missing: tuple[str, ...] = ()) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refused, self.missing = refused, missing

    def __call__(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((method, dict(params)))
        if params.get("id") == self.refused:
            raise WindwardError("FAILED_PRECONDITION", "is another reservation by now")
        if method != "place":
            return {"machine": params.get("machine", "m1")}
        placed = [one["id"] for one in params["instances"] if one["id"] not in self.missing]
        return {
            "placed": [{"id": one, "machine": "m9", "generation": 7} for one in placed],
            "missing": len(self.missing),
            "reason": "0/3 feasible",
        }


def test_a_plan_is_carried_out_in_its_order() -> None:
    """Each step with its generation; new ones in one call; where the scorer put them is told."""
    scorer = Scorer()
    assert list(apply(scorer, STEPS)) == [
        (0, None, 0), (1, "m1", 0), (2, "m2", 0), (2, "m2", 0), (4, "m9", 7), (5, "m9", 7),
    ]  # fmt: skip
    assert scorer.calls[:4] == [
        ("release", {"id": "r", "generation": 4}),
        ("update", {"id": "c", "generation": 5, "cpu": 2.0}),
        ("update", {"id": "v", "machine": "m2", "move": True, "cpu": 3.0, "selector": "a"}),
        ("update", {"id": "v", "role": "master"}),
    ]
    method, params = scorer.calls[4]
    assert (method, [read_request(one) for one in params["instances"]]) == (
        "place",
        [STEPS[4].request, STEPS[5].request],
    )
    list(apply(scorer, STEPS, profile="seed", all_or_nothing=True))
    assert scorer.calls[6] == ("update", {"id": "c", "generation": 5, "cpu": 2.0, "profile": "seed"})
    assert (scorer.calls[9][1]["profile"], scorer.calls[9][1]["all_or_nothing"]) == ("seed", True)


@pytest.mark.parametrize(
    ("scorer", "done", "message"),
    [
        (Scorer(refused="c"), 1, "stopped at 'c' (change): is another reservation by now"),
        (Scorer(missing=("p",)), 5, "stopped at 'p' (place): 1 find no machine: 0/3 feasible"),
    ],
)
def test_it_stops_at_what_is_refused(scorer: Scorer, done: int, message: str) -> None:
    """The message says which step, and why."""
    carried = []
    with pytest.raises(Stopped) as error:
        for one in apply(scorer, STEPS):
            carried.append(one)
    assert len(carried) == done
    assert message in str(error.value)


def test_what_may_succeed_later_is_tried_again() -> None:
    """Only an answer that says so, and not for ever."""
    answers: list[WindwardError | str] = []

    def call(method: str, params: Mapping[str, Any]) -> str:
        if isinstance(answer := answers.pop(0), WindwardError):
            raise answer
        return answer

    overtaken, away = WindwardError("UNAVAILABLE", "overtaken", retryable=True), WindwardError("UNAVAILABLE", "away")
    answers[:] = [overtaken] * (TRIES - 1) + ["done"]
    assert tried_again(call)("update", {}) == "done"
    for refused, tries in ((away, 1), (overtaken, TRIES), (WindwardError("ABORTED", "gone", retryable=True), 1)):
        answers[:] = [refused] * TRIES
        with pytest.raises(WindwardError):
            tried_again(call)("update", {})
        assert len(answers) == TRIES - tries
