"""The page for a cluster's operator, walked through: from nothing to the first pod placed by load.

The commands are run as they are written, against a real API server. What kubelets would start is started here, as the
manifests say: by their arguments, variables, Secrets and configuration. The binary is named by
WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where it is not.
"""

from __future__ import annotations

import base64
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from ops.stack.servers.process import LOOPBACK, LocalProcess, free_port
from ops.stack.servers.valkey import LocalValkey
from ops.stack.stack import listens
from schemas.names import Names
from tests.integration.test_exporter import get
from tests.integration.test_rpc import eventually
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kubelet import Kubelets
from tests.kubernetes.processes import CORES, MANIFESTS, MEMORY_GIB, agents, value
from tests.kubernetes.service import Service
from tests.kubernetes.test_trimaran import BINARY
from tests.ops.code_blocks import SHELL

pytestmark = test_trimaran.pytestmark

OBJECTS = "/api/v1/namespaces/windward"
DEPLOYMENTS = "/apis/apps/v1/namespaces/windward/deployments"
LOAD = {f"n{number}": share for number, share in enumerate((0.7, 0.6, 0.05, 0.8))}
PASSWORD = "of-this-test"


class Node:
    """Starts what the pods of a Deployment are, with the files of their Secrets."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder

    def secret(self, name: str) -> Path:
        """Write a Secret's files; return their folder."""
        folder = self._folder / "secrets" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in self._cluster.call("GET", f"{OBJECTS}/secrets/{name}")["data"].items():
            (folder / file).write_bytes(base64.b64decode(text))
        return folder

    def process(self, name: str, *flags: str, port: int) -> LocalProcess:
        """Return the process of a Deployment, which serves its pages at a port; flags are of what differs here."""
        spec = self._cluster.call("GET", f"{DEPLOYMENTS}/{name}")["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        environ = dict(self._cluster.call("GET", f"{OBJECTS}/configmaps/windward")["data"])
        secrets = {one["name"]: one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
        mounts = {one["mountPath"]: secrets.get(one["name"]) for one in container["volumeMounts"]}
        for one in container["env"]:
            path, _, file = one["value"].rpartition("/")
            environ[one["name"]] = f"{self.secret(mounts[path])}/{file}" if path else one["value"]
        command = [sys.executable, "-P", "-m", "ops.cli.main", *container["args"], "--metrics-port", str(port), *flags]
        return LocalProcess(name, command, environ=environ | {"PATH": "/usr/bin:/bin"}, ready=lambda: listens(port))


def test_the_first_pod_goes_by_load(tmp_path: Path) -> None:
    """By the commands of the page, to the node with the least load."""
    (script, *_) = (block.code for block in SHELL if block.page == "docs/kubernetes.md")
    tree = tmp_path / "tree"
    shutil.copytree(MANIFESTS, tree / "ops/kubernetes")
    (tree / "password").write_text(PASSWORD)
    with ExitStack() as parts:
        valkey = parts.enter_context(LocalValkey(directory=tmp_path / "valkey", password=PASSWORD))
        settings = tree / "ops/kubernetes/settings.yaml"
        settings.write_text(settings.read_text().replace("redis://redis.redis.svc:6379/0", valkey.url))
        parts.enter_context(agents(valkey.url.replace("//", f"//:{PASSWORD}@"), Names(), lambda: LOAD))
        cluster = parts.enter_context(Cluster(BINARY, tmp_path))
        parts.enter_context(Kubelets(cluster))
        for node in LOAD:
            cluster.make_node(node, cpu=str(CORES), memory=f"{MEMORY_GIB}Gi", labels={})
        cluster.schedule([{"schedulerName": "default-scheduler"}])
        cluster.control()
        typed = cluster.shell(script, tree)
        parts.callback(typed.kill)
        eventually(lambda: typed.poll() is not None or _replicas(cluster, "windward-extender") == 2)
        assert typed.poll() is None, typed.communicate()
        node, api = Node(cluster, tmp_path), cluster.flags_of("windward-pods")
        ports = [free_port() for _ in range(4)]
        for verbs, port in (ports[:2], ports[2:]):
            listen = ["--listen-port", str(verbs), "--listen-host", LOOPBACK]
            parts.enter_context(node.process("windward-extender", *listen, port=port))
        pods = free_port()
        parts.enter_context(node.process("windward-pods", *api, port=pods))
        for port in ports[1::2]:
            eventually(lambda port=port: get(f"http://{LOOPBACK}:{port}/ready")[0] == 200)
        service = parts.enter_context(Service(ports[::2]))
        asked = yaml.safe_load(cluster.call("GET", f"{OBJECTS}/configmaps/windward-scheduler")["data"]["config.yaml"])
        cluster.schedule(
            asked["profiles"], [_here(asked["extenders"][0], service.port, node.secret("windward-scheduler"))],
            name="second", account="windward-scheduler", election=asked["leaderElection"],
        )  # fmt: skip
        said, errors = typed.communicate(timeout=120)
        assert typed.returncode == 0, errors
        assert said.rstrip().endswith("n2"), said
        pages = [f"http://{LOOPBACK}:{port}" for port in ports[1::2]]
        assert sum(value(page, "windward_extender_answers_total", result="answered") for page in pages) >= 1
        eventually(lambda: value(f"http://{LOOPBACK}:{pods}", "windward_pods_changes_total", change="confirmed") >= 1)


def _replicas(cluster: Cluster, name: str) -> int:
    status, _ = cluster.ask("GET", f"{DEPLOYMENTS}/{name}")
    return 0 if status >= 300 else int(cluster.call("GET", f"{DEPLOYMENTS}/{name}")["spec"]["replicas"])


def _here(entry: dict[str, Any], port: int, files: Path) -> dict[str, Any]:
    """Return the extender's entry with its address here; it is still known by the name that it has in the cluster."""
    name = entry["urlPrefix"].removeprefix("https://").rpartition(":")[0]
    tls = {part: str(files / Path(file).name) for part, file in entry["tlsConfig"].items()}
    return entry | {"urlPrefix": f"https://{LOOPBACK}:{port}", "tlsConfig": tls | {"serverName": name}}
