"""A workload from a recording: instances, machines, filled data, messages; mutated recordings are refused or read."""

import json
import random
import struct
import tempfile
import warnings
import zlib
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ops.record.entry import HEADER, Decision, Gap, encode, pack
from ops.replay.recorded.recorded import read_recorded
from ops.replay.simulator.policies import AsRecorded
from ops.replay.simulator.simulation import simulate
from ops.replay.simulator.true_fleet import Fleet
from ops.replay.workload import WorkloadError
from schemas.messages.operator import OperatorFacts
from schemas.resources import CPU
from scorer.ledger.record.instance import copy_with
from tests.effort import effort
from tests.ops.replay.recordings import ORIGIN_S, change, cpu, ended, load, record, state, write
from tests.scorer.rpc.fuzz_queries import nasty
from tests.support.in_process import run_command
from tests.support.mutated import at_any_depth, in_bytes

MINUTES = 30
A, B, C = record(1, -600, "m0"), record(2, 10, "m1", kind="redis", labels={"team": "x"}), record(3, 12, "m0", cpu=4.0)


@pytest.fixture
def recording(tmp_path):
    """Half an hour of two machines. A lives all the time, B from 10 to 20, C without reports from 12 on."""
    first = state(0, ["m0", "m1"], [A], pairs=["m0\ti1", "m1\ti2", "m1\ti1"])
    minutes = np.arange(MINUTES)
    m0 = 1.0 + 0.5 + np.where(minutes >= 12, 3.0, 0.0)  # A, load of no instance, C
    m1 = np.where((minutes >= 10) & (minutes < 20), 2.0, 0.0)
    return write(
        tmp_path / "recording",
        first,
        change(10, copy_with(B, state="reserved", started_at=0.0)),
        change(11, B),
        change(
            13, C, usage=pack(cpu([0] * 30, minutes.tolist(), [1.0] * 30)),
            load=load(minutes.tolist(), [m0.tolist(), m1.tolist()]),
        ),
        change(20, ended(B, 20), usage=pack(cpu([1] * 10, range(10, 20), [2.0] * 10))),
        change(21, usage=pack(cpu([2], [15], [9.0]))),
        change(MINUTES),
    )  # fmt: skip


def read(path, first=0, last=MINUTES):
    return read_recorded(path, ORIGIN_S + 60 * first, ORIGIN_S + 60 * last)


def used(world, name):
    """CPU of an instance by minute of its life."""
    at = list(world.instances).index(name)
    start = int(world.start[at])
    return [float(x) for x in world.usage.of(at, CPU, start, start + int(world.life[at]))]


def test_the_workload_has_the_instances_that_ran_their_machines_and_their_usage(recording):
    """Start, end, request and usage are those of the live fleet; a report by another machine counts for nothing."""
    world, missing = read(recording)
    assert list(world.machines) == ["m0", "m1"]
    assert world.capacity[CPU].tolist() == [16.0, 16.0]
    assert world.machine_labels[0] == {"rack": "rack of m0"}
    assert list(world.instances) == ["i1", "i2", "i3"]
    assert world.start.tolist() == [0, 10, 12]
    assert world.life.tolist() == [30, 10, 18]
    assert world.placed_on.tolist() == [0, 1, 0]
    assert used(world, "i1") == [1.0] * 30
    assert used(world, "i2") == [2.0] * 10
    request = world.request(1)
    assert (request.cpu, request.kind, request.labels, request.id) == (2.0, "redis", {"team": "x"}, "i2")
    assert not any("without a report" in line for line in missing)


def test_an_instance_without_reports_has_its_share_of_the_rest_and_the_others_stay(recording):
    """C has what its machine used beyond A, at most what it asks; the load before it belongs to no instance."""
    world, missing = read(recording)
    assert used(world, "i3") == pytest.approx([3.5] * 18, rel=1e-3)
    assert world.system[0, 0].tolist() == pytest.approx([0.5] * 12 + [0.0] * 18, abs=0.01)
    assert any("1 of 3 instances have no usage" in line for line in missing)


def test_the_recorded_placement_has_the_recorded_load(recording):
    """Every machine and minute as measured: the sum of the instances and of the load of no instance."""
    world, _ = read(recording)
    outcome = simulate(world, AsRecorded())
    minutes = np.arange(MINUTES)
    m0 = 1.5 + np.where(minutes >= 12, 3.0, 0.0)
    m1 = np.where((minutes >= 10) & (minutes < 20), 2.0, 0.0)
    np.testing.assert_allclose(outcome.fleet.load[0], [m0, m1], atol=0.01)
    assert outcome.placed.tolist() == [0, 10, 12]
    assert Fleet(world).load.sum() > 0


def test_a_part_of_the_time_is_that_part(recording):
    """An instance that lives at its beginning starts there; one that ended before is not in it."""
    world, _ = read(recording, 21, 30)
    assert list(world.instances) == ["i1", "i3"]
    assert world.start.tolist() == [0, 0]
    assert world.minutes == 9
    assert world.origin_s == ORIGIN_S + 21 * 60


def test_what_is_missing_is_filled_in_and_counted(tmp_path):
    """A gap has the value before it, an instance without any figure what it asks; ends and refusals are counted."""
    lost, never, other = record(4, 1, "m0"), record(5, 2, "m0", "reserved"), record(6, 3, "gone", cpu=1.5)
    refusal = Decision(stamp=f"{int(ORIGIN_S * 1000) + 60_000}-0", answer=b'{"missing":2}')
    reserved = {"m0": msgspec.json.encode(OperatorFacts(reserve={"cpu": 4}))}
    gap = Gap("samples", ORIGIN_S + 60, ORIGIN_S + 120, 7, "why")
    path = write(
        tmp_path / "recording",
        state(
            0, ["m0"], [A], pairs=["m0\ti1"], operator={"m0": msgspec.json.encode(OperatorFacts(reserve={"cpu": 4}))}
        ),
        change(2, lost, never, usage=pack(cpu([0, 0], [0, 5], [1.0, 3.0])), gaps=[gap], decisions=[refusal]),
        change(4, other, ended(never, 4, "expired"), load=load([0, 1], [[1.0, 4.0]])),
        state(8, ["m0"], [A, other], operator=reserved),
        change(10),
    )
    world, missing = read(path, 0, 12)
    assert world.capacity[CPU].tolist() == [12.0]
    assert used(world, "i1") == [1.0] * 5 + [3.0] * 7
    assert used(world, "i4") == pytest.approx([2.0] * 4 + [1.0] * 3, abs=0.01)
    assert used(world, "i6") == [1.5] * 9
    said = "\n".join(missing)
    for words in (
        "2m of the time asked for were not recorded", "10 minutes of instances", "10 of 12 minutes of machines",
        "1 instances whose end", "1 reservations that were never", "2 instances were refused",
        "gap: samples, 1m, 7 messages: why", "1 of 3 instances have no usage, nor their machine",
    ):  # fmt: skip
        assert words in said, said


def test_a_life_that_was_not_in_a_later_state_ended_by_then(tmp_path):
    """And one that moved counts where it began; a second life under the id has another name."""
    first, second = record(7, 0, "m0", id="a"), record(8, 6, "m1", id="a")
    moved = copy_with(second, machine="m0", started_at=ORIGIN_S + 8 * 60)
    path = write(
        tmp_path / "recording",
        state(0, ["m0", "m1"], [first]),
        state(5, ["m0", "m1"]),
        change(7, second),
        change(9, moved),
        state(11, ["m0", "m1"], [moved]),
        change(12),
    )
    world, missing = read(path, 0, 12)
    assert list(world.instances) == ["a", "a (2)"]
    assert world.life.tolist() == [5, 6]
    assert world.placed_on.tolist() == [0, 1]
    assert "1 instances were moved: placed once here" in missing


@pytest.mark.parametrize(
    ("what", "entries", "message"),
    [
        ("no instances", [state(0, ["m0"])], "there are no instances"),
        ("no machines", [state(0, [], [A])], "no machines with a known number of cores"),
        ("not then", [state(500, ["m0"], [A])], "nothing was recorded"),
        ("no record", [change(0, A), msgspec.structs.replace(state(0, ["m0"]), instances=[b"{"])], "truncated"),
    ],
)
def test_what_cannot_be_replayed_is_told(tmp_path, what, entries, message):
    path = write(tmp_path / "recording", *entries)
    with pytest.raises(WorkloadError, match=message):
        read(path)


def test_the_command_compares_profiles_on_a_recording(recording):
    """By its folder or by a time alone; the recorded placement is among the references."""
    environ = {"WINDWARD_RECORD_DIR": str(recording)}
    done = run_command("replay", "--last", "20m", "--profile", "windward", "--json", environ=environ)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "as recorded" in json.dumps(found)
    assert any("no usage" in line for line in found["missing"])
    done = run_command("replay", str(recording), "--profile", "windward", environ={})
    assert done.returncode == 0, done.stderr
    assert "as recorded" in done.stdout
    assert "instances have no usage" in done.stderr


@pytest.mark.long
def test_every_mutated_recording_is_read_or_refused():
    entries = effort(300, 20_000)
    counts = fuzz(entries)
    assert counts.total() == entries
    assert min(counts["read"], counts["refused"]) > entries // 10


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "sources: name a trace"),
        (("--last", "7d", "--since", "5"), "last: does not go together"),
        (("--since", "tomorrow"), "since: expected a time such as"),
        (("--since", "2023-11-14T22:00", "--until", "2023-11-14T22:01"), "until: expected two minutes"),
        (("--since", "2040-01-01"), "since: the recording is from 2023-11-14T22:00 to 2023-11-14T22:30 (UTC)"),
        (("--until", "2023-11-14"), "until: the recording is from 2023-11-14T22:00 to 2023-11-14T22:30 (UTC)"),
        (("--last", "1h", "--record-dir", "/nowhere"), "record_dir: /nowhere cannot be read"),
    ],
)
def test_a_time_that_makes_no_sense_is_refused(recording, given, message):
    done = run_command("replay", *given, environ={"WINDWARD_RECORD_DIR": str(recording)})
    assert done.returncode == 2
    assert message in done.stderr


MESSAGE_MAX = 1_500
I1, I2 = record(1, -60, "m0"), record(2, 2, "m1", kind="redis")
ENTRIES = [
    msgspec.msgpack.decode(encode(one))
    for one in (
        state(0, ["m0", "m1"], [I1], pairs=["m0\ti1"], operator={"*": b'{"share":{"cpu":0.9}}', "m0": b'{"cordon":1}'}),
        change(3, I2, usage=pack(cpu([0, 0], [0, 1], [1.0, 2.0])), load=load([0, 1, 2], [[2.0] * 3, [1.0] * 3])),
        change(
            6, ended(I2, 5), gaps=[Gap("ledger", ORIGIN_S, ORIGIN_S + 60, why="x")],
            decisions=[Decision(stamp=f"{int(ORIGIN_S) * 1000}-0", answer=b'{"missing":1}')],
        ),
    )
]  # fmt: skip
VALUES = (b"", b"{}", b"\x00" * 8, b"\xff" * 8, 2**63, -1, 1e308, float("nan"), float("inf"), "m0\t", [], {})


def mutated(rng):
    """A file with other values at any depth, or other bytes in its columns."""

    def other(value):
        if isinstance(value, bytes) and rng.random() < 0.5:
            return in_bytes(rng, value)
        return rng.choice(VALUES) if rng.random() < 0.5 else nasty(rng)

    raw = HEADER
    for entry in at_any_depth(rng, [json_like(one) for one in ENTRIES], other):
        try:
            content = zlib.compress(msgspec.msgpack.encode(entry))
        except (ValueError, OverflowError, msgspec.EncodeError):
            content = zlib.compress(b"\xc0")
        raw += struct.pack("<II", len(content), zlib.crc32(content)) + content
    return raw


def json_like(value):
    if isinstance(value, dict):
        return {key: json_like(each) for key, each in value.items()}
    return [json_like(each) for each in value] if isinstance(value, list) else value


def fuzz(count, seed=1):
    """Read so many; return the counts, or raise with what broke something."""
    rng, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "2023-11-14T22-0001.record"
        for number in range(count):
            path.write_bytes(mutated(rng))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    world, _ = read_recorded(Path(folder), ORIGIN_S, ORIGIN_S + 600)
                    if number % 5 == 0:
                        simulate(world, AsRecorded())
            except WorkloadError as error:
                assert len(str(error)) < MESSAGE_MAX, str(error)
                counts["refused"] += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}, number {number}") from error
            else:
                counts["read"] += 1
    return counts
