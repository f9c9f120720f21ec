"""The verbs in time: while another holds the fleet, or when something fails, the scheduler decides alone, and soon."""

import threading
import time
from unittest.mock import MagicMock

import msgspec
import pytest
import redis

from scorer.kubernetes.extender.fleet import LOOK_S, FollowedFleet, Metrics
from scorer.kubernetes.extender.verbs import DEADLINE_S, Verbs
from scorer.kubernetes.pods_request import Reading, hold_id
from scorer.ledger.record.instance import Instance
from tests.scorer.kubernetes.extender.test_extender import ALL, NOW_S, POD, inputs


class Fleet:
    def __init__(self, given):
        self.lock, self.given, self.why, self.stale = threading.Lock(), given, "", False

    def why_not(self):
        return self.why

    def is_stale(self):
        return self.stale

    def held(self, hold):
        found = self.given.ledger.instances.get(hold)
        return found if found is not None and found.generation == 7 else None

    def inputs(self, overlay):
        follower = type("Follower", (), {"view": self.given.ledger})
        over = overlay(follower)
        return self.given if over is None else self.given.on(over)


class Scene:
    def __init__(self):
        self.fleet, self.metrics = Fleet(inputs()), Metrics()
        fleet = self.fleet
        self.verbs = Verbs(fleet, "filter", Reading("east"), self.metrics, clock=lambda: NOW_S)

    def both(self, **pod):
        body = msgspec.json.encode({"Pod": POD | pod, "NodeNames": ALL})
        found = self.verbs.filter(body)
        return len(self.verbs.prioritize(body)), len(found.node_names or [])

    def counted(self):
        return {
            sample.labels["result"]: sample.value
            for family in self.metrics.answers.collect()
            for sample in family.samples
            if sample.value and sample.labels["verb"] == "prioritize" and sample.name.endswith("total")
        }


ROWS = [
    # name, what is done, fields of the pod, how it is counted
    ("Redis is silent", lambda scene: setattr(scene.fleet, "why", "silent"), {}, "silent"),
    ("data are stale", lambda scene: setattr(scene.fleet, "stale", True), {}, "stale"),
    ("an error of ours", lambda scene: setattr(scene.fleet, "given", None), {}, "failed"),
    ("another scheduler's", lambda scene: setattr(scene.verbs, "scheduler_names", ("another",)), {}, "other"),
    ("amounts that are none", lambda _: None,
     {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "x"}}}]}}, "refused"),
]  # fmt: skip


@pytest.mark.parametrize(("do", "pod", "result"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_neutral_answer(do, pod, result):
    scene = Scene()
    assert scene.both() == (len(ALL), len(ALL))
    do(scene)
    assert scene.both(**pod) == (0, len(ALL))
    assert scene.counted() == {"answered": 1, result: 1}


def test_a_verb_that_waits_is_late():
    """It gets its neutral answer by the deadline, and not before: the other may be done by then."""
    scene = Scene()
    with scene.fleet.lock:
        began_s = time.monotonic()
        assert scene.both() == (0, len(ALL))
        assert time.monotonic() - began_s >= 2 * DEADLINE_S
    assert scene.counted() == {"late": 1}
    assert scene.both() == (len(ALL), len(ALL))


def test_the_replacement_of_an_evicted_pod_gets_its_target():
    """Alone of all nodes, though another is better, while it is held and feasible; its hold does not count as load."""
    owned = {
        "metadata": POD["metadata"] | {"ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": True}]}
    }
    body = msgspec.json.encode({"Pod": POD | owned, "NodeNames": ALL})
    scene = Scene()

    def order():
        return [one.host for one in scene.verbs.prioritize(body)]

    every, worst = order(), order()[-1]
    rows = [("east", worst, 60.0, 7, [worst]), ("west", worst, 60.0, 7, every), ("east", "other", 60.0, 7, every)]
    rows += [("east", worst, 60.0, 8, every), ("east", worst, -1.0, 7, every)]
    for cluster, machine, lasts_s, generation, expected in rows:
        name, until_s = hold_id(cluster, "shop/db"), NOW_S + lasts_s
        amounts = (4.0 if expected == [worst] else 0.0, 0.0, 0.0, 0.0)
        held = Instance(
            id=name, machine=machine, state="reserved", expires_at=until_s, amounts=amounts, generation=generation
        )
        scene.fleet.given.ledger.apply(held)
        assert sorted(order()) == sorted(expected)
        scene.fleet.given.ledger.forget(name)
    assert scene.metrics.steered.collect()[0].samples[0].value == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b'{"Pod":null}', b'{"NodeNames":["\xff"]}', b'{"NodeNames":[1]}', b'{"x":' + b"[" * 99_999],
)
def test_a_body_that_cannot_be_read(body):
    """Is answered: nothing is scored, and what is filtered or bound has an error, by which the scheduler goes on."""
    scene = Scene()
    scene.verbs.mode = "bind"
    scene.verbs.binder = object()
    assert scene.verbs.prioritize(body) == []
    assert scene.verbs.filter(body).error.startswith("not a question")
    assert scene.verbs.bind(body).error.startswith("not a binding")
    assert scene.counted() == {"refused": 1}


def test_whole_nodes_are_told_once(caplog):
    scene = Scene()
    body = msgspec.json.encode({"Pod": POD, "Nodes": {"items": []}})
    assert [scene.verbs.prioritize(body), scene.verbs.prioritize(body)] == [[], []]
    assert "nodeCacheCapable" in scene.verbs.filter(body).error
    assert [record.message for record in caplog.records] == ["extender.not_named"]


def test_a_lost_connection_is_made_again_at_once():
    """Only where the second try fails, too, is Redis away, and asked twice in a second."""
    ledger = MagicMock()
    ledger.wire.ask.side_effect = redis.ConnectionError
    fleet = FollowedFleet(ledger, MagicMock(), MagicMock(), Metrics(), 1.0, MagicMock())
    assert [fleet.turn() for _ in range(3)] == [LOOK_S, 0.5, 0.5]
