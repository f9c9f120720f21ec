"""The units of systemd: hardened, and of users, folders and commands that exist."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ops.cli.main import COMMANDS

FOLDER = Path(__file__).parents[2] / "ops/systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
EXPOSURE_TENTHS_MAX = 20

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"),
    reason="NOT RUN: no systemd-analyze on the PATH (Debian: apt-get install systemd)",
)


def service(name):
    """Return the section of what runs; the last one of settings that are there more than once."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(FOLDER / name)
    return dict(parser["Service"])


def test_there_is_a_unit_for_each_process_that_stays():
    """Agent, stream app, scorer, exporter, recorder and planner."""
    names = ("agent", "exporter", "planner", "record", "scorer", "stream")
    assert [f"windward-{name}.service" for name in names] == UNITS


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_exposes_little(unit):
    command = ["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_TENTHS_MAX}", str(FOLDER / unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-400:] + done.stderr
    assert "Overall exposure level" in done.stdout


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_reads_a_unit_without_a_word(unit, tmp_path):
    """``systemd-analyze verify`` knows every setting; the command is replaced by one that is here."""
    text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", (FOLDER / unit).read_text())
    text = re.sub(r"(?m)^User=.*\n", "", text)
    (tmp_path / unit).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if unit in line]
    assert not lines


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_starts_a_command_of_ours(unit):
    """The agent's own command, or `windward` with one that it has."""
    program, *rest = service(unit)["ExecStart"].split()
    if program.endswith("/windward-agent"):
        assert rest == []
    else:
        assert program == "/opt/windward/bin/windward"
        assert rest[0] in COMMANDS


@pytest.mark.parametrize("unit", UNITS)
def test_the_user_of_a_unit_is_made(unit):
    made = re.findall(r"(?m)^u (\S+)", (FOLDER / "windward.sysusers").read_text())
    settings = service(unit)
    assert settings.get("DynamicUser") == "yes" or settings["User"] in made


@pytest.mark.skipif(not shutil.which("systemd-sysusers"), reason="NOT RUN: no systemd-sysusers on the PATH")
def test_users_and_folders_are_made_in_an_empty_root(tmp_path):
    """``systemd-sysusers`` and ``systemd-tmpfiles`` take the files as they are."""
    (tmp_path / "etc").mkdir()
    root = f"--root={tmp_path}"
    subprocess.run(["systemd-sysusers", root, str(FOLDER / "windward.sysusers")], capture_output=True, check=True)
    assert "windward:" in (tmp_path / "etc/passwd").read_text()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n" + (tmp_path / "etc/passwd").read_text())
    (tmp_path / "etc/group").write_text("root:x:0:\n" + (tmp_path / "etc/group").read_text())
    tmpfiles = ["systemd-tmpfiles", root, "--create", str(FOLDER / "windward.tmpfiles")]
    done = subprocess.run(tmpfiles, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "etc/windward/secrets").stat().st_mode & 0o777 == 0o700


def test_finding_instances_by_environment_takes_one_capability():
    """The drop-in of the agent gives that and nothing else; the unit itself has none."""
    added = service("windward-agent-instances.conf")
    assert added == {
        "AmbientCapabilities": "CAP_SYS_PTRACE", "CapabilityBoundingSet": "CAP_SYS_PTRACE", "PrivateUsers": "no",
    }  # fmt: skip
    unit = service("windward-agent.service")
    assert (unit["CapabilityBoundingSet"], unit["PrivateUsers"]) == ("", "yes")
