"""The commands that ask a scorer: output, JSON, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schemas.names import Names
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.fleets import publish, window_table
from tests.integration.test_rpc import MACHINES, eventually, scorer_process

pytestmark = pytest.mark.integration

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def windward(valkey: Valkey) -> Iterator[Run]:
    """A function that runs a command against a scorer of ten machines."""
    names = Names(f"commands-{os.getpid()}")
    wire = Wire({"url": valkey.url})
    publish(wire, names, [window_table(MACHINES, at=time.time() + 5)])
    wire.close()
    environ = {**os.environ, "WINDWARD_REDIS_URL": valkey.url, "WINDWARD_PREFIX": names.prefix}

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ops.cli", *words],
            capture_output=True, text=True, timeout=60, check=False, env=environ | more,
        )  # fmt: skip

    with scorer_process(valkey.url, names):
        eventually(lambda: run("health").returncode == 0)
        yield run


def test_place_confirm_update_release(windward: Run) -> None:
    """The whole life by commands: 0 each time, the same machine said each time."""
    placed = windward("place", "--id", "one", "--cpu", "2", "--memory", "10G", "--labels", "app=x", "--json")
    assert placed.returncode == 0
    machine = json.loads(placed.stdout)["machine"]
    assert f"one placed on {machine}: reserved (as before)" in windward(
        "place", "--id", "one", "--cpu", "2", "--memory", "10G", "--labels", "app=x"
    ).stdout  # fmt: skip
    assert windward("confirm", "one").stdout.strip() == f"one on {machine}: confirmed"
    assert "updated" in windward("update", "one", "--cpu", "3").stdout
    listed = windward("instances", "--machine", machine, "--labels", "app=x")
    assert "one" in listed.stdout
    assert json.loads(windward("instances", "show", "one").stdout)["cpu"] == 3.0
    tried = windward("instances", "release", "one", "--dry-run")
    assert tried.stdout.strip() == f"one on {machine}: released (tried only)"
    assert windward("release", "one").stdout.strip() == f"one on {machine}: released"
    assert windward("release", "one").stdout.strip() == f"one on {machine}: released (as before)"
    again = windward("place", "--id", "one", "--cpu", "2", "--memory", "10G", "--labels", "app=x")
    assert again.returncode == 1
    assert "take another id" in again.stderr


def test_exit_codes(windward: Run) -> None:
    """3 when no machine fits, 2 for a wrong flag, 1 for a refused call, 4 without an answer."""
    assert windward("place", "--cpu", "1000").returncode == 3
    assert windward("place", "--cpu", "lots").returncode == 2
    assert windward("confirm", "nobody").returncode == 1
    assert windward("confirm").returncode == 2
    unanswered = windward("place", "--cpu", "1", "--timeout", "0.2", WINDWARD_PREFIX="elsewhere")
    assert unanswered.returncode == 4
    assert "is a scorer running" in unanswered.stderr
    assert len(unanswered.stderr.splitlines()) == 1


def test_place_tells_the_table_and_the_reason(windward: Run) -> None:
    """For people: where, the best machines with their terms, and why others were refused."""
    shown = windward("place", "--cpu", "2", "--dry-run").stdout
    for word in ("would be placed on", "cpu mean", "risk", "10/10 feasible"):
        assert word in shown
    assert "0/10 feasible" in windward("place", "--cpu", "1000").stdout


def test_rank_explains_and_draws_what_the_scorer_answers(windward: Run, tmp_path: Path) -> None:
    """A running scorer's answer is told and drawn as one from files; a selector it cannot read is one line, exit 2."""
    picture = tmp_path / "out.png"
    shown = windward("rank", "--cpu", "2", "--explain", "--plot", str(picture))
    assert shown.returncode == 0
    assert "score  global_variance" in shown.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    refused = windward("rank", "--cpu", "2", "--selector", "rack in (a")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "selector: cannot read 'rack in (a'" in refused.stderr


def test_a_list_of_unlike_instances_from_a_file(windward: Run, tmp_path: Path) -> None:
    """A query file may hold many instances."""
    file = tmp_path / "query.json"
    file.write_text(json.dumps({"instances": [{"id": "f1", "cpu": 1}, {"id": "f2", "memory": "1G"}]}))
    done = windward("place", "--query", str(file))
    assert done.returncode == 0
    assert "2 of 2 instances placed" in done.stdout
    pages = [
        json.loads(windward("instances", "--limit", "1", "--json", *more).stdout) for more in ((), ("--after", "f1"))
    ]
    assert pages[0]["more"]
    assert pages[1]["instances"][0]["id"] > "f1"


def test_operators_word_is_heard(windward: Run) -> None:
    """A cordoned, tainted or labelled machine is treated so at once."""
    assert windward("machines", "cordon", *MACHINES[:9]).returncode == 0
    eventually(lambda: json.loads(windward("place", "--cpu", "1", "--dry-run", "--json").stdout)["feasible"] == 1)
    assert json.loads(windward("place", "--cpu", "1", "--dry-run", "--json").stdout)["machine"] == MACHINES[9]
    windward("machines", "uncordon", *MACHINES[:9])
    assert windward("machines", "label", MACHINES[3], "disk=fast").returncode == 0
    chosen = eventually(
        lambda: json.loads(windward("place", "--selector", "disk=fast", "--dry-run", "--json").stdout)["machine"]
    )
    assert chosen == MACHINES[3]
    windward("machines", "taint", MACHINES[3], "spare:refuse")
    eventually(lambda: windward("place", "--selector", "disk=fast", "--dry-run").returncode == 3)
    shown = json.loads(windward("machines", "show", MACHINES[3]).stdout)
    assert shown["labels"] == {"disk": "fast"}
    assert shown["taints"][0]["key"] == "spare"
    assert MACHINES[3] in windward("machines", "--labels", "disk=fast").stdout
    windward("machines", "forget", MACHINES[3])
    assert windward("machines", "set", MACHINES[3], '{"share": {"cpu": 0.5, "memory": 0.9}}').returncode == 0
    windward("machines", "forget", MACHINES[3])
    wrong = windward("machines", "set", MACHINES[3], '{"share": {"cpu": 7}}')
    assert wrong.returncode == 2
    assert "share" in wrong.stderr
    assert windward("machines", "label", MACHINES[3], "nonsense").returncode == 2
    assert windward("machines", "frobnicate").returncode == 2


def test_import_shows_the_difference_first(windward: Run, tmp_path: Path) -> None:
    """An inventory is compared; only with --apply the ledger is changed, and then it agrees."""
    windward("place", "--id", "known", "--cpu", "1")
    windward("confirm", "known")
    file = tmp_path / "inventory.json"
    file.write_text('{"id":"found","machine":"m02","cpu":2,"memory":"1G","ports":[7000]}\n')
    first = json.loads(windward("instances", "import", str(file), "--json").stdout)
    assert [one["id"] for one in first["added"]] == ["found"]
    assert "known" in [one["id"] for one in first["gone"]]
    assert json.loads(windward("instances", "--json").stdout)["total"] > 0
    assert "nothing was written" in windward("instances", "import", str(file)).stdout
    assert windward("instances", "import", str(file), "--apply").returncode == 0
    after = json.loads(windward("instances", "import", str(file), "--json").stdout)
    assert (after["added"], after["changed"], after["gone"], after["same"]) == ([], [], [], 1)
    shown = json.loads(windward("instances", "show", "found").stdout)
    assert (shown["machine"], shown["state"], shown["ports"]) == ("m02", "confirmed", [7000])
    file.write_text('{"id":"found","cpu":2}\n')
    wrong = windward("instances", "import", str(file))
    assert wrong.returncode == 2
    assert "line 1" in wrong.stderr


def test_why_tells_the_terms_of_that_moment(windward: Run) -> None:
    """The decision about an instance is found again by its id, alone or in a batch."""
    windward("place", "--id", "asked", "--cpu", "1", "--count", "2")
    told = windward("why", "asked-2", "--json")
    assert json.loads(told.stdout)["answer"]["candidates"]
    assert "instances placed" in windward("why", "asked-1").stdout
    assert windward("why", "never").returncode == 1
    placed = json.loads(windward("place", "--id", "a,b", "--cpu", "1", "--json").stdout)
    assert json.loads(windward("why", "a,b", "--json").stdout)["answer"]["machine"] == placed["machine"]
    assert windward("place", "--id", "huge", "--cpu", "1000").returncode == 3
    assert "10 cpu larger than the machine" in windward("why", "huge").stdout


def test_why_tells_the_last_move(windward: Run) -> None:
    """After a move it is the move's ranking; a resize does not hide it."""
    windward("place", "--id", "moved", "--cpu", "1", "--machine", MACHINES[4])
    windward("confirm", "moved")
    assert f"moved, moved from {MACHINES[4]}" not in windward("why", "moved").stdout
    windward("update", "moved", "--machine", MACHINES[5])
    windward("update", "moved", "--cpu", "2")
    told = windward("why", "moved").stdout
    assert f"moved from {MACHINES[4]} to {MACHINES[5]}" in told
    assert "1/10 feasible" in told
    windward("release", "moved")
