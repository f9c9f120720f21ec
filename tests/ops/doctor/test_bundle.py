"""The archive of ``windward doctor --bundle``."""

import base64
import json
import socket
import stat
import subprocess
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest

from ops.doctor import bundle
from ops.doctor.bundle import logs_of, own_addresses, pages_of, plain_environ, plain_settings, write_bundle
from ops.doctor.command import DoctorSettings, Inspection
from ops.doctor.findings import Finding
from schemas.messages.process import Process
from schemas.process.page_server import PageServer

SECRET = "Hush7secret"
CODED = base64.b64encode(f"user:{SECRET}".encode()).decode()
FORMS = [
    SECRET,
    f"AUTH {SECRET}",
    f"AUTH user {SECRET}",
    f"HELLO 3 AUTH user {SECRET}",
    f"CONFIG SET requirepass {SECRET}",
    f"requirepass {SECRET}",
    f"masterauth {SECRET}",
    f"ACL SETUSER a on >{SECRET}",
    f"user a on #{SECRET}",
    f"redis://:{SECRET}@h:6379/0",
    f"redis://user:{SECRET}@h",
    f"rediss://user:{SECRET}@h@evil",
    f"redis://user:a@{SECRET}@h",
    "redis://user:Hush%37secret@h",
    "redis://user:%48ush7secret@h",
    f"redis://h?password={SECRET}",
    f"redis+sentinel://u:{SECRET}@a:1,b:2/m",
    f"https://h/path?token={SECRET}",
    f"https://h/#{SECRET}",
    f"postgres://u:{SECRET}@h/db",
    f"--redis-password {SECRET}",
    f"--redis-password={SECRET}",
    f"-p{SECRET}",
    f"WINDWARD_REDIS_PASSWORD={SECRET}",
    f"export TOKEN='{SECRET}'",
    f'{{"password": "{SECRET}"}}',
    f'{{"a": {{"secret": ["{SECRET}"]}}}}',
    f'{{\\"password\\": \\"{SECRET}\\"}}',
    f"password: {SECRET}",
    f"password is {SECRET}",
    f'sasl.jaas.config=x password="{SECRET}";',
    f"Authorization: Bearer {SECRET}",
    f"Authorization: Basic {CODED}",
    f"Proxy-Authorization: Digest {CODED}",
    f"Cookie: session={SECRET}",
    f"X-Api-Key: {SECRET}",
    f"-----BEGIN PRIVATE KEY-----\n{CODED}\n-----END PRIVATE KEY-----",
    f"AKIA{SECRET}",
    f"ghp_{SECRET}",
    f"curl -u user:{SECRET} http://h",
    f"invalid username-password pair or user is disabled: '{SECRET}'",
    f"at=2026-01-01T00:00:00.000Z level=info event=x.y password={SECRET}",
    "eyJhbGciOiJIUzI1NiJ9.Hush7secret.c2lnbmVk",
    f"aws_secret_access_key = {SECRET}/K7MDENG/bPxRfi",
    f"https://{SECRET}@h/path",
    f"//{SECRET}:@h",
    f"Set-Cookie: sid={SECRET}; HttpOnly",
    f"HOME=/root PGPASSWORD={SECRET} PATH=/bin",
    f"[redis]\npassword = '{SECRET}'",
    f"redis:\n  password: {SECRET}",
    f"\x00{SECRET}\x1b{SECRET}",
    f"login=48151623 pin=48151623 {SECRET}",
    f": at=2026-01-01T00:00:00.000Z level=info event=a.b error=48151623 {SECRET}",
    "pin 481516 is wrong",
    "db-481516",
    "481516",
    "481516:",
    "48.15.16.23",
    "48151623.42",
    "at=2026-01-01T00:00:00.000Z level=info event=a.b pwd=48151623 otp=48151623 session_id=48151623 cookie=48151623",
    '{"at": "2026-01-01T00:00:00.000Z", "level": "info", "event": "a.b", "login": 48151623, "signed": 48151623}',
]


@dataclass
class Said:
    stdout: str
    stderr: str


def a_process(**changes):
    told = {"host": socket.gethostname(), "pid": 1, "version": "1.0", "started": 0.0, "at": 0.0}
    return Process(**told | changes)


def contents(path):
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read().decode() for one in archive}


@pytest.mark.parametrize("form", [pytest.param(form, id=str(number)) for number, form in enumerate(FORMS)])
def test_a_secret_leaves_in_no_form_from_no_place(tmp_path, form):
    """Planted wherever a process writes: heartbeats, pages, health, INFO, findings, settings, variables, logs."""
    label = form.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    def page(environ, start):
        start("200 OK", [])
        if environ["PATH_INFO"] == "/ready":
            return [
                json.dumps({"ready": True, "instances": 7, "error": form, form: 1, "health": {form: form}}).encode()
            ]
        series = f'windward_a_total{{machine="{label}",kind="x"}} 5.0\nwindward_b{{error="{label}"}} 1.0'
        return [f"# HELP {label}\n{series}\n{form}\n".encode()]

    line = f'at=2026-01-01T00:00:00.000Z level=warning event=agent.publish.failed error="{label}" queued=12'
    as_json = json.dumps({"at": "2026-01-01T00:00:00.000Z", "level": "info", "event": "a.b", "error": form, "n": 9})
    (tmp_path / "stream-1.log").write_text(f"{line}\n{form}\n{as_json}\n")
    journal = Said(f"2026-01-01 host u[1]: {line}\n{form}\n", form)
    server = PageServer(page, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.port}"
    settings = DoctorSettings(redis_password=SECRET, redis_username=form, log_dir=tmp_path)
    inspection = Inspection(settings)
    inspection.processes = {
        "scorer": {form: a_process(page=address, version=form, details={"instances": 7, form: form, "error": form})},
        "pods": {"a": a_process(page=f"{address}/?{form}", host=form)},
    }
    inspection.redis_info = {f"Redis {form}": {"used_memory": 5, "os": form, "errorstat_" + form: {"count": 1}}}
    found = [Finding(f"Redis {form}", "error", f"3 machines are silent: {form}", f"restart {form}")]
    try:
        texts = inspection.texts(found, {"WINDWARD_REDIS_PASSWORD": form, "WINDWARD_KAFKA": form, "OTHER": form})
    finally:
        server.stop()
    texts |= logs_of(tmp_path, lambda *_, **__: journal)
    write_bundle(tmp_path / "b.tar.gz", texts)
    left = contents(tmp_path / "b.tar.gz")
    everything = "\n".join([*left, *left.values()]).lower()
    for part in ("hush", "7secret", "37secret", "%48ush", "481516", "48.15.16", CODED.lower()):
        assert part not in everything
    assert 'windward_a_total{kind="x"} 5.0' in left["windward-doctor/pages/scorer-1-metrics.txt"]
    assert json.loads(left["windward-doctor/pages/scorer-1-ready.txt"]) == {"ready": True, "instances": 7}
    assert "event=agent.publish.failed queued=12\n" in left["windward-doctor/logs/stream-1.log"]
    assert "event=a.b n=9\n" in left["windward-doctor/logs/stream-1.log"]
    assert "event=agent.publish.failed queued=12\n" in left["windward-doctor/logs/journal.txt"]
    assert "3 machines are silent" in left["windward-doctor/report.txt"]


HERE = socket.gethostname()


@pytest.mark.parametrize(
    ("page", "host", "asked"),
    [
        pytest.param("http://127.0.0.1:9", HERE, True, id="this host"),
        pytest.param(f"https://{HERE}:9", HERE, True, id="by its name"),
        pytest.param("http://10.0.0.5:9", "10.0.0.5", True, id="by its address"),
        pytest.param("http://u:p@10.0.0.5:9/x?y#z", "10.0.0.5", True, id="no user, no path"),
        pytest.param("file:///root/.ssh/id_rsa#", HERE, False, id="a file"),
        pytest.param("ftp://127.0.0.1/x", HERE, False, id="another scheme"),
        pytest.param("http://10.0.0.6:9", "10.0.0.5", False, id="another host"),
        pytest.param("http://127.0.0.1:9", "10.0.0.5", False, id="this host's loopback, said by another"),
        pytest.param("http://10.0.0.5@10.0.0.6:9", "10.0.0.5", False, id="another host behind an @"),
        pytest.param("http:///x", "10.0.0.5", False, id="no host"),
        pytest.param("http://169.254.169.254/latest", "169.254.169.254", False, id="a cloud's metadata"),
        pytest.param("http://[fe80::1]:9", "fe80::1", False, id="a link's own address"),
        pytest.param("http://127.0.0.1:9", "127.0.0.1", False, id="loopback as another's name"),
        pytest.param("http://localhost:9", "localhost", False, id="localhost as another's name"),
        pytest.param("http://224.0.0.1:9", "224.0.0.1", False, id="many hosts"),
        pytest.param("http://2852039166:9", "10.0.0.5", False, id="metadata as one number"),
        pytest.param("http://0x7f.1:9", "10.0.0.5", False, id="loopback as numbers"),
    ],
)
def test_which_pages_are_asked(page, host, asked):
    assert bool(own_addresses(a_process(page=page, host=host))) == asked


def test_a_page_of_another_host_is_not_followed():
    asked = []

    def elsewhere(environ, start):
        asked.append(environ["PATH_INFO"])
        start("302 Found", [("Location", "/evil")])
        return [b"windward_a 1.0"]

    server = PageServer(elsewhere, "127.0.0.1", 0)
    try:
        found = pages_of({"scorer": {"a": a_process(page=f"http://127.0.0.1:{server.port}")}}, ())
    finally:
        server.stop()
    assert sorted(asked) == ["/metrics", "/ready"]
    assert "windward_a" not in "".join(found.values())


def test_a_name_with_a_second_address_is_not_asked(monkeypatch):
    """It has one of its own host when it is looked at, and this host's when it is connected to."""
    known, asked = socket.getaddrinfo, list[str]()
    answers = ["10.0.0.5", "10.0.0.5", "127.0.0.1"] * 2
    server = PageServer(lambda environ, _: asked.append(environ["PATH_INFO"]) or [], "127.0.0.1", 0)
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *more, **others: known(answers.pop(0), *more, **others))
    monkeypatch.setattr(bundle, "ThreadPoolExecutor", lambda **_: ThreadPoolExecutor(1))
    try:
        found = pages_of({"scorer": {"a": a_process(page=f"http://evil:{server.port}", host="evil")}}, ())
    finally:
        server.stop()
    assert (asked, answers) == ([], [])
    assert {text.rpartition(":")[2] for text in found.values()} == {" it was not asked\n"}


@pytest.mark.parametrize("header", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n"], ids=["body", "header"])
def test_a_page_that_drips_is_given_up(header):
    """A byte each tenth of a second is an answer at each read: the whole answer has a deadline."""
    stopping = threading.Event()

    def drip(listener):
        with suppress(OSError), ExitStack() as held:
            while True:
                one = held.enter_context(listener.accept()[0])
                threading.Thread(target=drop, args=(one,), daemon=True).start()

    def drop(one):
        with suppress(OSError):
            one.sendall(header)
            while not stopping.wait(0.1):
                one.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        began_s = time.monotonic()
        found = pages_of({"scorer": {"a": a_process(page=f"http://127.0.0.1:{listener.getsockname()[1]}")}}, ())
        stopping.set()
        listener.shutdown(socket.SHUT_RDWR)
    assert time.monotonic() - began_s < 8
    assert set(found.values()) == {"not read: TimeoutError\n"}


def test_settings_leave_as_numbers_and_switches():
    found = plain_settings(DoctorSettings(kafka_sasl_password=SECRET, kafka="b:1"))
    assert (found["kafka_sasl_password"], found["kafka"], found["broker"]) == ("(set)", "(set)", True)
    assert found["redis_sentinel_password"] is None
    assert plain_environ({"WINDWARD_KAFKA": "b:1", "OTHER": "x"}) == {"WINDWARD_KAFKA": "(set)"}


def test_the_archive_is_its_owners(tmp_path):
    """Only the owner may read it, also one that was there before; no name leads out of its folder."""
    path = tmp_path / "b.tar.gz"
    path.touch(0o644)
    assert write_bundle(path, {"report.txt": "fine", "pages/../../../tmp/evil": "x"}) == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not [name for name in contents(path) if ".." in name or not name.startswith("windward-doctor/")]


def test_the_end_of_each_log(tmp_path):
    line = "at=2026-01-01T00:00:00.000Z level=info event=a.b n=1\n"
    (tmp_path / "stream-1.log").write_text("old\n" + line * 5_000)
    (tmp_path / "else").write_text("not a log")

    def absent(*_, **__):
        raise FileNotFoundError("no journalctl here")

    def slow(*_, **__):
        raise subprocess.TimeoutExpired("journalctl", 10)

    found = logs_of(tmp_path, lambda *_, **__: Said(line, ""))
    assert found == {"logs/stream-1.log": line * ((64 << 10) // len(line)), "logs/journal.txt": line}
    assert logs_of(tmp_path, absent)["logs/journal.txt"] == "not read: FileNotFoundError\n"
    assert logs_of(tmp_path, slow)["logs/journal.txt"] == "not read: TimeoutExpired\n"


def test_a_page_that_is_not_read_is_its_error():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        page = f"http://127.0.0.1:{closed.getsockname()[1]}"
        found = pages_of({"scorer": {"a": a_process(page=page), "b": a_process()}}, ())
    assert list(found) == ["pages/scorer-1-metrics.txt", "pages/scorer-1-ready.txt"]
    assert all("not read: ConnectionRefusedError" in text for text in found.values())
