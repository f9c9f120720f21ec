"""Replaying a trace: formats, values in force, pace, ends, gaps; mutated traces are refused or played."""

import gzip
import io
import warnings
from collections import Counter
from random import Random

import numpy as np
import pytest

from schemas.messages.sample import Rejected, decode
from schemas.resources import CPU, MEMORY, NIC, RESOURCES
from streams.load_generator.source.messages import Messages
from streams.load_generator.source.recording_file import Defaults, Recording, RecordingError, load_trace
from streams.load_generator.source.source import Replay
from tests.effort import effort
from tests.support.mutated import in_bytes

DEFAULTS = Defaults(cores=8.0, memory=100.0, nic=1e6)
ORIGIN_S = 1_790_000_000.0
NAN = float("nan")

ARRAYS = {
    "machine": np.array(["a", "b"]),
    "ts": np.array([0, 300, 600]),
    "cpu_pct": np.array([[10, 20, NAN], [110, 40, 50]], np.float32),
    "mem_pct": np.array([[1, 2, 3], [1468, 5, 6]], np.float32),
    "rx_kbps": np.array([[1, 2, 900], [0, NAN, 5000]], np.float32),
    "tx_kbps": np.array([[2, 1, NAN], [0, 30, 1]], np.float32),
    "cores": np.array([2, 4]),
    "mem_capacity_mib": np.array([1.0, 2.0]),
}

CSV = """machine,ts,cpu_pct,mem_pct,rx_kbps,tx_kbps,cores,mem_capacity_mib
b,300,40,5,,30,4,2
a,0,10,1,1,2,2,1
a,300,20,2,2,1,2,1
a,600,,3,900,,2,1
b,0,110,1468,0,0,4,2
b,600,50,6,5000,1,4,2
"""


def npy(array):
    """Return one array as numpy writes it alone."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(folder, **changed):
    """Write the arrays, some changed, those set to None left out."""
    arrays = {name: value for name, value in (ARRAYS | changed).items() if value is not None}
    path = folder / "trace.npz"
    np.savez(path, **arrays)
    return path


def csv_file(folder):
    path = folder / "trace.csv"
    path.write_text(CSV)
    return path


def csv_gz_file(folder):
    path = folder / "trace.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode()))
    return path


def usage_at(recording, seconds):
    """Return usage [R, M] so long after the recording's start."""
    rows = np.arange(len(recording.machines.names))
    return recording.usage(rows, np.full((1, len(rows)), ORIGIN_S + seconds))[:, 0]


@pytest.mark.parametrize("write", [npz, csv_file, csv_gz_file])
def test_both_formats_hold_the_same_trace(tmp_path, write):
    """Percent of the capacity, clamped to all of it; the busier direction; NaN where there is no sample."""
    recording = Recording(load_trace(write(tmp_path), DEFAULTS), origin_s=ORIGIN_S)
    assert recording.machines.names == ["a", "b"]
    mib = 2.0**20
    expected = {
        0: [[0.2, 4.0], [0.01 * mib, 2 * mib], [2_000, 0]],
        300: [[0.4, 1.6], [0.02 * mib, 0.1 * mib], [2_000, 30_000]],
        600: [[NAN, 2.0], [0.03 * mib, 0.12 * mib], [900_000, 1e6]],
    }
    for seconds, usage in expected.items():
        assert usage_at(recording, seconds)[:3] == pytest.approx(np.array(usage), rel=1e-6, nan_ok=True)
        assert np.isnan(usage_at(recording, seconds)[3:]).all()


@pytest.mark.parametrize(
    ("start_s", "speed", "after_s", "cell"),
    [
        pytest.param(0, 1, 299.9, 0, id="the value in force until the next"),
        pytest.param(0, 1, 300, 1, id="the next"),
        pytest.param(350, 1, 0, 1, id="started within"),
        pytest.param(0, 30, 10, 1, id="thirty times the pace"),
        pytest.param(0, 0.5, 700, 1, id="half the pace"),
        pytest.param(0, 1, 900, 0, id="around the end"),
        pytest.param(0, 1, -1, 2, id="before the start is the end"),
    ],
)
def test_pace_and_loop(tmp_path, start_s, speed, after_s, cell):
    """Seconds of the trace pass at the pace asked for, and it goes round."""
    recording = Recording(load_trace(npz(tmp_path), DEFAULTS), origin_s=ORIGIN_S, start_s=start_s, speed=speed)
    assert usage_at(recording, after_s)[MEMORY, 0] == pytest.approx([1, 2, 3][cell] * 2**20 / 100)


def test_a_machine_sampled_within_its_cell_changes_then(tmp_path):
    """With a phase of 100 s the second cell's value is in force from 400 s on."""
    trace = load_trace(npz(tmp_path, phase_s=np.array([100, 0])), DEFAULTS)
    recording = Recording(trace, origin_s=ORIGIN_S)
    assert usage_at(recording, 399)[CPU] == pytest.approx([0.2, 1.6])
    assert usage_at(recording, 400)[CPU] == pytest.approx([0.4, 1.6])


def test_without_sizes_the_settings_say(tmp_path):
    """Cores and memory by setting; without traffic the NIC is unknown, not idle."""
    bare = {"cores": None, "mem_capacity_mib": None, "rx_kbps": None, "tx_kbps": None}
    trace = load_trace(npz(tmp_path, **bare, ts=None, slot_s=np.array([0, 60, 120])), DEFAULTS)
    assert trace.cell_s == 60
    assert trace.capacity[CPU].tolist() == [8, 8]
    assert trace.capacity[MEMORY].tolist() == [100, 100]
    assert np.isnan(trace.capacity[NIC]).all()


@pytest.mark.parametrize("capacity", [0.0, NAN])
def test_a_machine_of_unknown_size_is_left_out(tmp_path, capacity):
    """No cores, or an unknown number: its CPU is unknown."""
    trace = load_trace(npz(tmp_path, cores=np.array([capacity, 4])), DEFAULTS)
    assert np.isnan(usage_at(Recording(trace, origin_s=ORIGIN_S), 0)[CPU, 0])


def test_the_first_machines_alone(tmp_path):
    recording = Recording(load_trace(npz(tmp_path), DEFAULTS), origin_s=ORIGIN_S, count=1)
    assert recording.machines.names == ["a"]
    assert usage_at(recording, 0).shape == (len(RESOURCES), 1)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        pytest.param({"cpu_pct": None}, "has no cpu_pct", id="no CPU"),
        pytest.param({"machine": None}, "has no machine", id="no names"),
        pytest.param({"ts": None}, "has no slot_s", id="no times"),
        pytest.param({"ts": np.array([0, 300])}, "2 times and 3 cells", id="times do not fit"),
        pytest.param({"ts": np.array([]), "cpu_pct": np.empty((2, 0))}, "trace.npz", id="no cells"),
        pytest.param({"ts": np.array(3)}, "trace.npz", id="one time alone"),
        pytest.param({"ts": np.array([0, 300, 500])}, "evenly", id="times uneven"),
        pytest.param({"ts": np.array([0, 0, 0])}, "evenly", id="times stand still"),
        pytest.param({"machine": np.array(["a", "a"])}, "twice", id="a name twice"),
        pytest.param({"machine": np.array(["a", "b c"])}, "printable", id="a name with a space"),
        pytest.param({"machine": np.array([], str), "cpu_pct": np.empty((0, 3))}, "no machines", id="nobody"),
        pytest.param({"cpu_pct": ARRAYS["cpu_pct"] * -1}, "negative", id="negative"),
        pytest.param({"mem_pct": ARRAYS["mem_pct"] * np.inf}, "infinite", id="infinite"),
        pytest.param({"mem_pct": np.zeros((3, 3))}, "trace.npz", id="shapes differ"),
        pytest.param({"cores": np.array([4, 1e17])}, r"a capacity of 1e\+17", id="more than a sample can hold"),
    ],
)
def test_a_foreign_npz_is_refused_by_name(tmp_path, changed, says):
    with pytest.raises(RecordingError, match=says):
        load_trace(npz(tmp_path, **changed), DEFAULTS)


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        pytest.param("trace.npz", b"not a zip", "recording: trace.npz", id="npz of something else"),
        pytest.param("trace.npz", npy(np.zeros(3)), "without a name", id="one bare array"),
        pytest.param("trace.npz", npy(np.array([{}], object)), "trace.npz", id="pickled objects"),
        pytest.param("trace.npz", b"", "recording: trace.npz", id="empty npz"),
        pytest.param("trace.npz", b"PK\3\4cut", "recording: trace.npz", id="npz cut short"),
        pytest.param("trace.csv", b"", "has no machine", id="empty csv"),
        pytest.param("trace.csv", b"machine,ts,cpu_pct\n", "has no mem_pct", id="csv without memory"),
        pytest.param("trace.csv", b"machine,ts,cpu_pct,mem_pct\n", "no lines", id="csv without lines"),
        pytest.param("trace.csv", b"machine,ts,cpu_pct,mem_pct\na,0,1\n", "more or fewer", id="csv line cut short"),
        pytest.param("trace.csv", b"machine,ts,cpu_pct,mem_pct\na,0,x,1\n", "trace.csv", id="csv not a number"),
        pytest.param("trace.csv", b"\xff\xfe", "trace.csv", id="csv not text"),
        pytest.param("trace.csv.gz", b"plain", "trace.csv.gz", id="not packed"),
        pytest.param("trace.json", b"{}", "neither", id="another format"),
        pytest.param("gone.npz", None, r"gone\.npz cannot be read", id="missing"),
    ],
)
def test_a_foreign_file_is_refused_by_name(tmp_path, name, raw, says):
    if raw is not None:
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(RecordingError, match=says):
        load_trace(tmp_path / name, DEFAULTS)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param({"start_s": 900.0}, "start_s", id="start beyond the end"),
        pytest.param({"count": 3}, "machines", id="more machines than there are"),
    ],
)
def test_a_wrong_replay_is_refused(tmp_path, more, says):
    trace = load_trace(npz(tmp_path), DEFAULTS)
    with pytest.raises(RecordingError, match=f"^{says}: "):
        Recording(trace, origin_s=ORIGIN_S, **more)


@pytest.mark.parametrize("times", [(0, 1e18), (0, 1e300), (-1e300, 1e300), ("nan", 0), (0, "inf")])
@pytest.mark.parametrize("form", ["csv", "npz"])
def test_absurd_times_are_a_recording_error(tmp_path, times, form):
    path = tmp_path / f"a.{form}"
    if form == "csv":
        lines = [f"m1,{at},5,5" for at in (*times, 300)]
        path.write_text("machine,ts,cpu_pct,mem_pct\n" + "\n".join(lines))
    else:
        ones = np.ones((1, 2))
        np.savez(path, machine=np.array(["m1"]), ts=np.array(times, float), cpu_pct=ones, mem_pct=ones)
    with pytest.raises(RecordingError):
        load_trace(path, Defaults(cores=1, memory=1, nic=1))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_mutated_recording_is_refused_or_played(tmp_path, seed):
    """As a file, an archive or text: RecordingError, or samples that the stream app reads."""
    amount = effort(200, 10_000)
    counts = fuzz(amount, seed, tmp_path)
    assert sum(counts.values()) == amount
    assert min(counts["refused"], counts["played"]) > amount / 20


VALUES = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-320, 1e16, 1e308, 101.0, 2.0**53, -(2.0**62))
CELLS = ("", "nan", "inf", "-1", "1e308", "1e400", "x", "\x00", '"', "m1", "0x10", "1_0", "٣", " 5 ", "5,5", "5\n5")


def mutated_arrays(rng):
    """A trace with one to three of its arrays changed."""
    found = ARRAYS | {"phase_s": np.array([0.0, 17.0])}
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(sorted(found))
        values = found[name]
        match rng.randint(0, 8):
            case 0:
                del found[name]
                return found
            case 1:
                found[rng.choice(["slot_s", "cell_s", "other", ""]) or "x"] = found.pop(name)
            case 2:
                found[name] = values.reshape(-1)[: rng.randint(0, values.size)]
            case 3:
                found[name] = values[None] if rng.random() < 0.5 else np.stack([values, values])
            case 4 if values.dtype.kind in "fi":
                found[name] = values.astype(rng.choice(["U8", "S4", "c16", "f2", "?", "u1"]), casting="unsafe")
            case 5:
                found[name] = np.array(rng.choice(VALUES))
            case 6 if values.dtype.kind == "f" and values.size:
                found[name] = values.copy()
                found[name].reshape(-1)[rng.randrange(values.size)] = rng.choice(VALUES)
            case 7:
                found[name] = values.T.copy()
            case _:
                found["machine"] = np.array([rng.choice(["", "m1", "a b", "é" * 200, "x\n", "ok"]), "m2"])
    return found


def mutated_csv(rng):
    """A ``.csv`` with some cells changed, lines repeated or gone."""
    lines = [line.split(",") for line in CSV.splitlines()]
    for _ in range(rng.randint(1, 4)):
        line = rng.choice(lines)
        match rng.randint(0, 3):
            case 0 | 1:
                line[rng.randrange(len(line))] = rng.choice(CELLS)
            case 2:
                lines.insert(rng.randrange(len(lines)), list(rng.choice(lines)))
            case _:
                lines.remove(line)
    return "\n".join(",".join(line) for line in lines).encode()


def mutation(rng):
    """The name's end and the content of one changed recording."""
    kind = rng.choice(["npz", "bytes", "csv", "csv.gz"])
    if kind in ("npz", "bytes"):
        stream = io.BytesIO()
        save = np.savez if rng.random() < 0.5 else np.savez_compressed
        save(stream, **(mutated_arrays(rng) if kind == "npz" else ARRAYS))
        return ".npz", stream.getvalue() if kind == "npz" else in_bytes(rng, stream.getvalue())
    raw = mutated_csv(rng)
    if kind == "csv":
        return ".csv", in_bytes(rng, raw) if rng.random() < 0.3 else raw
    packed = gzip.compress(raw, 1)
    return ".csv.gz", in_bytes(rng, packed) if rng.random() < 0.5 else packed


def play(path):
    """Load a recording and publish an interval of it; return how many samples that made."""
    recording = Recording(load_trace(path, DEFAULTS), origin_s=ORIGIN_S - 100)
    replay = Replay(recording, 10.0, 1.0)
    messages = Messages(recording.machines, int(ORIGIN_S), 10.0, extra_labels={})
    made = 0
    for block in replay.blocks:
        for record in messages.facts(block.rows.tolist(), ORIGIN_S):
            decode(record.value)
        number = replay.last_full(ORIGIN_S)
        for one in messages.samples(block.rows, replay.ends_s(number, block), replay.columns(number, block), 1):
            if one is not None:
                decode(one.value)
                made += 1
    return made


def fuzz(recordings, seed, folder):
    """Return how many were refused and how many played; raises what is neither."""
    rng, counts = Random(seed), Counter[str]()
    for number in range(recordings):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                suffix, raw = mutation(rng)
                path = folder / f"a{suffix}"
                path.write_bytes(raw)
                counts["played" if play(path) else "silent"] += 1
        except RecordingError:
            counts["refused"] += 1
        except Rejected as error:
            raise AssertionError(f"recording {number} of seed {seed} makes {error}") from error
        except Exception as error:
            raise AssertionError(f"recording {number} of seed {seed}: {type(error).__name__}: {error}") from error
    return counts
