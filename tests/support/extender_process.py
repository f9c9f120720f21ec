"""An extender as a process, and the questions of a scheduler."""

import http.client
import json
import sys
from contextlib import closing, contextmanager

from ops.stack.servers.process import LOOPBACK, LocalProcess, free_port
from ops.stack.stack import listens


@contextmanager
def extender(url, names, *flags, log=None):
    """Run an extender; yields the process, the port of its verbs and the address of its pages."""
    port, pages = free_port(), free_port()
    command = [sys.executable, "-P", "-m", "ops.cli.main", "extender", "--redis-url", url, "--prefix", names.prefix]
    command += ["--kubernetes", "east", "--listen-port", str(port), "--metrics-port", str(pages), "--refresh", "0.1"]
    command += flags
    with LocalProcess("extender", command, log=log, ready=lambda: listens(port) and listens(pages)) as process:
        yield process, port, f"http://{LOOPBACK}:{pages}"


def pod(uid, cpu="1", scheduler="windward"):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    about = {"name": f"pod-{uid}", "namespace": "shop", "uid": uid, "resourceVersion": "1"}
    spec = {"containers": [container], "schedulerName": scheduler}
    return {"metadata": about, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def ask(port, verb, body, timeout_s=30.0):
    with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=timeout_s)) as connection:
        connection.request("POST", f"/{verb}", body if isinstance(body, bytes) else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if answer.status == http.client.OK else text


def order(port, nodes, uid="u", **more):
    """Return the nodes that have a score, best first."""
    status, scores = ask(port, "prioritize", {"Pod": pod(uid, **more), "NodeNames": list(nodes)})
    assert status == http.client.OK
    return [one["Host"] for one in scores]
