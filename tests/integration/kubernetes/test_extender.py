"""The extender as a process before a real server: what a scheduler is answered, also while Redis is frozen."""

import http.client
import json
import ssl
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from ops.stack.servers.local import LocalValkey
from ops.stack.servers.process import LOOPBACK
from schemas.messages.process import read_processes
from schemas.names import Names
from schemas.resources import RESOURCES
from scorer.kubernetes.pods_request import hold_id
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.store.check import Check
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.integration.observe.test_exporter import get, samples
from tests.support.extender_process import ask, extender, order, pod
from tests.support.kube_api import kube_api
from tests.support.pages import eventually
from tests.window_tables import publish, window_table

LOAD = {"n0": 0.1, "n1": 0.3, "n2": 0.5, "n3": 0.7}


def write(url, names, *, age_s=0.0, load=None):
    """Write the windows of nodes whose newest samples have an age."""
    wire, load = Wire({"url": url}), load or LOAD
    publish(wire, names, [window_table(list(load), utilization=list(load.values()), at=time.time() - age_s)])
    wire.close()


def is_ready(page):
    """Return whether answers are made of the fleet."""
    return get(f"{page}/ready")[0] == 200


def counted(page, result, verb="prioritize"):
    """Return how many answers of a verb had a result."""
    (found,) = (
        value
        for labels, value in samples(get(f"{page}/metrics")[2])["windward_extender_answers_total"]
        if (labels["result"], labels["verb"]) == (result, verb)
    )
    return found


def announced(port, length):
    """Return the status for a body of this length, of which nothing is sent: the server may close the connection."""
    with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=30)) as connection:
        connection.putrequest("POST", "/prioritize")
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        return connection.getresponse().status


def test_what_a_scheduler_is_answered(valkey, names, server):
    """By mode score: scores of known nodes, best first; every node kept; no pod bound. What cannot be read, by 200."""
    write(valkey.url, names)
    with extender(valkey.url, names, "--scheduler-names", "windward") as (process, port, page):
        eventually(lambda: is_ready(page))
        assert order(port, ["n2", "x", "n0", "n3"]) == ["n0", "n2", "n3"]
        assert order(port, ["n2"], scheduler="another") == []
        question = {"Pod": pod("u"), "NodeNames": ["n3", "x"]}
        assert ask(port, "filter", question) == (200, {"NodeNames": ["n3", "x"]})
        whole = {"Pod": pod("u"), "Nodes": {"items": []}}
        assert "nodeCacheCapable" in ask(port, "filter", whole)[1]["Error"]
        assert ask(port, "prioritize", whole) == (200, [])
        assert ask(port, "prioritize", b"{") == (200, [])
        assert (
            "score" in ask(port, "bind", {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n1"})[1]["Error"]
        )
        assert ask(port, "else", b"")[0] == 404
        assert announced(port, 3 * 2**20) == 413
        assert (counted(page, "answered"), counted(page, "other"), counted(page, "refused")) == (1, 1, 2)
        (said,) = read_processes(eventually(lambda: server.hgetall(names.processes("extender")))).values()
        assert (said.pid, said.details["machines"]) == (process.pid, 4)
        process.stop()
        assert not server.exists(names.processes("extender"))


def test_a_burst_is_spread(valkey, names):
    """Each pod of a burst goes to the best node, the ones before counted though none is bound."""
    nodes = [f"n{number}" for number in range(20)]
    write(valkey.url, names, load=dict.fromkeys(nodes, 0.3))
    with extender(valkey.url, names) as (_, port, page):
        eventually(lambda: is_ready(page))
        chosen = Counter(order(port, nodes, f"u{number}", cpu="2")[0] for number in range(20))
        assert max(chosen.values()) <= 2, chosen


def test_by_mode_filter_what_is_hot_stale_or_cordoned_is_refused(valkey, names):
    write(valkey.url, names, load=LOAD | {"hot": 0.97})
    with extender(valkey.url, names, "--mode", "filter") as (_, port, page):
        eventually(lambda: is_ready(page))
        found = ask(port, "filter", {"Pod": pod("u"), "NodeNames": ["hot", "n1", "x"]})[1]
        assert found == {"NodeNames": ["n1", "x"], "FailedAndUnresolvableNodes": {"hot": "cpu used over threshold"}}
        assert ask(port, "filter", {"Pod": pod("u"), "NodeNames": ["hot"]})[1] == {"NodeNames": ["hot"]}


def test_a_frozen_redis_and_a_silent_pipeline_block_no_pod(tmp_path):
    """All is kept and nothing scored, at once; when Redis is back, scores are, too."""
    names, nodes = Names(), list(LOAD)
    with (
        LocalValkey(directory=tmp_path / "valkey") as valkey,
        extender(valkey.url, names, "--mode", "filter") as (_, port, page),
    ):
        assert order(port, nodes) == []
        assert get(f"{page}/ready")[0] == 503
        write(valkey.url, names)
        eventually(lambda: order(port, nodes) == nodes)
        valkey.pause()
        longest_s = 0.0
        until_s = time.monotonic() + 60
        while order(port, nodes) != []:
            assert time.monotonic() < until_s
        for _ in range(20):
            began_s = time.monotonic()
            assert ask(port, "filter", {"Pod": pod("u"), "NodeNames": nodes}) == (200, {"NodeNames": nodes})
            assert order(port, nodes) == []
            longest_s = max(longest_s, time.monotonic() - began_s)
        assert longest_s < 2.0, "a verb waited for Redis"
        assert counted(page, "silent", "filter") == 20
        valkey.resume()
        eventually(lambda: order(port, nodes) == nodes)
        write(valkey.url, names, age_s=5000)
        eventually(lambda: order(port, nodes) == [])
        assert ask(port, "filter", {"Pod": pod("u"), "NodeNames": nodes})[1] == {"NodeNames": nodes}
        assert json.loads(get(f"{page}/ready")[2])["neutral"] == "stale"


class Binding:
    """An extender that binds, its API server and its ledger."""

    def __init__(self, api, ledger, port, page):
        self.api, self.ledger, self.port, self.page = api, ledger, port, page

    def bind(self, uid, node):
        """Ask for a binding; return why it was not done, "" when it was."""
        body = {"PodName": f"pod-{uid}", "PodNamespace": "shop", "PodUID": uid, "Node": node}
        status, found = ask(self.port, "bind", body)
        assert status == 200
        return str(found.get("Error", ""))

    def held(self):
        assert Check(self.ledger).run().differences == []
        return {one.id: f"{one.machine} {one.state}" for one in self.ledger.all_instances().values()}


@pytest.fixture
def binding(valkey, names, wire):
    """Four nodes of 16 cores, the first of them with room for one."""
    ledger = Ledger(wire, names)
    ledger.open()
    amounts = tuple({"cpu": 15.0}.get(name) for name in RESOURCES)
    there = Instance(id="there", machine="n0", state="confirmed", amounts=amounts)
    ledger.correct([there])
    write(valkey.url, names)
    with kube_api() as api:
        flags = ["--mode", "bind", "--api-url", api.url]
        with extender(valkey.url, names, *flags) as (_, port, page):
            eventually(lambda: is_ready(page))
            yield Binding(api, ledger, port, page)


def test_a_pod_is_reserved_then_bound(binding):
    """Within the limits of the ledger, for its uid; asked again, it is bound already."""
    for uid in "abc":
        binding.api.put(uid, "", phase="Pending")
    assert binding.bind("a", "n0") == ""
    assert binding.bind("a", "n0") == ""
    assert "too much cpu promised" in binding.bind("b", "n0")
    assert binding.bind("b", "n1") == ""
    assert "is bound to n1" in binding.bind("b", "n2")
    assert binding.bind("c", "x") == ""
    assert binding.held() == {"there": "n0 confirmed", "a": "n0 reserved", "b": "n1 reserved", "c": "x reserved"}
    assert [one["metadata"]["uid"] for one in binding.api.bindings] == ["a", "b", "c"]
    assert {name: pod["spec"]["nodeName"] for name, pod in binding.api.pods.items()} == {"a": "n0", "b": "n1", "c": "x"}


def test_a_refused_binding_is_released_and_tried_again(binding):
    """Nothing stays reserved; the same pod is then bound elsewhere. Without an answer the reservation stays."""
    binding.api.put("a", "", phase="Pending")
    binding.api.refuses = 409
    assert "409" in binding.bind("a", "n1")
    assert binding.held().keys() == {"there"}
    binding.api.refuses = 503
    assert "503" in binding.bind("a", "n1")
    assert binding.held()["a"] == "n1 reserved"
    binding.api.refuses = 0
    assert "another try" in binding.bind("a", "n2")
    binding.ledger.release("a")
    assert binding.bind("a", "n2") == ""
    assert binding.held()["a"] == "n2 reserved"
    binding.api.put("b", "", phase="Pending", name="pod-c")
    assert binding.bind("c", "n1") == "it is gone"
    binding.api.away = True
    assert "503" in binding.bind("a", "n1")


def test_two_extenders_bind_each_pod_once(binding, valkey, names):
    """A retry, or two leaders: no node has more than its room, and the ledger has every pod that was bound."""
    uids = [f"u{number}" for number in range(40)]
    for uid in uids:
        binding.api.put(uid, "", cpu="3", phase="Pending")
    flags = ["--mode", "bind", "--api-url", binding.api.url]
    with extender(valkey.url, names, *flags) as (_, port, page), ThreadPoolExecutor(6) as pool:
        eventually(lambda: is_ready(page))
        other = Binding(binding.api, binding.ledger, port, page)
        tries = [
            (one, uid, f"n{number % 4}") for uid in uids for number, one in enumerate((binding, other), int(uid[1:]))
        ]
        list(pool.map(lambda each: each[0].bind(*each[1:]), tries))
    bound = {uid: pod["spec"]["nodeName"] for uid, pod in binding.api.pods.items() if pod["spec"]["nodeName"]}
    assert {uid: f"{node} reserved" for uid, node in bound.items()} == {
        uid: where for uid, where in binding.held().items() if uid != "there"
    }
    assert max(Counter(bound.values()).values()) <= 5
    assert len(bound) == 15


def test_a_deployer_that_has_a_pods_uid_keeps_it(binding):
    """The pod is reserved under an id of its own, and what the deployer has stays."""
    binding.ledger.correct([Instance(id="a", machine="n1", state="confirmed", amounts=(None,) * len(RESOURCES))])
    binding.api.put("a", "", phase="Pending")
    assert binding.bind("a", "n2") == ""
    assert binding.held() == {"there": "n0 confirmed", "a": "n1 confirmed", "pod:a": "n2 reserved"}


def test_only_what_the_evictor_wrote_is_a_hold(valkey, names, server):
    """A deployer's reservation under the same id steers no pod; with the evictor's word the same one does.

    Once a deployer has confirmed it, and could move it, it is an instance like any other: it counts on its node.
    """
    write(valkey.url, names)
    ledger = Ledger(Wire({"url": valkey.url}), names)
    ledger.open()
    nodes, owner = list(LOAD), [{"kind": "StatefulSet", "name": "db", "controller": True}]
    hold = Instance(id=hold_id("east", "shop/db"), machine="", state="reserved", amounts=(None,) * len(RESOURCES))
    (made,) = ledger.reserve([Wanted(hold, 600.0, [Candidate("n3", -1)])]).outcomes

    def best(uid):
        body = pod(uid)
        body["metadata"]["ownerReferences"] = owner
        return [one["Host"] for one in ask(port, "prioritize", {"Pod": body, "NodeNames": nodes})[1]]

    with extender(valkey.url, names) as (_, port, page):
        eventually(lambda: is_ready(page))
        eventually(lambda: best("u") == nodes)
        for generation, order_of in ((made.instance.generation + 1, nodes), (made.instance.generation, ["n3"])):
            server.hset(names.holds, hold.id, generation)
            eventually(lambda order_of=order_of: best("u") == order_of)
        full = Instance(id=hold.id, machine="n0", state="confirmed", amounts=tuple(1e3 for _ in RESOURCES))
        ledger.correct([full])
        eventually(lambda: best("u")[:1] == ["n1"])
    ledger.wire.close()


def certificates(folder, names):
    """Make an authority, and a certificate of each name, for loopback."""
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]
    for name in ("ca", *names):
        files = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"]
        signed = [] if name == "ca" else ["-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"]
        more = (
            ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
            if name == "ca"
            else ["-addext", f"subjectAltName=IP:{LOOPBACK}", "-addext", "basicConstraints=CA:FALSE"]
        )
        subprocess.run(
            ["openssl", "req", *made, f"/CN={name}", *files, *signed, *more], check=True, capture_output=True
        )
    return folder


def test_a_scheduler_has_a_certificate_of_a_known_name(valkey, names, tmp_path):
    """A question of the names of 5,000 nodes passes; one without a certificate does not, nor one of another name."""
    folder = certificates(tmp_path, ["server", "scheduler", "other"])
    nodes = [f"ip-10-{n // 250}-{n % 250}-17.eu-central-1.compute.internal" for n in range(5_000)]
    write(valkey.url, names, load=dict.fromkeys(nodes, 0.3))
    flags = ["--listen-tls-cert-file", "server.crt", "--listen-tls-key-file", "server.key"]
    flags = [
        flag if flag.startswith("--") else str(folder / flag) for flag in [*flags, "--listen-client-ca-file", "ca.crt"]
    ]

    def status(port, name):
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        if name:
            context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
        with closing(http.client.HTTPSConnection(LOOPBACK, port, timeout=30, context=context)) as connection:
            connection.request("POST", "/prioritize", json.dumps({"Pod": pod("u"), "NodeNames": nodes}))
            answer = connection.getresponse()
            scores = answer.read()
            assert answer.status != 200 or len(json.loads(scores)) == 500
            return answer.status

    with extender(valkey.url, names, *flags, "--client-names", "scheduler") as (_, port, page):
        eventually(lambda: is_ready(page))
        assert (status(port, "scheduler"), status(port, "other")) == (200, 403)
        with pytest.raises(OSError):
            status(port, "")
