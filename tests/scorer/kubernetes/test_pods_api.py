"""Lists and watches of a made-up API server."""

import json
import select
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from schemas.process.settings import SettingsError, load_settings
from scorer.kubernetes import kubernetes_settings as module
from scorer.kubernetes import pods_api
from scorer.kubernetes.extender.protocol import read_args, read_binding
from scorer.kubernetes.nodes_body import rules_of
from scorer.kubernetes.pods.__main__ import PodsSettings
from scorer.kubernetes.pods_api import NODES, PODS, SELECTED, ApiError, ApiServer
from scorer.kubernetes.pods_body import Bookmark, OnePod
from scorer.kubernetes.pods_difference import changes
from scorer.kubernetes.pods_request import Reading, request_of
from tests.dripping import dripping
from tests.scorer.kubernetes.extender.test_verbs import Scene
from tests.support.pages import Answering, serving


class Server(ThreadingHTTPServer):
    """Gives its answers one after the other: status and lines; None holds an answer open."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = []
        self.asked = []
        self.tokens = []
        self.done = threading.Event()


class Handler(Answering, BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.asked.append({name: one for name, (one,) in parse_qs(urlsplit(self.path).query).items()})
        self.server.tokens.append(self.headers["Authorization"])
        status, lines = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            if line is None:
                self.server.done.wait(30)
                return
            data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def server():
    with serving(Server()) as made:
        yield made
        made.done.set()


def api(server, **other):
    return ApiServer(host="127.0.0.1", port=server.server_port, **other)


def pod(uid, version="6"):
    about = {"name": "p", "namespace": "shop", "uid": uid, "resourceVersion": version}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": {"containers": []}, "status": {}}


def page(uid, **metadata):
    about = {"resourceVersion": "7"} | metadata
    return {"kind": "PodList", "apiVersion": "v1", "metadata": about, "items": [pod(uid)]}


def test_a_list_is_read_page_by_page(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("one\n")
    server.answers = [(200, [page("a", **{"continue": "abc"})]), (200, [page("b")])]
    uids = []
    for one in api(server, token_file=token).pages(PODS):
        uids += [pod.metadata.uid for pod in one.items]
        token.write_text("two\n")
    assert uids == ["a", "b"]
    assert [asked.get("continue") for asked in server.asked] == [None, "abc"]
    assert {asked["fieldSelector"] for asked in server.asked} == {SELECTED}
    assert server.tokens == ["Bearer one", "Bearer two"]


def test_a_watch_yields_events_until_its_end(server):
    one = pod("a", "8")
    mark = {"metadata": {"resourceVersion": "9"}}
    server.answers = [(200, [{"type": "ADDED", "object": one}, {"type": "BOOKMARK", "object": mark}])]
    found = [(kind, type(one), one.metadata.resource_version) for kind, one in api(server).watch(PODS, "7")]
    assert found == [("ADDED", OnePod, "8"), ("BOOKMARK", Bookmark, "9")]
    assert (server.asked[0]["resourceVersion"], server.asked[0]["watch"]) == ("7", "1")


def test_an_event_comes_before_the_answer_ends(server):
    server.answers = [(200, [{"type": "ADDED", "object": pod("a")}, None])]
    events = api(server).watch(PODS, "7")
    assert next(events)[1].metadata.resource_version == "6"
    events.close()


GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((410, [b"gone"]), id="the version is too old"),
        pytest.param((403, [b"forbidden"]), id="no right"),
        pytest.param((200, [GONE]), id="too old, as an event"),
        pytest.param((200, [b'{"type": "ADDED", "obj\n']), id="cut off"),
        pytest.param((200, [b"\xff\n"]), id="no text"),
        pytest.param((200, [None]), id="silent"),
        pytest.param((200, [{"type": "DELETED", "object": {}}]), id="no pod"),
        pytest.param((200, [{"type": "GONE", "object": pod("a")}]), id="no known event"),
        pytest.param((200, [{"status": "ok"}]), id="of another service"),
    ],
)
def test_every_error_is_one(server, monkeypatch, answer):
    monkeypatch.setattr("scorer.kubernetes.pods_api.WATCH_S", 0)
    server.answers = [answer]
    with pytest.raises(ApiError):
        list(api(server, silent_s=0.2).watch(PODS, "7"))


def test_a_list_that_fails_is_an_error(server, monkeypatch):
    """Whether refused, of something else, without an end, too long, or of no server at all."""
    first = page("a", **{"continue": "abc"})
    server.answers = [(500, [b"no"]), (200, [b"<html>"]), (200, [{}]), (200, [page("a") | {"items": None}])]
    server.answers += [(200, [first]), (200, [{}]), (200, [first]), (200, [page("b", resourceVersion="8")])]
    again = [(200, [page("a", **{"continue": token})]) for token in ("abc", "def", "ghi", "abc")]
    of_another = page("a") | {"items": [pod("a") | {"kind": "Service"}]}
    server.answers += [*again, (200, [of_another])]
    for _ in range(8):
        with pytest.raises(ApiError):
            list(api(server).pages(PODS))
    monkeypatch.setattr(pods_api, "PAGES_MAX", 2)
    monkeypatch.setattr(pods_api, "PAGE_BYTES_MAX", 1000)
    server.answers = [*again, (200, [b" " * 1001])]
    with pytest.raises(ApiError, match="'ghi' comes again, or is of page 4"):
        list(api(server).pages(PODS))
    del server.answers[0]
    with pytest.raises(ApiError, match="a page of more than 1,000 bytes"):
        list(api(server).pages(PODS))
    with pytest.raises(ApiError, match="refused"):
        list(ApiServer(host="127.0.0.1", port=1).pages(PODS))


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["head", "body"])
def test_an_answer_that_drips_is_none(first, monkeypatch):
    """A list, an end of a watch and a single call have a deadline for the whole of their answer."""
    monkeypatch.setattr(pods_api, "WATCH_S", 0.1)
    monkeypatch.setattr(pods_api, "ANSWER_S", 0.3)
    with dripping(first) as where:
        host, port = where.split(":")
        api = ApiServer(host=host, port=int(port), silent_s=0.3)
        for ask in (
            lambda: list(api.pages(PODS)),
            lambda: list(api.watch(PODS, "1")),
            lambda: api.call("POST", "/x", b"{}"),
        ):
            begun_s = time.monotonic()
            with pytest.raises(ApiError, match="TimeoutError"):
                ask()
            assert time.monotonic() - begun_s < 2.0


def made(*flags):
    return load_settings(PodsSettings, "pods", ["--kubernetes", "east", *flags], {})


def test_in_a_pod_it_is_that_of_its_service_account(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ACCOUNT", tmp_path)
    monkeypatch.setattr("ssl.create_default_context", lambda cafile: f"trusts {cafile}")
    (tmp_path / "token").write_text("one")
    api = made().api({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"})
    assert (api.host, api.port, api.tls, api.token_file) == (
        "10.0.0.1", 6443, f"trusts {tmp_path / 'ca.crt'}", tmp_path / "token",
    )  # fmt: skip


def test_elsewhere_it_is_the_one_named():
    api = made("--api-url", "http://127.0.0.1:8001").api({})
    assert (api.host, api.port, api.tls, api.token_file) == ("127.0.0.1", 8001, None, None)
    assert made("--api-url", "https://[fd00::1]").api({}).port == 443


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        ((), "api_url: required outside of a pod"),
        (("--api-url", "ftp://a"), "api_url: expected"),
        (("--api-url", "https://me:secret@a"), "api_url: expected"),
        (("--api-url", "http://a:x"), "api_url: expected"),
        (("--api-url", "http://a", "--token-file", "/dev/null"), "a token is sent over https:// only"),
        (("--api-url", "https://a", "--token-file", "/nowhere"), "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_named(flags, about):
    with pytest.raises(SettingsError, match=about) as error:
        made(*flags).api({})
    assert "secret" not in str(error.value)


def test_classes_and_cluster():
    assert made("--classes", "night=batch").reading.classes == {"night": "batch"}
    with pytest.raises(SettingsError, match="classes: 'night=low'"):
        made("--classes", "night=low")
    with pytest.raises(SettingsError, match="kubernetes: required"):
        _ = load_settings(PodsSettings, "pods", [], {}).reading


__all__ = ["server"]

FOLDER = Path(__file__).parent / "recorded"
HOW = Reading("east")
GI = 2.0**30


def body(name):
    return (FOLDER / name).read_bytes()


def test_a_scheduler_is_answered():
    """It asks about the nodes that are not cordoned: all are kept, and scored with the least load first."""
    verbs = Scene().verbs
    kept, scores = verbs.filter(body("filter.json")), verbs.prioritize(body("prioritize.json"))
    assert sorted(kept.node_names or ()) == ["n0", "n1"]
    assert [one.host for one in scores] == ["n0", "n1"]


def test_a_pod_that_waits_is_a_request():
    pod = read_args(body("filter.json")).pod
    request = request_of(pod, pod.metadata.uid, HOW)
    assert (request.cpu, request.memory, request.kind) == (0.7, GI, "default/db")


def test_a_binding_is_read():
    binding, args = read_binding(body("bind.json")), read_args(body("filter.json"))
    assert (binding.pod_namespace, binding.pod_name, binding.pod_uid) == ("default", "db-2", args.pod.metadata.uid)
    assert binding.node in (args.node_names or ())


def test_a_list_and_what_changed_since_are_in_the_ledger(server):
    """Two are bound; then one is resized, and one ends."""
    server.answers = [(200, [body("pods.json")]), (200, body("watch.jsonl").splitlines(keepends=True))]
    (page,) = api(server).pages(PODS)
    found = changes([("ADDED", pod) for pod in page.items], {}, HOW)
    records = {one.id: one for one in found.to_ledger.added}
    assert _said(list(records.values())) == {"db-0": ("n0", 0.7, GI), "db-1": ("n1", 0.7, GI)}
    seen = list(api(server).watch(PODS, page.metadata.resource_version))
    since = changes(seen, records, HOW).to_ledger
    assert [kind for kind, _ in seen] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert _said([new for _, new, _ in since.changed]) == {"db-0": ("n0", 0.9, GI)}
    assert _said(list(since.gone)) == {"db-1": ("n1", 0.7, GI)}


def test_a_version_that_is_too_old_ends_the_watch(server):
    server.answers = [(200, [body("too-old.jsonl")])]
    assert json.loads(body("too-old.jsonl"))["object"]["code"] == 410
    with pytest.raises(ApiError, match="too old resource version"):
        list(api(server).watch(PODS, "1"))


def test_nodes_are_machines(server):
    server.answers = [(200, [body("nodes.json")])]
    (page,) = api(server).pages(NODES)
    rules = {node.metadata.name: rules_of(node, "east") for node in page.items}
    assert {name: (one.cordon, one.capacity) for name, one in rules.items()} == {
        f"n{number}": (number == 2, {"cpu": 16.0, "memory": 64 * GI}) for number in range(3)
    }


def _said(instances):
    return {one.labels["pod"]: (one.machine, one.amounts[0], one.amounts[1]) for one in instances}


class Binding(Answering, BaseHTTPRequestHandler):
    """Takes each POST, and closes a connection that is idle for a moment."""

    timeout = 0.05
    taken: ClassVar[list[bytes]] = []

    def do_POST(self):
        self.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(201, b'{"kind":"Status","apiVersion":"v1","status":"Success"}')


def test_a_binding_after_a_pause_arrives_once():
    """A server closes what is idle (kube-apiserver after 90 s, a load balancer sooner); a POST is never repeated."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Binding)) as server:
        calls = ApiServer(host="127.0.0.1", port=server.server_port)
        for number in range(3):
            assert calls.post("/binding", b"%d" % number).status == 201
            select.select([calls._own.calls.connection.sock], (), (), 10)
    assert Binding.taken == [b"0", b"1", b"2"]
