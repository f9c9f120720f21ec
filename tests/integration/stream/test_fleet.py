"""The fleet as a process against a real broker."""

import time
from collections import defaultdict

import msgspec
import numpy as np
import pytest

from schemas.messages.sample import MachineFacts, Sample
from schemas.resources import RESOURCES
from streams.load_generator.ledger import LedgerWatch
from streams.load_generator.source.source import Machines
from tests.support.pipeline import await_condition
from tests.support.publishing import events, make_topics, process, receive, restart, samples


def by_machine(found):
    """Return each machine's samples in the order they came."""
    groups = defaultdict(list)
    for sample in found:
        groups[sample.machine].append(sample)
    return groups


def test_the_past_arrives_whole_and_in_order(broker, names, tmp_path):
    """20 minutes of 50 machines: every sample once, in order, in its machine's partition, stamped when it was sent."""
    make_topics(broker, names)
    started_s = time.time()
    arguments = ("--machines", "50", "--backfill-s", "1200", "--once", "--labels", "kind=test")
    with process("fleet", broker, names, tmp_path, *arguments) as running:
        assert running.wait(60) == 0
    received = receive(broker, names, lambda found: len(found) >= 50 * 121)
    facts = [found.message for found in received if isinstance(found.message, MachineFacts)]
    assert len(facts) == 50
    assert all(found.labels["kind"] == "test" and found.capacity.keys() == set(RESOURCES) for found in facts)
    groups = by_machine(samples(received))
    assert len(groups) == 50
    for machine, found in groups.items():
        assert [sample.seq for sample in found] == list(range(120))
        assert np.diff([sample.at for sample in found]) == pytest.approx(10)
        assert len({r.partition for r in received if r.message.machine == machine}) == 1
    assert all(found.key == found.message.machine.encode() for found in received)
    assert all(found.timestamp_s >= started_s - 1 for found in received)
    stopped = events(running, "fleet.stopped")[0]
    assert (stopped["delivered"], stopped["dropped"], stopped["undelivered"]) == (50 * 121, 0, 0)


def test_the_present_follows_the_past_without_a_gap(broker, names, tmp_path):
    """After the past each machine goes on at its own phase; samples are sent when their interval ends."""
    make_topics(broker, names)
    arguments = ("--machines", "30", "--backfill-s", "60", "--duration-s", "12")
    with process("fleet", broker, names, tmp_path, *arguments) as running:
        assert running.wait(90) == 0
    delivered = events(running, "fleet.stopped")[0]["delivered"]
    received = receive(broker, names, lambda found: len(found) >= delivered)
    for found in by_machine(samples(received)).values():
        assert len(found) >= 7
        assert [sample.seq for sample in found] == list(range(len(found)))
        assert np.diff([sample.at for sample in found]) == pytest.approx(10)
    live = [r for r in received if isinstance(r.message, Sample) and r.message.seq >= 8]
    assert all(0 <= r.timestamp_s - r.message.at < 8 for r in live if isinstance(r.message, Sample))


@pytest.mark.slow
def test_a_broker_that_dies_costs_no_sample(broker, names, tmp_path):
    """Killed and restarted without its memory: what fell due meanwhile arrives with its own time, without a gap."""
    make_topics(broker, names)
    with process("fleet", broker, names, tmp_path, "--machines", "40") as running:
        receive(broker, names, lambda found: len(samples(found)) >= 40)
        broker.kill()
        killed_s = time.time()  # what it had acknowledged by then, it has forgotten
        await_condition(lambda: events(running, "publisher.broker.away"), "the fleet notes that the broker is away")
        restart(broker, names, running)
        restarted_s = time.time()

        def whole(received):
            """Whether each machine has every sample from the kill to after the restart: no gap, in whatever order."""
            groups = by_machine([sample for sample in samples(received) if sample.at > killed_s])
            times_s = [sorted({sample.at for sample in found}) for found in groups.values()]
            return len(groups) == 40 and all(
                found[0] <= killed_s + 10 and found[-1] > restarted_s and max(np.diff(found), default=10.0) < 10.5
                for found in times_s
            )

        after = samples(receive(broker, names, whole))
        running.stop()
        assert running.exit_code == 0
    assert events(running, "fleet.stopped")[0]["dropped"] == 0
    for found in by_machine([sample for sample in after if sample.at > killed_s]).values():
        times_s = sorted({sample.at for sample in found})
        assert np.diff(times_s) == pytest.approx(10)
        assert len({sample.seq for sample in found}) == len(times_s)


def test_the_ledgers_instances_are_asked_of_a_scorer_page_by_page(server, names):
    """Confirmed ones, in pages; while nobody answers the last answer stays."""
    machines = Machines(names=["m1"], labels=[{}], capacity=np.full((len(RESOURCES), 1), 8.0))
    found = [{"id": name, "machine": machine, "started_at": 5.0, "cpu": 2.0, "memory": None}
             for name, machine in (("a", "m1"), ("b", "m1"), ("c", "other"))]  # fmt: skip
    watch = LedgerWatch(server, names, machines, look_s=0.01)
    watch.start()
    try:
        asked = []
        for page, more in ((found[:1], True), (found[1:], False)):
            taken = server.brpop([names.queries], timeout=10)
            query = msgspec.json.decode(taken[1])
            asked.append((query["method"], query["params"]["state"], query["params"]["after"]))
            result = {"total": 3, "instances": page, "more": more}
            server.lpush(
                names.reply(query["id"]), msgspec.json.encode({"v": 1, "id": query["id"], "ok": True, "result": result})
            )
        assert asked == [("instances", "confirmed", ""), ("instances", "confirmed", "a")]
        await_condition(lambda: watch.latest.ids == ["a", "b"], "the instances on the fleet's machines", 10)
        taken = server.brpop([names.queries], timeout=10)
        query = msgspec.json.decode(taken[1])
        refused = {"v": 1, "id": query["id"], "ok": False, "error": {"code": "UNAVAILABLE", "message": "not ready"}}
        server.lpush(names.reply(query["id"]), msgspec.json.encode(refused))
        assert server.brpop([names.queries], timeout=10), "it asks again"
        assert watch.latest.ids == ["a", "b"]
    finally:
        watch.stop()
