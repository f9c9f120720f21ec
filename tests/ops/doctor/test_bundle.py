"""The archive of ``windward doctor --bundle``."""

from __future__ import annotations

import socket
import stat
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ops.doctor.bundle import (
    logs_of,
    pages_of,
    plain_environ,
    plain_settings,
    secrets_of,
    without_secrets,
    write_bundle,
)
from ops.doctor.command import DoctorSettings
from schemas.messages.process import Process
from tests.rows import each_row

SECRET = "Hush7secret"


@each_row(
    ("text", "left"),
    [
        pytest.param(f"AUTH {SECRET}", "AUTH ***", id="a known secret anywhere"),
        pytest.param("redis://u:x1@h:1/0", "redis://***@h:1/0", id="user and password in a URL"),
        pytest.param("redis+sentinel://u:x1@a:1,b:2/m", "redis+sentinel://***@a:1,b:2/m", id="of a sentinel"),
        pytest.param("see http://h/a@b", "see http://h/a@b", id="an @ behind the host is none"),
        pytest.param("sasl_password='a b' user=c", 'sasl_password="***" user=c', id="a quoted value"),
        pytest.param('{"token": "abc", "n": 1}', '{"token": "***", "n": 1}', id="in JSON"),
        pytest.param("WINDWARD_REDIS_PASSWORD=abc", 'WINDWARD_REDIS_PASSWORD="***"', id="a variable"),
        pytest.param("requirepass abc", 'requirepass "***"', id="a line of the server's file"),
        pytest.param(
            '{"a_password": "(set)", "b_password": "None"}', '{"a_password": "(set)", "b_password": "None"}', id="ours"
        ),
        pytest.param("the password is asked for", "the password is asked for", id="the word alone"),
    ],
)
def test_what_is_taken_out_of_a_text(text: str, left: str) -> None:
    """Secrets, and what looks like one; nothing else."""
    assert without_secrets(text, [SECRET]) == left


def test_the_secrets_of_settings_and_environment() -> None:
    """By the mark of a setting, and by the name of a variable; short ones are found in too many words."""
    settings = DoctorSettings(kafka_sasl_password=SECRET, redis_password="abc")
    environ = {"WINDWARD_REDIS_PASSWORD_FILE": "/run/x", "API_TOKEN": "t0ken", "HOME": "/root", "MY_PASS": "no"}
    assert sorted(secrets_of(settings, environ)) == ["/run/x", SECRET, "t0ken"]
    assert plain_settings(settings)["kafka_sasl_password"] == "(set)"
    assert plain_settings(settings)["redis_sentinel_password"] == "None"
    assert plain_environ({"WINDWARD_KAFKA_SASL_PASSWORD": SECRET, "WINDWARD_KAFKA": "b:1", "OTHER": "x"}) == {
        "WINDWARD_KAFKA": "b:1",
        "WINDWARD_KAFKA_SASL_PASSWORD": "(set)",
    }


def test_no_file_of_the_archive_has_a_secret(tmp_path: Path) -> None:
    """Wherever it stood; only the owner may read the archive, also one that was there before."""
    path = tmp_path / "b.tar.gz"
    path.touch(0o644)
    texts = {"report.txt": f"failed: {SECRET}", "pages/a b:1.txt": f"redis://:{SECRET}@h", "logs/x.log": "fine"}
    assert write_bundle(path, texts, [SECRET]) == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as archive:
        found = {one.name: archive.extractfile(one).read().decode() for one in archive}  # type: ignore[union-attr]
    assert found == {
        "windward-doctor/report.txt": "failed: ***",
        "windward-doctor/pages/a_b_1.txt": "redis://***@h",
        "windward-doctor/logs/x.log": "fine",
    }


def test_the_end_of_each_log(tmp_path: Path) -> None:
    """The last 64 kB; of the journal its last lines, and what it says when it cannot be read."""
    (tmp_path / "stream-1.log").write_text("old\n" + "x" * (64 << 10))
    (tmp_path / "else").write_text("not a log")

    @dataclass
    class Said:
        stdout: str
        stderr: str

    def journal(command: list[str], **_: Any) -> Said:
        return Said(f"{command[0]} says\n", "no permission\n")

    def absent(*_: Any, **__: Any) -> Said:
        raise FileNotFoundError("no journalctl here")

    def slow(*_: Any, **__: Any) -> Said:
        raise subprocess.TimeoutExpired("journalctl", 10)

    found = logs_of(tmp_path, journal)
    assert found == {"logs/stream-1.log": "x" * (64 << 10), "logs/journal.txt": "journalctl says\nno permission\n"}
    assert logs_of(tmp_path, absent)["logs/journal.txt"] == "no journalctl here\n"
    assert "timed out" in logs_of(tmp_path, slow)["logs/journal.txt"]


def test_a_page_that_is_not_read_is_its_error() -> None:
    """A process without pages has no file."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        page = f"http://127.0.0.1:{closed.getsockname()[1]}"
        one = Process(host="h", pid=1, version="1", started=0.0, at=0.0, page=page)
        found = pages_of({"scorer": {"a": one, "b": Process(host="h", pid=2, version="1", started=0.0, at=0.0)}})
    assert list(found) == ["pages/scorer-a-metrics.txt", "pages/scorer-a-ready.txt"]
    assert all("refused" in text for text in found.values())
