"""A plugin of another package that fails: every command that ranks says which one and why, on one line."""

import json
import sys

import pytest

from scorer import plugins
from tests.ops.replay.worlds.test_workload_file import folder as workload
from tests.scorer.ranking.profiles.test_third_party import install
from tests.support.in_process import run_command

FAILING = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Broken:
    name, reason, scope = "broken", "of another mind", "machine"

    def __call__(self, request, machines):
        return 1 / 0
"""
PROFILE = '[[filters]]\nuse = "fits"\nclasses = { batch = ["batch", "free"] }\n[[filters]]\nuse = "broken"\n'
FLEET = {
    "machines": [{"name": name, "capacity": {"cpu": 16}, "usage": {"cpu": cpu}} for name, cpu in (("a", 15), ("b", 1))],
    "instances": [
        {"id": f"i{number}", "machine": "a", "cpu": 4, "usage": {"cpu": 5}, "priority_class": "batch"}
        for number in range(3)
    ],
}
SAID = "INTERNAL: filter broken failed: ZeroDivisionError: division by zero"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    install(tmp_path, FAILING, "[windward.filters]", "broken = your_package:Broken")
    (tmp_path / "mine.toml").write_text(PROFILE)
    (tmp_path / "fleet.json").write_text(json.dumps(FLEET))
    (tmp_path / "wanted.jsonl").write_text('{"id": "new", "cpu": 1}\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    plugins.filters.cache_clear()
    yield tmp_path
    plugins.filters.cache_clear()
    sys.modules.pop("your_package", None)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        pytest.param(("rank", "--cpu", "1"), 1, id="rank"),
        pytest.param(("capacity", "--cpu", "1"), 1, id="capacity"),
        pytest.param(("plan", "wanted.jsonl"), 255, id="plan"),
        pytest.param(("drain", "a"), 1, id="drain"),
        pytest.param(("drain", "--consolidate", "1"), 1, id="consolidate"),
        pytest.param(("rebalance",), 1, id="rebalance"),
        pytest.param(
            ("rebalance", "--rule", "thresholds", "--high", "cpu=65", "--low", "cpu=45"), 1, id="by thresholds"
        ),
        pytest.param(("drain", "--evict"), 1, id="evict"),
    ],
)
def test_it_is_named_on_one_line(folder, command, code):
    """No traceback; the exit code is 1, of `plan` 255: no plan was made."""
    words = (*command, "--fleet-file", "fleet.json", "--profile", "mine.toml")
    done = run_command(*words, environ={})
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"windward {command[0]}: {SAID}\n")
    told = json.loads(run_command(*words, "--json", environ={}).stderr)
    assert told["code"] == "INTERNAL"
    assert told["message"] == SAID.partition(": ")[2]


def test_a_replay_names_it_too(folder):
    """By the exit code of the others: what failed is the plugin, not what was given."""
    words = ("replay", str(workload(folder / "work")), "--profile", "mine.toml")
    done = run_command(*words, environ={})
    assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", f"windward replay: {SAID}")
    assert json.loads(run_command(*words, "--json", environ={}).stderr.strip())["code"] == "INTERNAL"
