"""``windward record`` beside a broker and a Valkey: what was published and placed is what is read back."""

import sys
import time
from collections import Counter

import msgspec
import numpy as np
import pytest

from ops.record.entry import rounded
from ops.record.folder import OPEN, extent, files, steps
from ops.record.ledger_log import LedgerLog
from ops.record.state import State
from ops.stack.servers.process import LocalProcess, free_port
from schemas.messages.operator import OperatorFacts
from schemas.messages.sample import VERSION, InstanceMeans, InstanceReport, MachineFacts, encode
from schemas.rpc.request import Request
from scorer.ledger.record.instance import read_record
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.wire import Wire
from tests.support.fleet_label import without_fleet
from tests.support.pages import get
from tests.support.pipeline import await_condition, make_samples


def recorder(pipeline, *more):
    """Start a recorder into the folder ``recording``."""
    arguments = [
        *("--kafka", pipeline.broker.address, "--redis-url", pipeline.redis_url, "--prefix", pipeline.names.prefix),
        *("--record-dir", str(pipeline.folder / "recording"), "--write-s", "1", *more),
    ]
    process = LocalProcess(
        "record", [sys.executable, "-P", "-m", "ops.cli.main", "record", *arguments], log=pipeline.folder / "record.log"
    ).spawn()
    pipeline.workers.append(process)
    return process


def reserve(ledger, *ids):
    records = [instance_of(Request(id=each, cpu=1.0), "", 0.0) for each in ids]
    outcomes = ledger.reserve([Wanted(record, 300.0, [Candidate("m000", -1)]) for record in records]).outcomes
    assert {one.kind for one in outcomes} == {"placed"}


def reported(samples):
    """The samples, every sixth with a report of an instance."""
    return [
        msgspec.structs.replace(
            one,
            instance_report=InstanceReport(
                at=one.at, interval_s=60.0, entries={"a": InstanceMeans(cpu=1.0 + one.seq / 7, memory=1e9)}
            ),
        )
        if one.seq % 6 == 0
        else one
        for one in samples
    ]


def read(pipeline):
    folder = pipeline.folder / "recording"
    return list(steps(folder, 0.0, 1e11)) if folder.exists() else []


def usage(found):
    """Pair, time and CPU of every figure of an instance."""
    return [
        (step.pairs[row], round(at, 3), float(cpu))
        for step in found
        for row, at, cpu in zip(step.usage.row, step.usage.until_s, step.usage.values[0], strict=True)
    ]


def expected(samples):
    return Counter(
        (f"{one.machine}\ta", round(one.at, 3), float(rounded(np.array([entry.cpu], np.float32))[0]))
        for one in samples
        if one.instance_report is not None
        for entry in one.instance_report.entries.values()
    )


def changes(found):
    """The versions of the ledger's changes, without those that a whole state repeats."""
    return [read_record(raw).version for step in found if not step.entry.full for raw in step.entry.instances]


def live(found):
    """State of each instance as the recording leaves it."""
    known = {}
    for step in found:
        known = {} if step.entry.full else known
        known |= {record.id: record.state for record in map(read_record, step.entry.instances)}
    return known


@pytest.mark.parametrize("pipeline", [2], indirect=True)
def test_what_is_published_and_placed_is_read_back_equal_though_the_recorder_is_killed(pipeline):
    """Killed in the middle it goes on: nothing is lost, nothing is there twice, no gap. Facts are as they are now."""
    samples = reported(make_samples(machines=2, slots=30))
    facts = MachineFacts(v=VERSION, machine="m000", boot=1, at=time.time(), labels={"rack": "r1"})
    wire = Wire({"url": pipeline.redis_url})
    ledger = Ledger(wire, pipeline.names)
    wire.one("SET", pipeline.names.partitions, 2)
    wire.one("HSET", pipeline.names.facts(0), "m000", encode(facts))
    wire.one("HSET", pipeline.names.operator, "m000", msgspec.json.encode(OperatorFacts(cordon=True)))
    reserve(ledger, "a")
    killed = recorder(pipeline)
    await_condition(lambda: read(pipeline) and read(pipeline)[-1].entry.position.offsets, "a position in Kafka")
    pipeline.publish(samples[:20])
    ledger.confirm("a")
    await_condition(lambda: len(usage(read(pipeline))) >= len(expected(samples[:20])), "the first samples")
    killed.kill()
    assert [path.name.endswith(OPEN) for path in files(pipeline.folder / "recording")][-1]
    pipeline.publish(samples[20:])
    reserve(ledger, "b", "c")
    ledger.release("c")
    following = recorder(pipeline)
    await_condition(lambda: len(usage(read(pipeline))) >= len(expected(samples)), "all samples")
    ledger.release("a")
    await_condition(lambda: live(read(pipeline)).get("a") == "released", "the last change")
    following.stop()
    found = read(pipeline)
    assert Counter(usage(found)) == expected(samples)
    load = {
        (step.machines[row], at) for step in found for row, at in zip(step.load.row, step.load.until_s, strict=True)
    }
    assert load == {(one.machine, ((one.at - 5) // 60 + 1) * 60) for one in samples}
    assert sorted(changes(found)) == sorted(set(changes(found)))
    assert live(found) == {"a": "released", "b": "reserved", "c": "released"}
    assert not [gap for step in found for gap in step.entry.gaps]
    last = [step for step in found if step.first][-1].entry
    facts_now = {name: one for step in found for name, one in step.entry.facts.items()}
    assert facts_now["m000"].labels == {"rack": "r1"}
    assert facts_now["m001"].capacity["cpu"] == 64.0
    assert b"cordon" in last.operator["m000"]
    assert not [path for path in files(pipeline.folder / "recording") if path.name.endswith(OPEN)]
    first_s, last_s = extent(pipeline.folder / "recording")
    assert first_s < last_s
    wire.close()


def test_a_recorder_shows_what_it_does_and_a_second_one_is_refused(pipeline):
    """Pages as the siblings have them; the folder belongs to one; wrong usage has its exit code."""
    port = free_port()
    recorder(pipeline, "--metrics-port", str(port))

    await_condition(lambda: get(port, "/ready")[0] == 200, "the recorder is ready")
    pipeline.publish(make_samples(machines=1, slots=3))

    none = 'windward_record_figures_total{kind="load"} 0.0'
    await_condition(lambda: none not in without_fleet(get(port, "/metrics")[1]), "figures are counted")
    second = recorder(pipeline)
    await_condition(lambda: not second.running, "the second ends")
    assert second.exit_code == 2
    assert "record_dir: another process records" in second.output_end(5)


def test_a_trimmed_change_log_is_a_gap(ledger, wire, names):
    """What began and ended meanwhile is not known; what lives now is, and everything from then on."""
    reserve(ledger, "a")
    before = LedgerLog(Ledger(wire, names))
    assert [read_record(raw).id for raw in before.read(10.0).records] == ["a"]
    assert before.read(11.0).records == []
    reserve(ledger, "b")
    (raw,) = before.read(12.0).records
    assert read_record(raw).id == "b"
    reserve(ledger, "c", "d")
    ledger.release("d")
    wire.one("XTRIM", names.ledger("log"), "MAXLEN", 1)
    following = LedgerLog(Ledger(wire, names), before.epoch, before.change, 12.0)
    news = following.read(20.0)
    assert news.full
    assert (news.gap.since, news.gap.until) == (12.0, 20.0)
    assert sorted(read_record(raw).id for raw in news.records) == ["a", "b", "c"]
    assert following.live.keys() == {"a", "b", "c"}
    wire.one("XTRIM", names.ledger("log"), "MAXLEN", 0)
    reserve(ledger, "e")
    reserve(ledger, "f")
    wire.one("XTRIM", names.ledger("log"), "MAXLEN", 1)
    news = following.read(30.0)
    assert following.live.keys() == {"a", "b", "c", "e", "f"}


def test_decisions_are_read_once_and_a_shortened_list_is_a_gap(wire, names):
    def decide(number):
        answer = b'{"machine":"m"}'
        wire.one("XADD", names.decisions, f"{number}-1", "ids", f"i{number}", "method", "place", "answer", answer)

    decide(1)
    state = State(wire, names)
    assert state.read_decisions() == ([], None)
    decide(2)
    decide(3)
    found, gap = state.read_decisions()
    assert [(one.ids, one.method, one.stamp) for one in found] == [(["i2"], "place", "2-1"), (["i3"], "place", "3-1")]
    assert gap is None
    following = State(wire, names, state.decision)
    assert following.read_decisions() == ([], None)
    for number in (4, 5, 6):
        decide(number)
    wire.one("XTRIM", names.decisions, "MAXLEN", 1)
    found, gap = following.read_decisions()
    assert [one.ids for one in found] == [["i6"]]
    assert gap.source == "decisions"
    wire.one("XADD", names.decisions, "7-1", "answer", b"no JSON" * 2000)
    found, _ = following.read_decisions()
    assert found[0].answer == b""
