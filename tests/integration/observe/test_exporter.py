"""The exporter as a process before a real server: pages, Redis away and back, shards, TLS and password, signals."""

import base64
import contextlib
import os
import shutil
import signal
import socket
import ssl
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ops.exporter.__main__ import main
from ops.stack.servers.local import LocalValkey
from ops.stack.servers.process import LOOPBACK, wait_until
from schemas.names import Names
from schemas.process.settings import SettingsError
from tests.support.pages import certificate, process_with_pages
from tests.window_tables import publish, window_table


def exporter(url, *flags, **environ):
    own = {name: value for name, value in os.environ.items() if not name.startswith("WINDWARD_")} | environ
    return process_with_pages("exporter", url, *flags, environ=own)


def get(url, *, context=None, **headers):
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def samples(body):
    """Return labels and values by metric; every series has the fleet, which is left out."""
    found = {}
    for family in parse_text(body.decode()):
        for sample in family.samples:
            assert sample.labels.pop("fleet")
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def fill(url, names, *partitions):
    publish(url, names, [window_table(machines, partition=p) for p, machines in enumerate(partitions)])


def test_redis_away_shows_no_old_value(tmp_path):
    """Up is 0 and no machine is shown; when the server is back, so are the machines. The log says each once."""
    with LocalValkey(directory=tmp_path / "valkey", append_only=True) as valkey:
        fill(valkey.url, Names(), ["a"])
        with exporter(valkey.url) as (process, page):
            assert "windward_machine_fresh" in samples(get(f"{page}/metrics")[2])
            valkey.kill()
            for _ in range(2):
                status, _, body = get(f"{page}/metrics")
                found = samples(body)
                assert status == 200
                assert found["windward_exporter_up"] == [({}, 0.0)]
                assert "process_open_fds" in found
                assert not [name for name in found if name.startswith(("windward_machine", "windward_fleet"))]
            assert get(f"{page}/ready")[0] == 503
            assert b"redis_url: " in get(f"{page}/ready")[2]
            assert get(f"{page}/live")[0] == 200
            valkey.start()
            assert "windward_machine_fresh" in samples(get(f"{page}/metrics")[2])
            said = process.log.read_text()
            assert said.count("exporter.redis.away") == 1
            assert said.count("exporter.redis.back") == 1


def test_shards_share_the_machines(valkey, names):
    """Two exporters of one fleet show each machine once together, and the whole fleet's figures each."""
    fill(valkey.url, names, ["a", "b"], ["c"], ["d", "e"])
    machines = []
    for shard in ("1/2", "2/2"):
        with exporter(valkey.url, "--prefix", names.prefix, "--shard", shard) as (_, page):
            found = samples(get(f"{page}/metrics")[2])
        machines += [labels["machine"] for labels, _ in found["windward_machine_fresh"]]
        assert ({"state": "fresh"}, 5.0) in found["windward_fleet_machines"]
    assert sorted(machines) == ["a", "b", "c", "d", "e"]


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl here to make a certificate")
def test_tls_and_password(valkey, names, tmp_path):
    """Served by TLS only, to whoever knows the password; a client silent in its handshake holds up no other."""
    fill(valkey.url, names, ["a"])
    cert, key = certificate(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("pass: word\n")
    flags = ["--metrics-tls-cert-file", cert, "--metrics-tls-key-file", key, "--metrics-username", "prometheus"]
    flags += ["--prefix", names.prefix]
    with exporter(valkey.url, *flags, WINDWARD_METRICS_PASSWORD_FILE=str(secret)) as (process, plain_page):
        page, trust = plain_page.replace("http:", "https:"), ssl.create_default_context(cafile=cert)
        port = urlsplit(page).port

        def basic(text):
            return "Basic " + base64.b64encode(text.encode()).decode()

        with socket.create_connection((LOOPBACK, port)):
            begin = time.monotonic()
            status, _, body = get(f"{page}/metrics", context=trust, Authorization=basic("prometheus:pass: word"))
            assert time.monotonic() - begin < 8  # a silent connection is dropped after 10 s
        assert status == 200
        assert "windward_machine_fresh" in samples(body)
        for wrong in ("", "Basic ", "Basic %%", basic("prometheus:word"), basic("other:pass: word"), "Bearer x"):
            status, headers, body = get(f"{page}/metrics", context=trust, Authorization=wrong)
            assert (status, headers["Www-Authenticate"][:5]) == (401, "Basic")
            assert b"windward_" not in body
        assert get(f"{page}/ready", context=trust)[0] == 401
        assert get(f"{page}/live", context=trust)[0] == 200
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            get(f"{page}/metrics", context=ssl.create_default_context())
        with socket.create_connection((LOOPBACK, port), 10) as plain:
            plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            with contextlib.suppress(ConnectionError):  # it may be closed without a word
                assert b"windward_" not in plain.recv(1000)
        assert "pass: word" not in process.log.read_text()


def test_profiles_are_read_again_on_sighup_and_sigterm_ends_with_0(valkey, names, tmp_path):
    """A file with a mistake replaces nothing; a good one is used by the next page."""
    fill(valkey.url, names, ["a"])
    profile = tmp_path / "mine.toml"
    profile.write_text('[[filters]]\nuse = "cordon"\n')
    flags = ["--prefix", names.prefix, "--profiles", str(profile), "--profile", "mine"]
    with exporter(valkey.url, *flags) as (process, page):

        def filters():
            found = samples(get(f"{page}/metrics")[2])
            return {labels["filter"] for labels, _ in found["windward_fleet_probe_refusals"]}

        assert filters() == {"cordon"}
        profile.write_text('[[filters]]\nuse = "nonsense"\n')
        process.signal(signal.SIGHUP)
        wait_until(lambda: "exporter.profiles.refused" in process.log.read_text(), 10, "refused")
        assert filters() == {"cordon"}
        profile.write_text('[[filters]]\nuse = "cordon"\n[[filters]]\nuse = "fresh"\n')
        process.signal(signal.SIGHUP)
        wait_until(lambda: "exporter.profiles.reloaded" in process.log.read_text(), 10, "reloaded")
        assert filters() == {"cordon", "fresh"}
        process.ask_to_stop()
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param(["--shard", "3/2"], "shard: expected I/N", id="shard"),
        pytest.param(["--statistics", "median"], "statistics: ", id="statistic"),
        pytest.param(["--labels", "a.b,a-b"], "labels: 'a.b' and 'a-b'", id="labels"),
        pytest.param(["--probe", "cpu=lots"], "probe: cpu", id="probe"),
        pytest.param(["--metrics-tls-cert-file", "none.pem"], "metrics_tls_cert_file: there is no", id="no-cert"),
        pytest.param(["--metrics-tls-cert-file", __file__], "metrics_tls_key_file: certificate and", id="no-key"),
        pytest.param(
            ["--metrics-tls-cert-file", __file__, "--metrics-tls-key-file", __file__],
            "metrics_tls_cert_file: ", id="not-a-cert",
        ),
        pytest.param(["--metrics-username", "x"], "metrics_password: user and password", id="no-password"),
        pytest.param(["--profile", "none"], "profiles: ", id="profile"),
        pytest.param(["--metrics-port", "0"], "metrics_port: ", id="no-port"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(flags, said):
    """Nothing is served; the message begins with the setting."""
    with pytest.raises(SettingsError) as error:
        main(["--redis-url", f"redis://{LOOPBACK}:1/0", *flags], {})
    assert str(error.value).startswith(said)
