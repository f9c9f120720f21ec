"""docker-compose.yml, the Dockerfile and the Redis files hold together, checked by what this machine has."""

import importlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import redis
from packaging.requirements import Requirement

from ops.cli.main import COMMANDS
from ops.exporter.settings import ExporterSettings
from ops.record.__main__ import RecordSettings
from ops.stack.servers.local import valkey_binary
from ops.stack.servers.process import LOOPBACK, LocalProcess, exchange, free_port
from schemas.process.settings import load_settings
from scorer.planner.settings import PlannerSettings
from scorer.settings import ScorerSettings
from streams.agent.settings import AgentSettings
from streams.worker.settings import StreamSettings
from tests.ops.test_rules import needs_promtool, promtool
from tests.ops.yaml_files import read_yaml

ROOT = Path(__file__).parents[2]
COMPOSE = read_yaml((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
SETTINGS = {
    "stream": StreamSettings, "scorer": ScorerSettings, "agent": AgentSettings, "exporter": ExporterSettings,
    "planner": PlannerSettings, "record": RecordSettings,
}  # fmt: skip
PROMETHEUS = read_yaml((ROOT / "ops/prometheus/prometheus.yml").read_text())
FIXED = re.compile(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*")


def test_the_stack_is_complete():
    """Broker, Redis, two stream workers, two scorers, an agent; exporter, Prometheus, Alertmanager and Grafana.

    The recorder only where its profile is named.
    """
    ours, if_wanted = {"stream", "scorer", "planner", "agent", "exporter"}, {"record"}
    assert set(SERVICES) == ours | if_wanted | {"kafka", "redis", "prometheus", "alertmanager", "grafana"}
    assert {name: one["profiles"] for name, one in SERVICES.items() if "profiles" in one} == {
        name: [name] for name in if_wanted
    }
    assert [SERVICES[name]["deploy"]["replicas"] for name in ("stream", "scorer")] == [2, 2]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_fixed_image_and_says_whether_it_is_healthy(name):
    """No tag moves, nobody starts before what it needs is healthy, and nothing is published beyond the host.

    Compose refuses to start a read-only service with a secret that does not come from a file of the host.
    """
    service = SERVICES[name]
    assert FIXED.fullmatch(service["image"])
    assert {"test", "interval", "timeout", "retries", "start_period"} <= service["healthcheck"].keys()
    for other, how in service.get("depends_on", {}).items():
        assert other in SERVICES
        assert how == {"condition": "service_healthy"}
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:")
    assert not (service.get("read_only") and service.get("secrets"))


@pytest.mark.parametrize("name", SETTINGS)
def test_our_processes_accept_their_settings(name, tmp_path):
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


def test_no_secret_is_written_in_the_file():
    """Passwords come from the environment of whoever starts the stack."""
    assert COMPOSE["secrets"] == {
        f"{name}_password": {"environment": f"WINDWARD_{name.upper()}_PASSWORD"} for name in ("redis", "grafana")
    }
    for service in SERVICES.values():
        assert not [key for key in service.get("environment", ()) if key.endswith("PASSWORD")]


@pytest.mark.parametrize("name", SERVICES)
def test_files_of_the_tree_that_a_service_mounts_are_there(name):
    """A path that is missing would be made as an empty folder by Docker; volumes without a path are declared."""
    for volume in SERVICES[name].get("volumes", ()):
        source = volume.partition(":")[0]
        if source.startswith("."):
            assert (ROOT / source).exists(), volume
            assert volume.endswith(":ro")
        elif source.startswith("/"):
            assert volume == "/etc/machine-id:/etc/machine-id:ro", (
                "every Linux host has that file, and no other is promised"
            )
        else:
            assert source in COMPOSE["volumes"]


def test_grafana_finds_what_it_is_given():
    """Its data source is our Prometheus, its folder of dashboards is where ours are mounted, both read-only there."""
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    assert mounts["./ops/grafana/provisioning"] == "/etc/grafana/provisioning"
    folder = ROOT / "ops/grafana/provisioning"
    sources = read_yaml((folder / "datasources/windward.yml").read_text())
    assert sources["apiVersion"] == 1
    (source,) = sources["datasources"]
    known = {"name", "uid", "type", "access", "url", "isDefault", "editable", "jsonData"}
    assert source.keys() == known
    assert (source["type"], source["access"], source["url"]) == ("prometheus", "proxy", "http://prometheus:9090")
    assert source["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]
    boards = read_yaml((folder / "dashboards/windward.yml").read_text())
    (provider,) = boards["providers"]
    assert (boards["apiVersion"], provider["type"], provider["allowUiUpdates"]) == (1, "file", False)
    assert provider["options"]["path"] == mounts["./ops/grafana/dashboards"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith(provider["options"]["path"])
    assert (ROOT / "ops/grafana/dashboards" / Path(home).name).exists()


def test_prometheus_scrapes_every_process_and_reads_the_rules():
    """Each of our services is a target by its job and port; the rules are mounted where they are looked for."""
    jobs = {job["job_name"]: job for job in PROMETHEUS["scrape_configs"]}
    assert set(jobs) == {f"windward-{name}" for name in SETTINGS}
    for name in SETTINGS:
        job, port = jobs[f"windward-{name}"], SERVICES[name]["environment"]["WINDWARD_METRICS_PORT"]
        if "dns_sd_configs" in job:
            assert (job["dns_sd_configs"][0]["names"], str(job["dns_sd_configs"][0]["port"])) == ([name], port)
            continue
        assert "profiles" not in SERVICES[name], "a target that is not started would be down"
        ((target,),) = (one["targets"] for one in job["static_configs"])
        assert target == ("host.docker.internal" if name == "agent" else name) + f":{port}"
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["prometheus"]["volumes"])
    assert PROMETHEUS["rule_files"] == [f"{mounts['./ops/prometheus/rules']}/*.yml"]
    assert f"--config.file={mounts['./ops/prometheus/prometheus.yml']}" in SERVICES["prometheus"]["command"]
    assert f"--storage.tsdb.path={mounts['prometheus']}" in SERVICES["prometheus"]["command"]


def test_prometheus_tells_the_alertmanager():
    """At its service's port, with its configuration mounted; the bases of addresses are no labels of alerts."""
    alerting = PROMETHEUS["alerting"]
    ((target,),) = (one["targets"] for manager in alerting["alertmanagers"] for one in manager["static_configs"])
    service = SERVICES["alertmanager"]
    assert target == "alertmanager:" + service["ports"][0].rpartition(":")[2]
    mounts = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert f"--config.file={mounts['./ops/prometheus/alertmanager.yml']}" in service["command"]
    (dropped,) = alerting["alert_relabel_configs"]
    for name in PROMETHEUS["global"]["external_labels"]:
        assert re.fullmatch(dropped["regex"], name)


@needs_promtool
def test_promtool_accepts_the_shipped_configuration():
    """``promtool check config``; the rules are checked where they are."""
    done = promtool("check", "config", "--syntax-only", ROOT / "ops/prometheus/prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_itself_accepts_the_file():
    """``docker compose config`` reads it, where that is installed."""
    found = compose_command()
    if not found:
        pytest.skip("no docker compose here")
    done = subprocess.run(
        [*found, "-f", ROOT / "docker-compose.yml", "config", "--quiet"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def compose_command():
    """Return how docker compose is called here, nothing when it is not installed."""
    if shutil.which("docker"):
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if plugin.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else []


def test_the_image_is_built_from_a_digest_and_does_not_run_as_root():
    """Every stage starts from one digest, beside its tag; the last user is a plain one; what is copied exists."""
    lines = (ROOT / "ops/docker/Dockerfile").read_text().splitlines()
    (base,) = [line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG")]
    tag, _, digest = base.partition("@")
    assert FIXED.fullmatch(tag)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
    assert {line.split()[1] for line in lines if line.startswith("FROM")} == {"${BASE}"}
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    copied = [part for line in lines if line.startswith("COPY") for part in line.split()[1:-1]]
    assert copied
    assert all((ROOT / part).exists() for part in copied)
    kept = (ROOT / "ops/docker/Dockerfile.dockerignore").read_text()
    assert all(any(f"!{one}" in kept for one in (part, part.partition("/")[0])) for part in copied)


def test_the_image_installs_only_what_is_locked_with_hashes():
    """The lock has every dependency of ours, in a version that pyproject.toml allows, and hashes for all it has."""
    text = (ROOT / "ops/docker/requirements.lock").read_text()
    locked = {}
    for entry in re.split(r"\n(?=[a-z0-9])", text.partition("make lock\n")[2]):
        assert "--hash=sha256:" in entry
        name, version = re.match(r"([a-z0-9-]+)==([\w.]+)", entry.replace("[hiredis]", "")).groups()
        locked[name] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in project["dependencies"] + project["optional-dependencies"]["stream"]:
        wanted = Requirement(line)
        if wanted.name in ("windward-agent", "windward-client"):  # the image builds them from the same checkout
            continue
        assert wanted.specifier.contains(locked[wanted.name]), line
    installs = [line for line in (ROOT / "ops/docker/Dockerfile").read_text().splitlines() if "pip install" in line]
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-deps --no-index" in line for line in installs)


@pytest.mark.integration
@pytest.mark.parametrize(("name", "kept"), [("ledger.conf", True), ("windows.conf", False)])
def test_the_shipped_redis_files_keep_what_they_say(name, kept, tmp_path):
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
