"""What kube-scheduler 1.34 asks an extender, and what its API server says of pods and nodes: as it was sent.

    WINDWARD_TEST_CONTROL_PLANE=... python -m tests.kubernetes.recorded    # records anew

The files are in ``tests/scorer/kubernetes/recorded/`` and are read there without a control plane.
"""

import json
import os
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from scorer.kubernetes.pods_api import SELECTED
from tests.kubernetes.cluster import PODS, Cluster
from tests.kubernetes.processes import entry, make_nodes
from tests.support.pages import Answering, eventually, serving

FOLDER = Path(__file__).parents[1] / "scorer/kubernetes/recorded"
NODES = ("n0", "n1", "n2")
SECOND = {"name": "side", "image": "none", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}}
ONE = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
SPEC = {"containers": [ONE], "initContainers": [SECOND], "automountServiceAccountToken": False}


class _Listener(ThreadingHTTPServer):
    """An extender that keeps what it is asked, keeps every node and binds no pod."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Call)
        self.asked = {}

    def handle_error(self, *_):
        pass  # the scheduler's connections end with it


class _Call(Answering, BaseHTTPRequestHandler):
    server: _Listener

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verb = self.path.strip("/")
        self.server.asked.setdefault(verb, body)
        answers = {"prioritize": [], "bind": {"Error": "it only listens"}}
        self.answer(200, json.dumps(answers.get(verb) or {"NodeNames": json.loads(body)["NodeNames"]}).encode())


def record(cluster):
    """Return what is sent, by the names of the files."""
    make_nodes(cluster, NODES)
    cluster.cordon("n2")
    cluster.make_owned("db-0", "db", SPEC | {"nodeName": "n0"})
    cluster.make_owned("db-1", "db", SPEC | {"nodeName": "n1"})
    pods, nodes = (cluster.ask("GET", path)[1] for path in (f"{PODS}?fieldSelector={_QUOTED}", "/api/v1/nodes"))
    version = json.loads(pods)["metadata"]["resourceVersion"]
    cluster.set_phase("db-0", "Running")
    cluster.resize_pod("db-0", {"cpu": "700m", "memory": "1Gi"})
    cluster.set_phase("db-1", "Succeeded")
    watch = f"{PODS}?watch=1&timeoutSeconds=2&fieldSelector={_QUOTED}&resourceVersion="
    _, events = cluster.ask("GET", watch + version)
    with serving(_Listener()) as listener:
        cluster.schedule([{"schedulerName": "windward"}], [entry(listener.server_port, "bind")])
        cluster.make_owned("db-2", "db", SPEC | {"schedulerName": "windward"})
        eventually(lambda: listener.asked.keys() == {"filter", "prioritize", "bind"})
    cluster.unschedule("scheduler")
    cluster.apiserver.restart()  # what happened before is not known to it
    _, old = cluster.ask("GET", watch + version)
    asked = {f"{verb}.json": body for verb, body in listener.asked.items()}
    return asked | {"pods.json": pods, "nodes.json": nodes, "watch.jsonl": events, "too-old.jsonl": old}


_QUOTED = SELECTED.replace("!", "%21").replace("=", "%3D").replace(",", "%2C")


def shape(body):
    """Return the keys of a body, each with those above it; times and uids are no keys."""
    return {path for line in body.splitlines() if line for path in _keys(json.loads(line), "")}


def _keys(one, above):
    if isinstance(one, dict):
        for name, inner in one.items():
            yield f"{above}/{name}"
            yield from _keys(inner, f"{above}/{name}")
    for inner in one if isinstance(one, list) else ():
        yield from _keys(inner, above)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, Cluster(os.environ["WINDWARD_TEST_CONTROL_PLANE"], Path(made)) as one:
        FOLDER.mkdir(exist_ok=True)
        for name, text in record(one).items():
            (FOLDER / name).write_bytes(text)
