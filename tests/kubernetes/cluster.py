"""A Kubernetes control plane on loopback: etcd, kube-apiserver and kube-scheduler, of one binary (``control_plane/``).

Nodes are objects only: a pod that is bound to one runs nowhere. All processes end with the block.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

import yaml

from ops.stack.servers.process import LOOPBACK, LocalProcess, free_port, wait_until

_TOKEN = "of-this-test"
_PODS = "/api/v1/namespaces/default/pods"
_NAMESPACE = "windward"
_RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": f"/api/v1/namespaces/{_NAMESPACE}/configmaps",
    "DaemonSet": f"/apis/apps/v1/namespaces/{_NAMESPACE}/daemonsets",
    "StatefulSet": f"/apis/apps/v1/namespaces/{_NAMESPACE}/statefulsets",
    "Deployment": f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{_NAMESPACE}/poddisruptionbudgets",
    "Service": f"/api/v1/namespaces/{_NAMESPACE}/services",
    "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{_NAMESPACE}/networkpolicies",
    "ServiceAccount": f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts",
    "ClusterRole": f"{_RIGHTS}/clusterroles",
    "Role": f"{_RIGHTS}/namespaces/{_NAMESPACE}/roles",
    "RoleBinding": f"{_RIGHTS}/namespaces/{_NAMESPACE}/rolebindings",
    "ClusterRoleBinding": f"{_RIGHTS}/clusterrolebindings",
}
_UNVERIFIED = ssl._create_unverified_context()


class Cluster:
    """Starts the parts, makes nodes and pods, and says where pods are."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary, self._folder = binary, folder
        self._port = free_port()
        self._parts = ExitStack()
        self._schedulers: dict[str, ExitStack] = {}

    def __enter__(self) -> Self:
        client, peer = (f"http://{LOOPBACK}:{free_port()}" for _ in range(2))
        key = self._folder / "key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (self._folder / "tokens").write_text(f"{_TOKEN},admin,1,system:masters\n")
        etcd = {
            "name": "only", "data-dir": self._folder / "etcd", "listen-client-urls": client,
            "advertise-client-urls": client, "listen-peer-urls": peer, "initial-advertise-peer-urls": peer,
            "initial-cluster": f"only={peer}", "unsafe-no-fsync": "true",
        }  # fmt: skip
        apiserver = {
            "etcd-servers": client, "secure-port": self._port, "bind-address": LOOPBACK,
            "cert-dir": self._folder / "certificates", "service-cluster-ip-range": "10.0.0.0/24",
            "service-account-issuer": "https://kubernetes.default.svc", "service-account-key-file": key,
            "service-account-signing-key-file": key, "token-auth-file": self._folder / "tokens",
            "authorization-mode": "RBAC", "endpoint-reconciler-type": "none",
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
        }  # fmt: skip
        with ExitStack() as parts:
            parts.enter_context(self._part("etcd", etcd))
            parts.enter_context(self._part("apiserver", apiserver, self._port))
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._schedulers.values():
            each.close()
        self._parts.close()

    def schedule(
        self, profiles: list[dict[str, Any]], extenders: Sequence[dict[str, Any]] = (), name: str = "scheduler",
        account: str = "", election: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Start a scheduler with these profiles and extenders, in place of one of this name that runs.

        ``account``: the service account whose rights it has; "": all. ``election``: of the one that leads.
        """
        parts = self._schedulers.setdefault(name, ExitStack())
        parts.close()
        authority = str(self._folder / "certificates/apiserver.crt")
        cluster = {"server": f"https://{LOOPBACK}:{self._port}", "certificate-authority": authority}
        token = Path(self.flags_of(account)[-1]).read_text() if account else _TOKEN
        kubeconfig = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }  # fmt: skip
        (self._folder / f"{name}.kubeconfig").write_text(json.dumps(kubeconfig))
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": election or {"leaderElect": False}, "percentageOfNodesToScore": 100, "profiles": profiles,
            "clientConnection": {"kubeconfig": str(self._folder / f"{name}.kubeconfig"), "qps": 5000, "burst": 5000},
            "extenders": list(extenders),
        }  # fmt: skip
        (self._folder / f"{name}.json").write_text(json.dumps(configuration))
        port = free_port()
        flags = {"config": self._folder / f"{name}.json", "bind-address": LOOPBACK, "secure-port": port}
        parts.enter_context(self._part("scheduler", flags, port))

    def make_node(self, name: str, *, cpu: str, memory: str, labels: dict[str, str]) -> None:
        """Make a node that is ready."""
        room = {"cpu": cpu, "memory": memory, "pods": "110"}
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
        self._call("POST", "/api/v1/nodes", node)

    def make_pod(self, name: str, requests: dict[str, str], limits: dict[str, str], **spec: Any) -> None:
        """Make a pod of one container."""
        container = {"name": "c", "image": "none", "resources": {"requests": requests, "limits": limits}}
        whole = {"containers": [container], "automountServiceAccountToken": False, **spec}
        self.make_owned(name, "", whole)

    def make_owned(self, name: str, owner: str, spec: dict[str, Any]) -> None:
        """Make a pod as the controller of a StatefulSet makes it: with its labels; of nobody where it has no name."""
        metadata: dict[str, Any] = {"name": name}
        if owner:
            about = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": owner, "controller": True}
            metadata |= {"ownerReferences": [about], "labels": {"app": owner}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self._call("POST", "/api/v1/namespaces/default/pods", pod)

    def make_budget(self, owner: str, least: int) -> None:
        """Let an owner never have fewer pods than these."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": owner}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": owner}, "spec": spec}
        self._call("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)

    def node_of(self, pod: str) -> str:
        """Return the node of a pod, once it is bound."""

        def node() -> str:
            found = self._call("GET", f"/api/v1/namespaces/default/pods/{pod}")["spec"].get("nodeName", "")
            return str(found)

        wait_until(lambda: bool(node()), 60, f"pod {pod} is bound")
        return node()

    def set_phase(self, pod: str, phase: str) -> None:
        """Let a pod run, or end, as its kubelet would say."""
        self._call("PATCH", f"{_PODS}/{pod}/status", {"status": {"phase": phase}})

    def resize_pod(self, pod: str, requests: dict[str, str]) -> None:
        """Give the container of a pod other requests."""
        container = {"name": "c", "resources": {"requests": requests}}
        self._call("PATCH", f"{_PODS}/{pod}/resize", {"spec": {"containers": [container]}})

    def cordon(self, node: str) -> None:
        """Let no new pod onto a node."""
        self._call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})

    def delete_pod(self, pod: str) -> None:
        """Delete a pod at once: there is no kubelet to wait for."""
        self._call("DELETE", f"{_PODS}/{pod}?gracePeriodSeconds=0")

    def uid_of(self, pod: str) -> str:
        """Return the uid of a pod."""
        return str(self._call("GET", f"{_PODS}/{pod}")["metadata"]["uid"])

    def is_ending(self, pod: str) -> bool:
        """Return whether a pod is being deleted."""
        return "deletionTimestamp" in self._call("GET", f"{_PODS}/{pod}")["metadata"]

    def running(self) -> dict[str, tuple[str, str]]:
        """Return node and cores, as they are written, of the bound pods that have not ended, by uid."""
        return {
            one["metadata"]["uid"]: (
                one["spec"]["nodeName"], one["spec"]["containers"][0]["resources"]["requests"]["cpu"],
            )
            for one in self._call("GET", _PODS)["items"]
            if "nodeName" in one["spec"] and one["status"]["phase"] not in ("Succeeded", "Failed")
        }  # fmt: skip

    def apply(self, *manifests: Path) -> None:
        """Make the namespace of manifests, and all that is in them; validated strictly."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
        self._call("POST", "/api/v1/namespaces", namespace)
        for manifest in manifests:
            for each in yaml.safe_load_all(manifest.read_text()):
                self._call("POST", f"{_path(each)}?fieldValidation=Strict", each)

    def try_to_make(self, one: dict[str, Any]) -> None:
        """Have the server check an object, validated strictly, and keep nothing."""
        self._call("POST", f"{_path(one)}?fieldValidation=Strict&dryRun=All", one)

    def flags_of(self, account: str) -> list[str]:
        """Return the flags by which a process is a service account, which has a token of its own."""
        token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/{account}/token"
        (self._folder / account).write_text(self._call("POST", path, token)["status"]["token"])
        authority = str(self._folder / "certificates/apiserver.crt")
        where = ["--api-url", f"https://{LOOPBACK}:{self._port}", "--api-ca-file", authority]
        return [*where, "--token-file", str(self._folder / account)]

    def _part(self, name: str, flags: dict[str, Any], port: int = 0) -> LocalProcess:
        command = [self._binary, name, *(f"--{flag}={value}" for flag, value in flags.items())]
        log = self._folder / f"{name}.log"
        ready = (lambda: self._is_ready(port)) if port else (lambda: True)
        return LocalProcess(name, command, log=log, ready=ready, ready_deadline_s=120)

    @staticmethod
    def _is_ready(port: int) -> bool:
        connection = http.client.HTTPSConnection(LOOPBACK, port, context=_UNVERIFIED, timeout=5)
        with closing(connection):
            try:
                connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {_TOKEN}"})
                return connection.getresponse().status == 200
            except OSError:
                return False

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        form = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": form}
        with closing(http.client.HTTPSConnection(LOOPBACK, self._port, context=_UNVERIFIED, timeout=30)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        assert answer.status < 300, (method, path, text)
        return json.loads(text)


def _path(one: dict[str, Any]) -> str:
    """Return where objects like this one are."""
    namespace = one["metadata"].get("namespace", _NAMESPACE)
    return _PATHS[one["kind"]].replace(f"namespaces/{_NAMESPACE}", f"namespaces/{namespace}")
