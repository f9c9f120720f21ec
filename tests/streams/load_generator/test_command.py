"""``windward fleet``: settings and whole runs without a broker."""

import signal
import time
from collections import Counter, defaultdict

import numpy as np
import pytest

from ops.cli.main import main
from schemas.messages.sample import MachineFacts, Sample, decode
from tests.support.in_process import refusal

WRONG = [
    pytest.param(["--machines", "0"], "machines", id="nobody"),
    pytest.param(["--machines", "100001"], "machines", id="too many"),
    pytest.param(["--machines", "some"], "machines", id="not a number"),
    pytest.param(["--interval-s", "9"], "interval_s", id="interval below a slot"),
    pytest.param(["--reading-s", "4"], "reading_s", id="reading does not divide"),
    pytest.param(["--backfill-s", "-1"], "backfill_s", id="past negative"),
    pytest.param(["--backfill-s", "1e6"], "backfill_s", id="past longer than the topic keeps"),
    pytest.param(["--backfill-s", "nan"], "backfill_s", id="past nan"),
    pytest.param(["--duration-s", "-1"], "duration_s", id="duration negative"),
    pytest.param(["--speed", "0"], "speed", id="no pace"),
    pytest.param(["--speed", "inf"], "speed", id="endless pace"),
    pytest.param(["--start-s", "-1"], "start_s", id="start negative"),
    pytest.param(["--recording", "/nowhere.npz"], "recording", id="no such recording"),
    pytest.param(["--recording", "/etc/hostname"], "recording", id="no recording at all"),
    pytest.param(["--cores", "0"], "cores", id="no cores"),
    pytest.param(["--memory", "lots"], "memory", id="memory no amount"),
    pytest.param(["--nic-speed", "0"], "nic_speed", id="no link speed"),
    pytest.param(["--seed", "x"], "seed", id="seed not a number"),
    pytest.param(["--kafka", "nowhere:port"], "kafka", id="broker without a port"),
]


@pytest.mark.parametrize(("argv", "name"), WRONG)
def test_a_wrong_setting_is_one_line_that_names_it(argv, name):
    assert refusal("fleet", "--dry-run", "--once", *argv).startswith(name)


@pytest.fixture(autouse=True)
def restore_signals():
    """Undo what a command run inside the test process does to its signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def dry_run(capsys, *argv):
    assert main(["fleet", "--dry-run", "--once", "--log-level", "error", *argv]) == 0
    return [decode(line.encode()) for line in capsys.readouterr().out.splitlines()]


def test_an_hour_of_the_past_covers_every_slot_of_every_machine(capsys):
    """Facts first, then time by time: 360 intervals of each machine, ten seconds apart, none in the future."""
    messages = dry_run(capsys, "--machines", "7", "--backfill-s", "3600")
    assert all(isinstance(message, MachineFacts) for message in messages[:7])
    samples = [message for message in messages if isinstance(message, Sample)]
    now_s = time.time()
    times_s = defaultdict(list)
    for sample in samples:
        times_s[sample.machine].append(sample.at)
        assert sample.boot < sample.at <= now_s
    assert len(times_s) == 7
    for at_s in times_s.values():
        assert len(at_s) == 360
        assert np.diff(at_s) == pytest.approx(10)
        assert at_s[-1] > now_s - 60
    assert [sample.at for sample in samples] == sorted(sample.at for sample in samples)
    assert [sample.seq for sample in samples] == [number for number in range(360) for _ in range(7)]


def test_the_same_seed_publishes_the_same_samples(capsys):
    runs = [dry_run(capsys, "--machines", "3", "--backfill-s", "60", "--seed", "5") for _ in range(2)]
    first, second = ({(m.machine, m.at): m.cpu for m in run if isinstance(m, Sample)} for run in runs)
    shared = first.keys() & second.keys()
    assert len(shared) >= 9
    assert all(first[key] == second[key] for key in shared)


def test_a_recording_is_replayed_from_its_start(tmp_path, capsys):
    """At thirty times the pace each 10 s interval moves one 300 s cell on; a gap is no sample."""
    cpu = np.arange(40.0)[None, :].repeat(2, axis=0)
    cpu[1, 5] = np.nan
    memory = np.where(np.isnan(cpu), np.nan, 50.0)
    np.savez(tmp_path / "trace.npz", machine=["a", "b"], ts=np.arange(40) * 300, cpu_pct=cpu, mem_pct=memory)
    argv = ("--recording", str(tmp_path / "trace.npz"), "--speed", "30", "--backfill-s", "200", "--cores", "100")
    samples = [message for message in dry_run(capsys, *argv) if isinstance(message, Sample)]
    assert set(Counter(sample.machine for sample in samples)) == {"a", "b"}
    means = [sample.cpu.mean for sample in samples if sample.machine == "a" and sample.cpu]
    assert len(means) == 20
    assert means[0] < 2.5
    assert np.diff(means) == pytest.approx(1, abs=1e-4)
    assert all(sample.nic is None and sample.cpu and sample.cpu.n <= 10 for sample in samples)
    assert sum(sample.cpu.n for sample in samples if sample.machine == "b" and sample.cpu) == pytest.approx(190, abs=1)
