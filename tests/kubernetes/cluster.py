"""A Kubernetes control plane on loopback, of one binary: etcd, kube-apiserver, kube-scheduler, kube-controller-manager.

The binary is that of ``control_plane/``. Nodes are objects only: a pod that is bound to one runs nowhere, and
`tests.kubernetes.processes` says that it runs. All processes end with the block.
"""

import http.client
import json
import os
import ssl
import subprocess
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import yaml

from ops.stack.servers.process import LOOPBACK, LocalProcess, free_port, wait_until

_TOKEN = "of-this-test"
PODS = "/api/v1/namespaces/default/pods"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_SETS = "/apis/apps/v1/namespaces/default/deployments"
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

    def __init__(self, binary, folder):
        self._binary, self._folder = binary, folder
        self._port = free_port()
        self._parts = ExitStack()
        self._named = {}
        self._own = threading.local()
        self._connections = []

    def __enter__(self):
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
            self.apiserver = parts.enter_context(self._part("apiserver", apiserver, self._port))
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_):
        for each in self._named.values():
            each.close()
        self._parts.close()
        for connection in self._connections:
            connection.close()

    @property
    def port(self):
        return self._port

    def control(self):
        """Start the controllers of Deployments, of their ReplicaSets and of disruption budgets."""
        port = free_port()
        flags = {
            "kubeconfig": self.kubeconfig("controllers"), "leader-elect": "false", "bind-address": LOOPBACK,
            "secure-port": port, "controllers": "deployment-controller,replicaset-controller,disruption-controller",
            "kube-api-qps": 500, "kube-api-burst": 500,
        }  # fmt: skip
        part = self._part("controller-manager", flags, port, "/healthz")
        self._named.setdefault("controllers", ExitStack()).enter_context(part)

    def kubeconfig(self, name, account=""):
        """Write the file by which a client is an account, which has its rights; "": one that has all."""
        authority = str(self._folder / "certificates/apiserver.crt")
        cluster = {"server": f"https://{LOOPBACK}:{self._port}", "certificate-authority": authority}
        token = Path(self.flags_of(account)[-1]).read_text() if account else _TOKEN
        told = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }  # fmt: skip
        path = self._folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(told))
        return path

    def kubectl(self, *words, account=""):
        command = [self._binary, "kubectl", *map(str, words)]
        environ = os.environ | {"KUBECONFIG": str(self.kubeconfig("kubectl", account)), "HOME": str(self._folder)}
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    def shell(self, script, folder):
        """Begin a script whose kubectl is this one, as an account that has all rights."""
        tools = self._folder / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "kubectl").write_text(f'#!/bin/sh\nexec {self._binary} kubectl "$@"\n')
        (tools / "kubectl").chmod(0o755)
        environ = os.environ | {"KUBECONFIG": str(self.kubeconfig("shell")), "HOME": str(self._folder)}
        environ["PATH"] = f"{tools}:{environ['PATH']}"
        return subprocess.Popen(
            ["bash", "-euc", script], cwd=folder, env=environ, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def schedule(
        self, profiles, extenders = (), name = "scheduler",
        account = "", election = None
    ):  # fmt: skip
        """Start a scheduler with these profiles and extenders, in place of one of this name that runs.

        ``account``: the service account whose rights it has; "": all. ``election``: of the one that leads.
        """
        parts = self._named.setdefault(name, ExitStack())
        parts.close()
        kubeconfig = str(self.kubeconfig(name, account))
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": election or {"leaderElect": False}, "percentageOfNodesToScore": 100, "profiles": profiles,
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
            "extenders": list(extenders),
        }  # fmt: skip
        (self._folder / f"{name}.json").write_text(json.dumps(configuration))
        port = free_port()
        flags = {"config": self._folder / f"{name}.json", "bind-address": LOOPBACK, "secure-port": port}
        parts.enter_context(self._part("scheduler", flags, port, log=name))

    def unschedule(self, name):
        self._named[name].close()

    def make_node(self, name, *, cpu, memory, labels):
        room = {"cpu": cpu, "memory": memory, "pods": "110"}
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
        self.call("POST", "/api/v1/nodes", node)

    def make_pod(self, name, requests, limits, **spec):
        container = {"name": "c", "image": "none", "resources": {"requests": requests, "limits": limits}}
        whole = {"containers": [container], "automountServiceAccountToken": False, **spec}
        self.make_owned(name, "", whole)

    def make_owned(self, name, owner, spec):
        """Make a pod as the controller of a StatefulSet makes it: with its labels; of nobody where it has no name."""
        metadata = {"name": name}
        if owner:
            about = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": owner, "controller": True}
            metadata |= {"ownerReferences": [about], "labels": {"app": owner}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.call("POST", PODS, pod)

    def make_set(self, name, replicas, spec):
        """Have a Deployment make pods, and make them again."""
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        want = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": want}
        self.call("POST", _SETS, made)

    def pods_of(self, owner):
        """Return the node of each pod of an owner that is not being deleted, by its name; "": not bound."""
        found = self.call("GET", f"{PODS}?labelSelector=app%3D{owner}")["items"]
        return {
            one["metadata"]["name"]: one["spec"].get("nodeName", "")
            for one in found
            if "deletionTimestamp" not in one["metadata"]
        }

    def make_budget(self, owner, least, name=""):
        """Let an owner never have fewer pods than these."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": owner}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name or owner}}
        self.call("POST", _BUDGETS, budget | {"spec": spec})

    def delete_budget(self, name):
        self.call("DELETE", f"{_BUDGETS}/{name}")

    def allowed(self, budget):
        """Return how many evictions a budget allows now, as its controller has said; -1: it has not looked yet."""
        status = self.call("GET", f"{_BUDGETS}/{budget}")["status"]
        return int(status["disruptionsAllowed"]) if status.get("observedGeneration") else -1

    def node_of(self, pod):
        def node():
            found = self.call("GET", f"{PODS}/{pod}")["spec"].get("nodeName", "")
            return str(found)

        wait_until(lambda: bool(node()), 60, f"pod {pod} is bound")
        return node()

    def set_phase(self, pod, phase):
        """Let a pod run, or end, as its kubelet would say."""
        self.call("PATCH", f"{PODS}/{pod}/status", {"status": {"phase": phase}})

    def resize_pod(self, pod, requests):
        """Give the container of a pod other requests."""
        container = {"name": "c", "resources": {"requests": requests}}
        self.call("PATCH", f"{PODS}/{pod}/resize", {"spec": {"containers": [container]}})

    def cordon(self, node):
        self.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})

    def empty(self):
        self.call("DELETE", f"{PODS}?gracePeriodSeconds=0")

    def delete_pod(self, pod):
        """Delete a pod at once: there is no kubelet to wait for."""
        self.call("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0")

    def uid_of(self, pod):
        return str(self.call("GET", f"{PODS}/{pod}")["metadata"]["uid"])

    def is_ending(self, pod):
        return "deletionTimestamp" in self.call("GET", f"{PODS}/{pod}")["metadata"]

    def running(self):
        """Return node and cores, as they are written, of the bound pods that have not ended, by uid."""
        return {
            one["metadata"]["uid"]: (
                one["spec"]["nodeName"], one["spec"]["containers"][0]["resources"]["requests"]["cpu"],
            )
            for one in self.call("GET", PODS)["items"]
            if "nodeName" in one["spec"] and one["status"]["phase"] not in ("Succeeded", "Failed")
        }  # fmt: skip

    def waiting(self):
        """Return what the scheduler has said last of each pod that is not bound, by name; "": nothing yet."""
        return {
            one["metadata"]["name"]: " ".join(each.get("message", "") for each in one["status"].get("conditions", ()))
            for one in self.call("GET", f"{PODS}?fieldSelector=spec.nodeName%3D")["items"]
        }

    def apply(self, *manifests):
        """Make the namespace of manifests, and all that is in them; validated strictly."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
        self.call("POST", "/api/v1/namespaces", namespace)
        for manifest in manifests:
            for each in yaml.safe_load_all(manifest.read_text()):
                self.call("POST", f"{_path(each)}?fieldValidation=Strict", each)

    def rights(self, account, namespace):
        """Return what an account of ours may do in a namespace, as the server tells it: resource and verb."""
        asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
        asked["spec"] = {"namespace": namespace}
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{_NAMESPACE}", "system:authenticated")
        as_it = [("Impersonate-User", f"system:serviceaccount:{_NAMESPACE}:{account}")]
        as_it += [("Impersonate-Group", each) for each in groups]
        status, text = self.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", asked, as_it)
        assert status < 300, text
        return {
            f"{resource}{group and f'.{group}'}{name and f'/{name}'} {verb}"
            for rule in json.loads(text)["status"]["resourceRules"]
            for resource in rule["resources"] for group in rule["apiGroups"]
            for name in rule.get("resourceNames", [""]) for verb in rule["verbs"]
        }  # fmt: skip

    def flags_of(self, account):
        """Return the flags by which a process is a service account, which has a token of its own."""
        token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/{account}/token"
        (self._folder / account).write_text(self.call("POST", path, token)["status"]["token"])
        authority = str(self._folder / "certificates/apiserver.crt")
        where = ["--api-url", f"https://{LOOPBACK}:{self._port}", "--api-ca-file", authority]
        return [*where, "--token-file", str(self._folder / account)]

    def watch(self, path):
        """Yield the objects of a list as ADDED, then what changes, until the server ends it."""
        seen = self.call("GET", path)
        yield from ({"type": "ADDED", "object": one} for one in seen["items"])
        asked = f"{path}?watch=1&timeoutSeconds=600&resourceVersion={seen['metadata']['resourceVersion']}"
        with closing(self._connect()) as connection:
            connection.request("GET", asked, headers={"Authorization": f"Bearer {_TOKEN}"})
            answer = connection.getresponse()
            while line := answer.readline():
                yield json.loads(line)

    def call(self, method, path, body=None):
        status, text = self.ask(method, path, body)
        assert status < 300, (method, path, text)
        return json.loads(text)

    def ask(self, method, path, body=None, more=()):
        """Ask the API server, by a connection of this thread; return its status and what it says."""
        form = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": form}
        text = b"" if body is None else json.dumps(body).encode()
        for again in (True, False):
            connection = self._own.__dict__.setdefault("connection", None) or self._connect()
            self._own.connection = connection
            try:
                connection.putrequest(method, path)
                for header in (*headers.items(), ("Content-Length", str(len(text))), *more):
                    connection.putheader(*header)
                connection.endheaders(text)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                self._own.connection = None
                if not again:
                    raise
        raise AssertionError

    def _connect(self):
        connection = http.client.HTTPSConnection(LOOPBACK, self._port, context=_UNVERIFIED, timeout=60)
        self._connections.append(connection)
        return connection

    def _part(self, name, flags, port=0, page="/readyz", log=""):
        command = [self._binary, name, *(f"--{flag}={value}" for flag, value in flags.items())]
        ready = (lambda: self._is_ready(port, page)) if port else (lambda: True)
        return LocalProcess(name, command, log=self._folder / f"{log or name}.log", ready=ready, ready_deadline_s=120)

    @staticmethod
    def _is_ready(port, page):
        connection = http.client.HTTPSConnection(LOOPBACK, port, context=_UNVERIFIED, timeout=5)
        with closing(connection):
            try:
                connection.request("GET", page, headers={"Authorization": f"Bearer {_TOKEN}"})
                return connection.getresponse().status == 200
            except OSError:
                return False


def _path(one):
    namespace = one["metadata"].get("namespace", _NAMESPACE)
    return _PATHS[one["kind"]].replace(f"namespaces/{_NAMESPACE}", f"namespaces/{namespace}")
