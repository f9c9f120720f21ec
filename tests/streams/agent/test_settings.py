"""The agent's settings: every wrong one is one line that names it, and exit code 2."""

from pathlib import Path

import pytest

from ops.cli.main import main
from schemas.process.settings import load_settings
from streams.agent.settings import AgentSettings
from tests.rows import each_row

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


@each_row(("argv", "name"), WRONG)
def test_a_wrong_setting_is_one_line_that_names_it(argv: list[str], name: str, capsys: pytest.CaptureFixture[str]):
    """Exit code 2, nothing on stdout, one line on stderr."""
    assert main(["agent", "--check-config", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"windward agent: {name}")


def test_good_settings_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """From a file, the environment and flags at once."""
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
