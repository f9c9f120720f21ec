"""``windward agent`` as a process, and its settings: every wrong one is one line that names it, and exit code 2."""

import itertools
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ops.cli.main import main
from ops.stack.servers.process import LOOPBACK, free_port
from schemas.messages.sample import Sample, decode
from schemas.process.settings import load_settings
from streams.agent import command
from streams.agent.__main__ import SETTINGS
from streams.agent.sampling.schedule import phase_s
from streams.agent.settings import AgentSettings
from tests.support.in_process import refusal

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


def machine_due_soon():
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
    assert (sample.machine, sample.seq, sample.interval_s) == (machine, 0, 10.0)
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
def test_the_unit_runs_the_command(field):
    """The systemd unit starts the agent, watched and bounded."""
    unit = (Path(__file__).parents[3] / "ops" / "systemd" / "windward-agent.service").read_text()
    assert field in unit
    assert "bin/windward-agent\n" in unit


def test_the_command_of_its_own_has_examples_of_its_own(monkeypatch, capsys):
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


WRONG = [
    pytest.param(["--interval-s", "5"], "interval_s", id="interval below a slot"),
    pytest.param(["--interval-s", "3601"], "interval_s", id="interval above an hour"),
    pytest.param(["--interval-s", "nan"], "interval_s", id="interval nan"),
    pytest.param(["--interval-s", "inf"], "interval_s", id="interval inf"),
    pytest.param(["--interval-s", "ten"], "interval_s", id="interval not a number"),
    pytest.param(["--reading-s", "0"], "reading_s", id="reading zero"),
    pytest.param(["--reading-s", "-1"], "reading_s", id="reading negative"),
    pytest.param(["--reading-s", "3"], "reading_s", id="reading does not divide"),
    pytest.param(["--reading-s", "20"], "reading_s", id="reading longer than the interval"),
    pytest.param(["--reading-s", "1e-9"], "reading_s", id="too many readings to count"),
    pytest.param(["--facts-interval-s", "1"], "facts_interval_s", id="facts too often"),
    pytest.param(["--backlog-records", "0"], "backlog_records", id="no backlog"),
    pytest.param(["--backlog-records", "1.5"], "backlog_records", id="half a record"),
    pytest.param(["--flush-s", "-1"], "flush_s", id="flush negative"),
    pytest.param(["--flush-s", "nan"], "flush_s", id="flush nan"),
    pytest.param(["--labels", "zone"], "labels", id="label without a value"),
    pytest.param(["--labels", "=a"], "labels", id="label without a name"),
    pytest.param(["--labels", "a=" + "x" * 9000], "labels", id="labels too long"),
    pytest.param(["--machine", "a b"], "machine", id="machine with a space"),
    pytest.param(["--machine", "ümlaut"], "machine", id="machine not ASCII"),
    pytest.param(["--machine", ""], "machine", id="machine empty"),
    pytest.param(["--machine", "m" * 254], "machine", id="machine too long"),
    pytest.param(["--capacity", "gpu=5"], "capacity", id="capacity of no resource"),
    pytest.param(["--capacity", "cpu=lots"], "capacity", id="capacity no amount"),
    pytest.param(["--capacity", "cpu=0"], "capacity", id="capacity nothing"),
    pytest.param(["--nic-speed", "fast"], "nic_speed", id="speed no amount"),
    pytest.param(["--nic-speed", "eth0=-1"], "nic_speed", id="speed negative"),
    pytest.param(["--nic-include", "("], "nic_include", id="include no expression"),
    pytest.param(["--nic-exclude", "["], "nic_exclude", id="exclude no expression"),
    pytest.param(["--instances-interval-s", "5"], "instances_interval_s", id="instances too often"),
    pytest.param(["--instance-cgroup", "("], "instance_cgroup", id="control group no expression"),
    pytest.param(["--instance-only", "services"], "instance_only", id="instances of no such kind"),
    pytest.param(["--instance-command", "redis"], "instance_command", id="command without a group"),
    pytest.param(["--instance-pid-file", "/run/a.pid"], "instance_pid_file", id="pid file without an id"),
    pytest.param(["--instance-pid-file", "a=b.pid"], "instance_pid_file", id="pid file of no place"),
    pytest.param(["--instance-environ", "A=B"], "instance_environ", id="no variable"),
    pytest.param(["--instance-port", "redis"], "instance_port", id="port nowhere"),
    pytest.param(["--metrics-port", "70000"], "metrics_port", id="no such port"),
    pytest.param(["--kafka", "nowhere"], "kafka", id="broker without a port"),
    pytest.param(["--kafka-security", "SASL_SSL"], "kafka_sasl_username", id="SASL without a user"),
    pytest.param(["--kafka-security", "TLS"], "kafka_security", id="no such protocol"),
    pytest.param(
        ["--kafka-security", "SSL", "--kafka-tls-ca-file", "/nowhere/ca.pem"], "kafka_tls", id="no such certificate"
    ),
    pytest.param(["--config", "/nowhere.toml"], "config", id="no such file"),
    pytest.param(["--log-level", "loud"], "log_level", id="no such level"),
    pytest.param(["--no-such-flag"], "unrecognized arguments: --no-such-flag", id="no such flag"),
]


@pytest.mark.parametrize(("argv", "name"), WRONG)
def test_a_wrong_setting_is_one_line_that_names_it(argv, name):
    assert refusal("agent", "--check-config", *argv).startswith(name)


def test_good_settings_pass(tmp_path, monkeypatch):
    config = tmp_path / "windward.toml"
    config.write_text('[agent]\nnic_speed = ["10G", "eth1=25G"]\ninterval_s = 20\n[agent.labels]\nzone = "a"\n')
    monkeypatch.setenv("WINDWARD_CAPACITY", "cpu=4,memory=8Gi")
    assert main(["agent", "--check-config", "--config", str(config), "--machine", "db1.example.com"]) == 0


def test_capacities_and_speeds_are_in_base_units():
    """Link speeds are given in bit/s and used in bytes/s."""
    argv = ["--nic-speed", "10G", "--nic-speed", "eth1=800M", "--capacity", "cpu=500m", "--capacity", "memory=1Gi"]
    settings = load_settings(AgentSettings, "agent", argv, {})
    assert settings.nic_speeds == {"*": 1.25e9, "eth1": 1e8}
    assert settings.capacities == {"cpu": 0.5, "memory": 2**30}
