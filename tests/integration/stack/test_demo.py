"""``windward demo`` without a terminal; and every process of a local stack restarted under load."""

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.bench import rolling
from tests.effort import effort
from tests.integration.stack.test_stack_up import WINDWARD, environ, gone


@pytest.mark.slow
@pytest.mark.long
def test_the_demo_shows_the_whole_stack_at_work(tmp_path):
    """Windows fill, machines are ranked, refusals explained, a burst is spread; all processes are gone after it."""
    machines = effort(60, 200)
    started = time.monotonic()
    done = subprocess.run(
        [*WINDWARD, "demo", "--prefix", "shown", "--machines", str(machines)],
        capture_output=True,
        text=True,
        env=environ(),
        check=False,
        timeout=150,
        cwd=tmp_path,
    )
    shown = done.stdout
    assert done.returncode == 0, shown + done.stderr
    assert time.monotonic() - started < 120
    assert re.search(
        rf"{machines + 1} machines seen +windows covered: 5 min 100% +15 min 100% +60 min (99|100)%", shown
    )
    assert "(real)" in shown
    assert re.search(r"machine +score +risk +cpu +cpu then", shown)
    assert re.search(rf"no machine fits +0/{machines + 1} feasible: \d+ ", shown)
    assert "50 of 50 reserved" in shown
    windward = re.search(r"^Windward +(\d+) +(\d+)", shown, re.MULTILINE)
    assert int(windward[1]) >= 8
    assert int(windward[2]) <= effort(
        20, 12
    )  # the simulated load follows the time of day: 13 of 50 at nine, by 60 machines
    cooled = re.search(r"^(sim-\d+) +(\d+)% +(\d+)% +6 +\d$", shown, re.MULTILINE)
    assert cooled is not None, "the hot machine before and after the plan"
    assert int(cooled[3]) < int(cooled[2])
    assert re.search(rf"6 instances of [\d.]+ cores were sent to {cooled[1]}", shown)
    assert re.search(r"all 7 processes are gone", shown)
    assert not list(tmp_path.iterdir())
    running = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if b"=shown\0" in read(path)]
    assert gone(set(running))


def read(path):
    """Return a file's content, nothing when it is gone or not ours."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
def test_everything_is_restarted_under_load(capfd):
    """Scorers, workers, exporter, planner, Redis: each call is answered in time and once, no slot is missing."""
    assert rolling.main(["--machines", "30", "--clients", "3"]) == 0, capfd.readouterr().out
