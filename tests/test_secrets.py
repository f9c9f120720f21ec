"""No error shows a secret, or more than a little of what was given, wherever either came in."""

import asyncio
import dataclasses
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.cli.main import COMMANDS
from schemas.process.connections import PipelineSettings
from schemas.process.settings import SettingsError, load_settings
from scorer.client import AsyncClient, Client, WindwardError
from scorer.settings import ClientSettings, LedgerSettings
from tests.support.in_process import refusal

SECRET = "Hush7secret"
NOBODY = "127.0.0.77"
"""An address of this computer where nothing listens, whatever listens at 127.0.0.1."""
URLS = [
    f"redis://h/0?password={SECRET}", f"redis://:{SECRET}@h/0", f"redis://u:{SECRET}@h:1/x", f"redis://h:{SECRET}/0",
    f"redis://u:{SECRET[:4]}/{SECRET}@h/0", f"redis://:{SECRET}@[::1", f"redis://h?p%61ssword={SECRET}",
    f"redis://h?Password={SECRET}", f"u:{SECRET}@h:6379", f"{SECRET}://h", f"http://u:{SECRET}@h",
    f"redis+sentinel://u:{SECRET}@h/m", f"redis+sentinel://h:{SECRET}/m", f"redis+sentinel://h/m/{SECRET}",
    f"redis+sentinel://h/m/0?sentinel_password={SECRET}", f"redis+sentinel://h,u:{SECRET}@h/m#{SECRET}",
    f"redis://h?socket_timeout={SECRET}", f"redis://h?db={SECRET}",
    f"redis://h/{SECRET}", f"redis://u/{SECRET}@h:6379/0", f"unix://u:{SECRET}@/run/s", f"redis://:{SECRET}\n@h",
    f"redis://h:1#{SECRET}:x@", f"unix:///s?password={SECRET}",
]  # fmt: skip
BROKERS = [f"u:{SECRET}@b", f"kafka://u:{SECRET}@b:x", f"SASL://u:{SECRET}@b:9092:"]
SECRETS = ("redis_password", "redis_sentinel_password", "kafka_sasl_password")


@pytest.fixture(autouse=True)
def no_server(monkeypatch):
    """Nothing is reached, nothing is asked of this machine's own settings."""
    for name in list(os.environ):
        if name.startswith("WINDWARD_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_secret_given_as_a_flag_is_not_echoed(command, subtests):
    """Whether the command has that secret or not, and whatever would take the value for its argument."""
    flags = ["--" + name.replace("_", "-") for name in (*SECRETS, "password", "redis_passwort", "ledger_password")]
    for argv in (*([flag, SECRET] for flag in flags), *([f"{flag}={SECRET}"] for flag in [*flags, "--json"])):
        with subtests.test(" ".join(argv)):
            assert SECRET not in refusal(command, *argv)


@pytest.mark.parametrize("name", ["redis_url", "ledger_url", "windows_url"])
def test_no_part_of_a_wrong_url_is_echoed(name, tmp_path, subtests):
    """By flag, variable or file; what is accepted holds no secret and is named without its options."""
    config, flag = tmp_path / "c.toml", "--" + name.replace("_", "-")
    for url in URLS:
        config.write_text(f"[all]\n{name} = [{url.encode('unicode_escape').decode()!r}]\n")
        by = ([flag, url], {}), ([], {f"WINDWARD_{name.upper()}": url}), (["--config", str(config)], {})
        for argv, environ in by:
            with subtests.test(f"{argv} {environ}"):
                with pytest.raises(SettingsError) as refused:
                    load_settings(LedgerSettings, "x", argv, environ)
                assert SECRET not in str(refused.value)
                assert str(refused.value).startswith(name)
                assert refused.value.__suppress_context__


@pytest.mark.parametrize("brokers", BROKERS)
def test_credentials_among_the_brokers_are_not_echoed(brokers):
    with pytest.raises(SettingsError) as refused:
        load_settings(PipelineSettings, "x", ["--kafka", brokers], {})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_file_that_cannot_be_read_is_not_named(name, tmp_path):
    """The variable is: its value may be the secret itself, given by mistake."""
    bad = tmp_path / SECRET
    bad.write_bytes(b"\xff\xfe")
    for given in (SECRET, f"{SECRET}\0", str(bad), str(tmp_path), f"{SECRET * 400}"):
        with pytest.raises(SettingsError, match=f"^WINDWARD_{name.upper()}_FILE: ") as refused:
            load_settings(PipelineSettings, "x", [], {f"WINDWARD_{name.upper()}_FILE": given})
        assert SECRET not in str(refused.value).replace(str(tmp_path), "")
    with pytest.raises(SettingsError, match="holds more than"):
        load_settings(PipelineSettings, "x", [], {f"WINDWARD_{name.upper()}_FILE": "/dev/zero"})


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("value", [f"['{SECRET}']", f"{{a = '{SECRET}'}}", "7"])
def test_a_secret_of_a_wrong_type_is_not_echoed(name, value, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text(f"[all]\n{name} = {value}\n")
    with pytest.raises(SettingsError, match=f"^{name}: ") as refused:
        load_settings(PipelineSettings, "x", ["--config", str(config)], {})
    assert SECRET not in str(refused.value)


def test_settings_do_not_show_their_secrets():
    settings = PipelineSettings(redis_password=SECRET, kafka_sasl_password=SECRET)
    assert SECRET not in repr(settings)
    assert settings.redis_password == SECRET


def test_every_secret_of_every_command_is_marked():
    for module, _ in COMMANDS.values():
        for kind in vars(importlib.import_module(module)).values():
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                for field in dataclasses.fields(kind):
                    assert ("password" in field.name) == bool(field.metadata.get("secret")), field.name


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_does_not_echo_its_url(url, kind):
    """Refused, or unreachable: the message has host and port, nothing else of the URL."""
    url = url.replace("@h", f"@{NOBODY}").replace("//h", f"//{NOBODY}").replace(f"{NOBODY}/", f"{NOBODY}:1/")
    with pytest.raises((WindwardError, TypeError)) as refused:  # redis-py: no such option
        client = kind(url, timeout_s=0.2, socket_timeout=0.1, socket_connect_timeout=0.1)
        found = client.health()
        if kind is AsyncClient:
            asyncio.run(found)
    code = getattr(refused.value, "code", "INVALID_ARGUMENT")
    assert code in ("INVALID_ARGUMENT", "UNAVAILABLE", "DEADLINE_EXCEEDED")
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.__cause__)


@pytest.mark.parametrize(
    "setting", ["--redis-username", "--prefix", "--timeout", "--log-level", "--no-such", "-x", "x"]
)
def test_an_error_echoes_little_of_what_was_given(setting, capsys):
    given = "y" * 100_000
    argv = [setting, given] if setting.startswith("--") and setting != "--no-such" else [setting + given]
    if setting == "--redis-username":
        argv = ["--redis-url", given]
    with pytest.raises(SettingsError) as refused:
        load_settings(ClientSettings, "x", argv, {})
    assert str(refused.value).count("y") < 220


def test_a_broken_pipe_is_no_traceback(tmp_path):
    """Exit code 141, as a shell reports it, buffered or not, and nothing on stderr of it."""
    lines = (Path(__file__).parents[1] / "docs/examples/samples.jsonl").read_bytes() * 3
    file = tmp_path / "samples.jsonl"
    file.write_bytes(lines)
    commands = [
        ["fold", str(file), "--json"], ["fold", str(file)], ["fleet", "--dry-run", "--machines", "50"], ["--help"],
        ["profiles"], ["place", "--help"],
    ]  # fmt: skip
    for unbuffered, some in (("", commands), ("1", commands[:1])):
        for command in some:
            process = subprocess.Popen(
                [sys.executable, "-m", "ops.cli.main", *command],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            )  # fmt: skip
            process.stdout.close()  # before it writes anything
            _, errors = process.communicate(timeout=60)
            codes = (0, 141) if "place" in command else (141,)  # argparse itself ignores whether its help is read
            assert process.returncode in codes, (command, errors)
            assert b"Traceback" not in errors
            assert b"BrokenPipe" not in errors
