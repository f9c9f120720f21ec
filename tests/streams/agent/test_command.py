"""``windward agent`` as a process."""

import itertools
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ops.stack.servers.process import LOOPBACK, free_port
from schemas.messages.sample import Sample, decode
from schemas.process.settings import load_settings
from streams.agent import command
from streams.agent.__main__ import SETTINGS
from streams.agent.sampling.schedule import phase_s

START_S = 3.0
"""More than a process takes to start, even on a busy machine's second core."""

HEAVY = ("numpy", "faust", "mode", "aiokafka", "rich", "matplotlib", "redis", "prometheus_client")

SCRIPT = f"""
import sys
from ops.cli.main import main
code = main(["agent", "--dry-run", "--nic-speed", "10G", *sys.argv[1:]])
heavy = [name for name in {HEAVY} if name in sys.modules]
sys.exit(code or (3 if heavy else 0))
"""


def machine_due_soon() -> str:
    """Return a machine id whose interval ends a moment after a process started now can have read twice."""
    now_s = time.time()
    names = (f"m{number}" for number in itertools.count())
    return next(name for name in names if 0 < (phase_s(name, 10) - now_s) % 10 - START_S < 1)


def test_a_dry_run_prints_a_sample_and_loads_nothing_heavy():
    """One JSON line that the stream app accepts, no broker needed, no numpy or Faust in the process."""
    machine = machine_due_soon()
    command = [sys.executable, "-c", SCRIPT, "--machine", machine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    sample = decode(line.encode())
    assert isinstance(sample, Sample)
    assert (sample.machine, sample.seq, sample.interval_s) == (machine, 0, 10.0)
    assert sample.cpu is not None
    assert sample.memory is not None
    assert 0 <= sample.cpu.mean <= sample.cpu.capacity
    assert 0 < sample.memory.mean < sample.memory.capacity


def test_once_without_a_broker_prints_its_sample_and_fails():
    """The sample is on stdout, exit code 1 says that it was not delivered."""
    command = [sys.executable, "-m", "ops.cli.main", "agent", "--once", "--flush-s", "0.1", "--log-format", "json"]
    command += ["--machine", machine_due_soon()]
    broker = f"{LOOPBACK}:{free_port()}"
    done = subprocess.run([*command, "--kafka", broker], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert isinstance(decode(done.stdout.strip().encode()), Sample)
    last = json.loads(done.stderr.splitlines()[-1])
    assert last["event"] == "agent.stopped"
    assert last["undelivered"] == 2


@pytest.mark.parametrize("field", ["ExecStart=", "WatchdogSec=", "DynamicUser=yes", "MemoryMax="])
def test_the_unit_runs_the_command(field: str):
    """The systemd unit starts the agent, watched and bounded."""
    unit = (Path(__file__).parents[3] / "ops" / "systemd" / "windward-agent.service").read_text()
    assert field in unit
    assert "bin/windward-agent\n" in unit


def test_the_command_of_its_own_has_examples_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where only the agent is installed there is no command `windward`; the flags are those of `windward agent`."""
    monkeypatch.setattr(sys, "argv", ["windward-agent", "--help"])
    assert command.main() == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: windward-agent ")
    assert "windward agent" not in shown
    examples = [line.strip().partition("  #")[0] for line in shown.splitlines() if line.startswith("  windward-agent ")]
    assert "windward-agent --dry-run" in [line.strip() for line in examples]
    for line in examples:
        load_settings(SETTINGS, "agent", shlex.split(line)[1:], {})
