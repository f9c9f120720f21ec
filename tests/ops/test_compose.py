"""docker-compose.yml, the Dockerfile and the Redis files hold together, checked by what this machine has."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from ops.cli import COMMANDS
from ops.local.process import LOOPBACK, LocalProcess, exchange, free_port
from ops.local.valkey import valkey_binary
from schemas.settings import load_settings
from scorer.settings import ScorerSettings
from streams.agent.settings import AgentSettings
from streams.settings import StreamSettings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SETTINGS = {"stream": StreamSettings, "scorer": ScorerSettings, "agent": AgentSettings}
FIXED = re.compile(r"[\w./-]+:\d+\.\d+\.\d+[\w.-]*")


def test_the_stack_is_complete() -> None:
    """Broker, Redis, two stream workers, two scorers, an agent."""
    assert set(SERVICES) == {"kafka", "redis", "stream", "scorer", "agent"}
    assert [SERVICES[name]["deploy"]["replicas"] for name in ("stream", "scorer")] == [2, 2]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_fixed_image_and_says_whether_it_is_healthy(name: str) -> None:
    """No tag moves, and nobody starts before what it needs is healthy."""
    service = SERVICES[name]
    assert FIXED.fullmatch(service["image"])
    assert {"test", "interval", "timeout", "retries", "start_period"} <= service["healthcheck"].keys()
    for other, how in service.get("depends_on", {}).items():
        assert other in SERVICES
        assert how == {"condition": "service_healthy"}


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_published_beyond_the_host(name: str) -> None:
    """Ports are bound to loopback."""
    for port in SERVICES[name].get("ports", ()):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_with_a_password_can_be_given_it(name: str) -> None:
    """Compose refuses to start a read-only service with a secret that does not come from a file of the host."""
    assert not (SERVICES[name].get("read_only") and SERVICES[name].get("secrets"))


@pytest.mark.parametrize("name", SETTINGS)
def test_our_processes_accept_their_settings(name: str, tmp_path: Path) -> None:
    """The command exists and its settings are read from the service's own environment, password file and all."""
    service = SERVICES[name]
    command, *flags = service["command"]
    assert importlib.import_module(COMMANDS[command][0]).main
    secret = tmp_path / "password"
    secret.write_text("hidden\n")
    environ = {key: str(value) for key, value in service["environment"].items()}
    uses_redis = "WINDWARD_REDIS_PASSWORD_FILE" in environ
    if uses_redis:
        assert environ["WINDWARD_REDIS_PASSWORD_FILE"] == "/run/secrets/redis_password"
        assert service["secrets"] == ["redis_password"]
        environ["WINDWARD_REDIS_PASSWORD_FILE"] = str(secret)
    settings = load_settings(SETTINGS[name], command, flags, environ)
    assert settings.metrics_port in (9464, 9465)
    assert getattr(settings, "redis_password", None) == ("hidden" if uses_redis else None)


def test_no_secret_is_written_in_the_file() -> None:
    """Passwords come from the environment of whoever starts the stack."""
    assert COMPOSE["secrets"] == {"redis_password": {"environment": "WINDWARD_REDIS_PASSWORD"}}
    for service in SERVICES.values():
        assert (
            not [key for key in service["environment"] if key.endswith("PASSWORD")]
            if "environment" in service
            else True
        )


def test_compose_itself_accepts_the_file() -> None:
    """``docker compose config`` reads it, where that is installed."""
    found = compose_command()
    if not found:
        pytest.skip("no docker compose here")
    done = subprocess.run(
        [*found, "-f", ROOT / "docker-compose.yml", "config", "--quiet"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def compose_command() -> list[str]:
    """Return how docker compose is called here, nothing when it is not installed."""
    if shutil.which("docker"):
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if plugin.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else []


def test_the_image_is_built_from_fixed_tags_and_does_not_run_as_root() -> None:
    """Every stage starts from a fixed tag; the last user is a plain one; what is copied exists."""
    lines = (ROOT / "ops/docker/Dockerfile").read_text().splitlines()
    assert all(FIXED.fullmatch(line.split()[1]) for line in lines if line.startswith("FROM"))
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    copied = [part for line in lines if line.startswith("COPY") for part in line.split()[1:-1]]
    assert copied
    assert all((ROOT / part).exists() for part in copied)
    kept = (ROOT / "ops/docker/Dockerfile.dockerignore").read_text()
    assert all(f"!{part}" in kept for part in copied)


@pytest.mark.integration
@pytest.mark.parametrize(("name", "kept"), [("ledger.conf", True), ("windows.conf", False)])
def test_the_shipped_redis_files_keep_what_they_say(name: str, kept: bool, tmp_path: Path) -> None:
    """The ledger's server has its data after kill -9, the windows' server starts empty, neither evicts.

    The password comes from an included file, as in docker-compose.yml.
    """
    port = free_port()
    password = tmp_path / "password.conf"
    password.write_text('requirepass "from a file"\n')
    command = [str(valkey_binary()), str(ROOT / "ops/redis" / name), "--include", str(password)]
    command += ["--dir", str(tmp_path), "--bind", LOOPBACK, "--port", str(port)]
    server = LocalProcess(
        "redis", command, log=tmp_path / "log", ready=lambda: exchange(port, b"PING\r\n", 64).startswith(b"-NOAUTH")
    )
    with server, redis.Redis(port=port, password="from a file") as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        client.set("confirmed", "yes")
        server.restart()
        assert client.get("confirmed") == (b"yes" if kept else None)
