"""The page for a cluster's operator, walked through: from nothing to the first pod placed by load.

The commands are run as they are written, against a real API server. What kubelets would start is started here, as the
manifests say: by their arguments, variables, Secrets and configuration. Only the agents are a simulated fleet, which
publishes to the same broker. The binary is named by WINDWARD_TEST_CONTROL_PLANE; `make test-kubernetes` builds it where
it is not.
"""

import base64
import json
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import yaml

from ops.stack.servers.local import LocalBroker, LocalValkey
from ops.stack.servers.process import LOOPBACK, LocalProcess, free_port
from ops.stack.stack import listens
from tests.integration.observe.test_exporter import get
from tests.kubernetes import test_trimaran
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import CORES, MANIFESTS, MEMORY_GIB, Kubelets, make_nodes, value
from tests.kubernetes.service import Service
from tests.kubernetes.test_trimaran import BINARY
from tests.ops.code_blocks import SHELL
from tests.support.pages import eventually

pytestmark = test_trimaran.pytestmark

OBJECTS = "/api/v1/namespaces/windward"
DEPLOYMENTS = "/apis/apps/v1/namespaces/windward/deployments"
LOAD_PERCENT = {"n0": 70, "n1": 60, "n2": 5, "n3": 80}
PASSWORD = "of-this-test"
WINDWARD = (sys.executable, "-P", "-m", "ops.cli.main")


class Node:
    """Starts what the pods of a Deployment are, with the files of their Secrets."""

    def __init__(self, cluster, folder):
        self._cluster, self._folder = cluster, folder

    def secret(self, name):
        """Write a Secret's files; return their folder."""
        folder = self._folder / "secrets" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in self._cluster.call("GET", f"{OBJECTS}/secrets/{name}")["data"].items():
            (folder / file).write_bytes(base64.b64decode(text))
        return folder

    def process(self, name, *flags, port):
        """Return the process of a Deployment, which serves its pages at a port; flags are of what differs here."""
        spec = self._cluster.call("GET", f"{DEPLOYMENTS}/{name}")["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        environ = dict(self._cluster.call("GET", f"{OBJECTS}/configmaps/windward")["data"])
        secrets = {one["name"]: one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
        mounts = {one["mountPath"]: secrets.get(one["name"]) for one in container["volumeMounts"]}
        for one in container["env"]:
            path, _, file = one["value"].rpartition("/")
            environ[one["name"]] = f"{self.secret(mounts[path])}/{file}" if path else one["value"]
        command = [*WINDWARD, *container["args"], "--metrics-port", str(port), *flags]
        return LocalProcess(name, command, environ=environ | {"PATH": "/usr/bin:/bin"}, ready=lambda: listens(port))


def fleet(kafka, folder):
    """Return the agents of the nodes, whose load stays as it is, with five minutes of their past."""
    percent = np.repeat(np.array(list(LOAD_PERCENT.values()), dtype=float)[:, None], 12, axis=1)
    found = {"machine": list(LOAD_PERCENT), "ts": np.arange(12.0) * 300, "cpu_pct": percent, "mem_pct": percent}
    np.savez(folder / "load.npz", **found, rx_kbps=percent, tx_kbps=percent)
    command = [*WINDWARD, "fleet", "--kafka", kafka, "--recording", str(folder / "load.npz"), "--backfill-s", "5m"]
    return LocalProcess("fleet", [*command, "--cores", str(CORES), "--memory", f"{MEMORY_GIB}Gi"])


def test_the_first_pod_goes_by_load(tmp_path):
    (script, *_) = (block.code for block in SHELL if block.page == "docs/kubernetes.md")
    tree = tmp_path / "tree"
    shutil.copytree(MANIFESTS, tree / "ops/kubernetes")
    (tree / "password").write_text(PASSWORD)
    with ExitStack() as parts:
        valkey = parts.enter_context(LocalValkey(directory=tmp_path / "valkey", password=PASSWORD))
        broker = parts.enter_context(LocalBroker())
        settings = tree / "ops/kubernetes/settings.yaml"
        text = settings.read_text().replace("redis://redis.redis.svc:6379/0", valkey.url)
        settings.write_text(text.replace("kafka.kafka.svc:9092", broker.address))
        cluster = parts.enter_context(Cluster(BINARY, tmp_path))
        parts.enter_context(Kubelets(cluster))
        make_nodes(cluster, LOAD_PERCENT, **{"kubernetes.io/os": "linux"})  # as every kubelet says
        cluster.schedule([{"schedulerName": "default-scheduler"}])
        cluster.control()
        typed = cluster.shell(script, tree)
        parts.callback(typed.kill)
        eventually(lambda: typed.poll() is not None or _replicas(cluster, "windward-extender") == 2)
        assert typed.poll() is None, typed.communicate()
        node, api = Node(cluster, tmp_path), cluster.flags_of("windward-pods")
        parts.enter_context(node.process("windward-stream", port=free_port()))
        parts.enter_context(fleet(broker.address, tmp_path))
        ports = [free_port() for _ in range(4)]
        for verbs, port in (ports[:2], ports[2:]):
            listen = ["--listen-port", str(verbs), "--listen-host", LOOPBACK]
            parts.enter_context(node.process("windward-extender", *listen, port=port))
        pods = free_port()
        parts.enter_context(node.process("windward-pods", *api, port=pods))
        for port in ports[1::2]:
            eventually(lambda port=port: _says(port).items() >= {"machines": len(LOAD_PERCENT)}.items())
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


def _says(port):
    """Return what the page /ready says; nothing while the process is not ready."""
    status, _, text = get(f"http://{LOOPBACK}:{port}/ready")
    return json.loads(text) if status == 200 else {}


def _replicas(cluster, name):
    status, _ = cluster.ask("GET", f"{DEPLOYMENTS}/{name}")
    return 0 if status >= 300 else int(cluster.call("GET", f"{DEPLOYMENTS}/{name}")["spec"]["replicas"])


def _here(entry, port, files):
    """Return the extender's entry with its address here; it is still known by the name that it has in the cluster."""
    name = entry["urlPrefix"].removeprefix("https://").rpartition(":")[0]
    tls = {part: str(files / Path(file).name) for part, file in entry["tlsConfig"].items()}
    return entry | {"urlPrefix": f"https://{LOOPBACK}:{port}", "tlsConfig": tls | {"serverName": name}}
