"""Several binders of the same pods, in any order of their steps: limits hold, and the ledger is as the cluster is."""

import json
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.client import HTTPMessage
from typing import Any

import msgspec
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.process.http_calls import Answer
from scorer.kubernetes.extender.binding import UNDER_WAY_S, Binder, Refused
from scorer.kubernetes.extender.protocol import ExtenderBindingArgs
from scorer.kubernetes.extender.verbs import RESERVED_S
from scorer.kubernetes.pods_api import ApiError, ApiServer
from scorer.kubernetes.pods_body import read_pod
from scorer.kubernetes.pods_difference import changes, ids_of_cluster
from scorer.kubernetes.pods_request import Reading
from scorer.ledger.record.instance import request_digest
from scorer.ledger.record.limits import Limit, total
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.view.view import instance_of
from tests.scorer.ledger.ledger_model import LedgerModel

HOW = Reading("east")
NODES = ("n1", "n2")
CORES = 4
PODS_S = 4.0
"""How soon `windward pods` sees what was bound."""
FATES = ("done", "done", "done", "forbidden", "error", "error, done", "no answer", "no answer, done", "no answer, late")


class Dead(BaseException):
    """A process has ended."""


class Model(LedgerModel):
    """The ledger as binders use it, and as `windward pods` corrects it."""

    def server_time_s(self):
        return self._clock()

    def correct(self, found, gone):
        """Write what runs, whatever the limits, and end what does not."""
        for one in found:
            old = self.records.get(one.id)
            since = (old.reserved_at, old.generation) if old else (self._clock(), self.drawn())
            held = () if old is None else (old.machine,)
            self._write(msgspec.structs.replace(one, reserved_at=since[0], generation=since[1]), *held)
        for name in gone:
            self._end(self.records[name], "released", self._clock())


@dataclass
class World:
    """An API server, a ledger, a clock; binders as threads of which one runs at a time, from one call to the next."""

    random: random.Random
    now_s: float = 1000.0
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    late: list[tuple[float, str, str]] = field(default_factory=list)
    binders: "list[Try]" = field(default_factory=list)
    seen_s: float = 1000.0
    most: Counter[str] = field(default_factory=Counter)
    """By node, the most cores that ever ran."""

    def __post_init__(self):
        self.ledger = Model(lambda: self.now_s)

    def pod(self, uid, cores):
        self.made.append(uid)
        about = {"name": uid, "namespace": "shop", "uid": uid, "resourceVersion": "1"}
        spec = {"containers": [{"resources": {"requests": {"cpu": str(cores)}}}], "nodeName": ""}
        body = {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": spec, "status": {"phase": "Pending"}}
        self.pods[uid] = body

    def read(self, uid):
        return read_pod(json.dumps(self.pods[uid]).encode())

    def bound(self):
        return {uid: pod["spec"]["nodeName"] for uid, pod in self.pods.items() if pod["spec"]["nodeName"]}

    def bind(self, uid, node):
        if uid not in self.pods:
            return 404
        if self.pods[uid]["spec"]["nodeName"]:
            return 409
        self.pods[uid]["spec"]["nodeName"] = node
        cores = Counter[str]()
        for name, where in self.bound().items():
            cores[where] += int(self.pods[name]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        self.most |= cores
        return 201

    def follow(self):
        self.seen_s = self.now_s
        self.ledger.expire()
        live = {one.id: one for one in self.ledger.live()}
        page = changes([("ADDED", self.read(uid)) for uid in self.bound()], live, HOW)
        found, gone = page.to_ledger, ids_of_cluster(live.values(), HOW) - page.running
        self.ledger.correct([*found.added, *(new for _, new, _ in found.changed)], sorted(gone))

    def delete(self, uid):
        pod = self.read(uid)
        del self.pods[uid]
        live = {one.id: one for one in self.ledger.live()}
        self.ledger.correct([], [one.id for one in changes([("DELETED", pod)], live, HOW).to_ledger.gone])

    def wait(self, seconds):
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s = min([until_s, self.seen_s + PODS_S, *(at for at, *_ in self.late if at > self.now_s)])
            for at, uid, node in list(self.late):
                if at <= self.now_s:
                    self.late.remove((at, uid, node))
                    self.bind(uid, node)
            if self.now_s >= self.seen_s + PODS_S:
                self.follow()


class Try(threading.Thread):
    def __init__(self, world, uid, node):
        super().__init__(daemon=True)
        self.world, self.uid, self.node = world, uid, node
        self._mine, self._yours = threading.Semaphore(0), threading.Semaphore(0)
        self.killed = False
        self.error = None
        self.start()

    def step(self):
        self._mine.release()
        assert self._yours.acquire(timeout=20)
        return self.is_going

    is_going = True

    def _turn(self):
        self._yours.release()
        self._mine.acquire()
        if self.killed:
            raise Dead

    def run(self):
        self._mine.acquire()
        try:
            self._bind()
        except (Refused, Dead):
            pass
        except Exception as error:
            self.error = error
        self.is_going = False
        self._yours.release()

    def _bind(self):
        binder = Binder(ApiServer(host="127.0.0.1", port=1), lambda: self, clock=lambda: self.world.now_s)
        binder._api = self
        args = ExtenderBindingArgs("p", "shop", self.uid, self.node)
        args = msgspec.structs.replace(args, pod_name=self.uid)
        request = binder.request(args, HOW)
        if request is None:
            return
        record = instance_of(request, "", self.world.now_s, digest=request_digest(request))
        room = [Limit(total("cpu"), float(CORES), "too much cpu promised")]
        binder.bind(args, Wanted(record, RESERVED_S, [Candidate(self.node, -1, room)]))

    # ---- the calls: as the API server, and as the ledger

    wire = property(lambda self: self)

    def close(self):
        """Close no connection."""

    def pod(self, _namespace, name):
        self._turn()
        found = self.world.read(name) if name in self.world.pods else None
        self._turn()
        return found

    def post(self, path, body):
        """POST the binding: it is sent at once, and what becomes of it is drawn."""
        uid, node = path.split("/")[6], msgspec.json.decode(body)["target"]["name"]
        fate = self.world.random.choice(FATES)
        done = fate == "done" or fate.endswith(", done")
        status = self.world.bind(uid, node) if done else 403 if fate == "forbidden" else 500
        if fate.endswith("late"):
            self.world.late.append((self.world.now_s + self.world.random.uniform(0.0, 15.0), uid, node))
        self._turn()
        if fate.startswith("no answer"):
            raise ApiError(fate)
        return Answer(500 if fate.startswith("error") else status, HTTPMessage(), b"")

    def server_time_s(self):
        return self.world.ledger.server_time_s()

    def reserve(self, wanted):
        return self._in_ledger(lambda: self.world.ledger.reserve(wanted))

    def release(self, instance_id, *, generation):
        return self._in_ledger(lambda: self.world.ledger.release(instance_id, generation=generation))

    def _in_ledger(self, act):
        fails = self.world.random.choices(("", "before", "after"), (20, 1, 1))[0]
        self._turn()
        done = None if fails == "before" else act()
        self._turn()
        if done is None or fails:
            raise redis.ConnectionError(fails)
        return done


def lived(seed, steps=250):
    rng = random.Random(seed)
    world = World(rng)
    for number in range(5):
        world.pod(f"u{number}", rng.randint(1, 3))
    for _ in range(steps):
        act = rng.random()
        if act < 0.15 and len(world.binders) < 6:
            world.binders.append(Try(world, rng.choice(sorted(world.pods) or ["u0"]), rng.choice(NODES)))
        elif act < 0.92 and world.binders:
            one = rng.choice(world.binders)
            if not one.step():
                world.binders.remove(one)
                assert one.error is None, one.error
        elif act < 0.93 and world.binders:
            one = rng.choice(world.binders)
            one.killed = True
            one.step()
            world.binders.remove(one)
        elif act < 0.94 and world.pods:
            world.delete(rng.choice(sorted(world.pods)))
        elif act < 0.96 and len(world.pods) < 6:
            world.pod(f"u{len(world.made)}", rng.randint(1, 3))
        else:
            world.wait(rng.choice([0.01, 0.1, 0.3, 1.0, 3.0, UNDER_WAY_S]))
        check(world)
    for one in world.binders:
        while one.step():
            pass
    world.binders.clear()
    world.wait(UNDER_WAY_S)
    world.wait(5.0)
    check(world)
    return world


def check(world):
    """No node has more than its cores, of what runs."""
    assert all(cores <= CORES for cores in world.most.values()), world.most


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_no_order_of_steps_breaks_a_limit(seed):
    """Of several binders, with `windward pods` beside them; at the end the ledger has what the API server has."""
    world = lived(seed)
    live = world.ledger.live()
    assert {one.id: one.machine for one in live if one.state == "confirmed"} == world.bound()
    world.wait(RESERVED_S + 5.0)
    assert {one.id: one.machine for one in world.ledger.live()} == world.bound()


def run(world, uid, node):
    """Try to bind until the end; return why it was not done."""
    one = Try(world, uid, node)
    while one.step():
        pass
    assert one.error is None
    return world.bound().get(uid, "")


def test_another_try_waits_until_no_post_is_under_way(monkeypatch):
    """Then it may reserve elsewhere; what a pod is bound to meanwhile is reserved there."""
    monkeypatch.setattr("random.Random.choices", lambda *_: [""])
    world = World(random.Random(1))
    world.pod("a", 3)
    monkeypatch.setattr("random.Random.choice", lambda *_: "no answer")
    assert run(world, "a", "n1") == ""
    monkeypatch.setattr("random.Random.choice", lambda *_: "done")
    assert run(world, "a", "n2") == ""
    assert [(one.machine, one.state) for one in world.ledger.live()] == [("n1", "reserved")]
    world.wait(UNDER_WAY_S + 0.1)
    assert run(world, "a", "n2") == "n2"
    assert [(one.machine, one.state) for one in world.ledger.live()] == [("n2", "reserved")]
    world.pod("b", 2)
    one = Try(world, "b", "n1")
    while not any(each.id == "b" for each in world.ledger.live()):
        one.step()
    assert world.bind("b", "n2") == 201  # by another scheduler, which knows no ledger
    while one.step():
        pass
    assert {each.id: each.machine for each in world.ledger.live()} == {"a": "n2", "b": "n2"}
