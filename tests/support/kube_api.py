"""An API server of pods and nodes in this process: lists in pages, watches with bookmarks, and how both fail."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.support.pages import Answering, serving

GONE = {"kind": "Status", "code": 410, "reason": "Expired"}


class KubeApi(ThreadingHTTPServer):
    """Its pods by uid, and what changed; every change is one version."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Call)
        self.changed = threading.Condition(threading.RLock())
        self.pods = {}
        self.nodes = {}
        self.log = []
        self.version = 100
        self.oldest = 0
        """A watch from an older version is too old."""
        self.gone_as_status = True
        self.away = False
        """Every call gets 503."""
        self.answers = []
        """Given one after the other, with status 200, to who lists pods, before anything else."""
        self.deaf = False
        """Watches stay open and say nothing."""
        self.cuts = 0
        self.watching = self.lists = 0
        self.lists_held = threading.Event()
        """While it is not set, a list waits after its first page."""
        self.lists_held.set()
        self._lists = {}
        self.tokens = set()
        self.refuses = 0
        """The status by which each binding is refused; 0: they are done."""
        self.bindings = []
        self.refuses_evictions = 0
        """The status by which each eviction is refused; 0: they are done."""
        self.evictions = []
        self.evicted_at = []
        """When each of them came."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, uid, node="n1", *, cpu="1", phase="Running", **metadata):
        container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        about = {"name": f"pod-{uid}", "namespace": "shop", "uid": uid} | metadata
        status = {"phase": phase, "startTime": "2026-01-01T00:00:00Z"}
        spec = {"nodeName": node, "containers": [container]}
        self._note(uid, {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": spec, "status": status})

    def delete(self, uid):
        self._note(uid, None)

    def _note(self, uid, new):
        with self.changed:
            self.version += 1
            old = self.pods.pop(uid, None)
            if new is not None:
                new["metadata"]["resourceVersion"] = str(self.version)
                self.pods[uid] = new
            before, now = selected(old), selected(new)
            if before or now:
                kind = "MODIFIED" if before and now else "ADDED" if now else "DELETED"
                body = new if now else {**(old or {}), "metadata": {**(old or {})["metadata"]}}
                body["metadata"]["resourceVersion"] = str(self.version)
                self.log.append((self.version, "pods", kind, body))
            self.changed.notify_all()

    def put_node(self, name, *, cpu="8", allocatable="7500m", **spec):
        status = {"capacity": {"cpu": cpu, "memory": "16Gi"}, "allocatable": {"cpu": allocatable, "memory": "15Gi"}}
        about = {"name": name, "labels": {"zone": "a"}}
        body = {"kind": "Node", "apiVersion": "v1", "metadata": about, "spec": spec, "status": status}
        with self.changed:
            self._note_node("MODIFIED" if name in self.nodes else "ADDED", body)
            self.nodes[name] = body

    def delete_node(self, name):
        with self.changed:
            self._note_node("DELETED", self.nodes.pop(name))

    def _note_node(self, kind, body):
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.log.append((self.version, "nodes", kind, body))
        self.changed.notify_all()

    def running(self):
        """Return what the ledger should have: node and cores by uid."""
        return {
            uid: (pod["spec"]["nodeName"], float(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]))
            for uid, pod in self.pods.items()
            if selected(pod)
        }

    def forget(self):
        """Make every version so far too old to watch from, and end all watches."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
        self.cut()

    def cut(self):
        with self.changed:
            self.cuts += 1
            self.changed.notify_all()

    def page_of_nodes(self):
        with self.changed:
            metadata = {"resourceVersion": str(self.version)}
            return {"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": list(self.nodes.values())}

    def named(self, name):
        with self.changed:
            return next((pod for pod in self.pods.values() if pod["metadata"]["name"] == name), None)

    def bind(self, name, binding):
        """Bind a pod, of the uid that is given; return the status."""
        with self.changed:
            self.bindings.append(binding)
            pod = self.named(name)
            if self.refuses:
                return self.refuses
            if pod is None or pod["metadata"]["uid"] != binding["metadata"]["uid"] or pod["spec"]["nodeName"]:
                return 404 if pod is None else 409
            pod["spec"]["nodeName"] = binding["target"]["name"]
            return 201

    def evict(self, name, eviction):
        """Begin to delete a pod of the uid that is given, unless it is a dry run; return the status."""
        with self.changed:
            self.evictions.append(eviction)
            self.evicted_at.append(time.time())
            pod, options = self.named(name), eviction["deleteOptions"]
            if self.refuses_evictions or pod is None:
                return self.refuses_evictions or 404
            if pod["metadata"]["uid"] != options["preconditions"]["uid"]:
                return 409
            if options.get("dryRun") != ["All"]:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                self._note(pod["metadata"]["uid"], pod)
            return 201

    def page(self, continued, limit):
        """Return a page of the version that its list began with."""
        with self.changed:
            if not continued:
                self.lists += 1
                continued = f"{self.lists}:0"
                self._lists[str(self.lists)] = (self.version, [pod for pod in self.pods.values() if selected(pod)])
        number, _, first = continued.partition(":")
        version, pods = self._lists[number]
        after = int(first) + limit
        metadata = {"resourceVersion": str(version), "continue": f"{number}:{after}" if after < len(pods) else ""}
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": pods[int(first) : after]}


def selected(pod):
    """Return whether a pod is bound and has not ended."""
    return bool(pod and pod["spec"]["nodeName"] and pod["status"]["phase"] not in ("Succeeded", "Failed"))


class _Call(Answering, BaseHTTPRequestHandler):
    server: KubeApi

    def do_GET(self):
        asked = {name: one for name, (one,) in parse_qs(urlsplit(self.path).query).items()}
        self.server.tokens.add(self.headers["Authorization"])
        if self.server.away:
            self._answer(503, {"kind": "Status", "code": 503})
        elif self.server.answers and urlsplit(self.path).path == "/api/v1/pods" and "watch" not in asked:
            self._answer(200, self.server.answers.pop(0))
        elif "/namespaces/" in self.path:
            found = self.server.named(self.path.rpartition("/")[2])
            self._answer(404 if found is None else 200, found or {"kind": "Status", "code": 404})
        elif "watch" in asked:
            self._watch(int(asked["resourceVersion"]), urlsplit(self.path).path.rpartition("/")[2])
        elif self.path.startswith("/api/v1/nodes"):
            self._answer(200, self.server.page_of_nodes())
        else:
            continued = asked.get("continue", "")
            if continued:
                self.server.lists_held.wait(30)
            self._answer(200, self.server.page(continued, int(asked["limit"])))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        act = self.server.evict if urlsplit(self.path).path.endswith("/eviction") else self.server.bind
        status = act(self.path.split("/")[-2], body)
        said = "Success" if status < 400 else "Failure"
        self._answer(status, {"kind": "Status", "apiVersion": "v1", "status": said, "code": status})

    def _answer(self, status, body):
        self.answer(status, json.dumps(body).encode())

    def _watch(self, version, what):
        api = self.server
        too_old = version < api.oldest
        if too_old and api.gone_as_status:
            self._answer(410, GONE)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if too_old:
            self._say("ERROR", GONE)
            return
        cuts, at = api.cuts, next((n for n, (one, *_) in enumerate(api.log) if one > version), len(api.log))
        self._say("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})
        with api.changed:
            api.watching += what == "pods"
        try:
            while api.cuts == cuts:
                with api.changed:
                    if len(api.log) == at or api.deaf:
                        api.changed.wait(1.0)
                    events, at = ([], at) if api.deaf or api.cuts != cuts else (api.log[at:], len(api.log))
                for _, of, kind, body in events:
                    if of == what:
                        self._say(kind, body)
        except OSError:
            pass
        finally:
            self.close_connection = True
            with api.changed:
                api.watching -= what == "pods"
                api.changed.notify_all()

    def _say(self, kind, body):
        data = json.dumps({"type": kind, "object": body}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


@contextmanager
def kube_api():
    with serving(KubeApi()) as api:
        try:
            yield api
        finally:
            api.lists_held.set()
            api.cut()
