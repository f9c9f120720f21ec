"""Converters: tiny files in each trace's own form, and the traces themselves where they lie beside the project."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from ops.replay.traces.formats import read_lives, read_trace
from ops.replay.traces.trace import Trace, part_of
from ops.replay.workload import WorkloadError

DATA = Path(__file__).parents[3].parent / "shared" / "data"


def planetlab(path):
    np.savez(
        path, days=["a", "b"], cpu_a=np.full((2, 288), 10, np.uint8), machine_a=["h1_s", "h2_s"],
        cpu_b=np.full((1, 288), 30, np.uint8), machine_b=["h1_s"],
    )  # fmt: skip


def smd(path):
    x = np.tile(np.array([[0.5, 1, 0.25, 0, 0]], np.float32), (2_900, 1))
    np.savez(path, machines=["1-1"], columns=["cpu_r", "load_1", "mem_u", "eth1_fi", "eth1_fo"], **{"x_1-1": x})


def gcd(path):
    """A job of two days, their order swapped, and one of a day."""
    cpu = np.array([[10], [20], [30]], np.float32).repeat(288, axis=1)
    np.savez(path, machine=["gcd-7_2", "gcd-7_1", "gcd-8_1"], slot_s=np.arange(288) * 300, cpu_pct=cpu, mem_pct=cpu)


def bitbrains(path):
    cpu = np.full((2, 2 * 288), 50, np.float32)
    cpu[1] = np.nan
    np.savez(
        path, machine=["v1", "v2"], ts=np.arange(2 * 288) * 300, cpu_pct=cpu, mem_pct=np.full_like(cpu, 20),
        cores=[4, 4], mem_capacity_mib=[1024, 1024],
    )  # fmt: skip


def alibaba(path):
    lines = [f"m_1,{60 * k},{k % 3},50,0,0,0" for k in range(1441)]
    text = "machine,ts,cpu_pct,mem_pct,net_in_cum,net_out_cum,disk_pct\n" + "\n".join(lines)
    path.write_bytes(gzip.compress(text.encode()))


def nab(path):
    """A series of CPU, and one of another metric."""
    lines = [f"ec2_cpu_1,2014-02-14 {k // 12 % 24:02d}:{k % 12 * 5:02d}:00,25" for k in range(288)]
    path.write_text("series,timestamp,value\n" + "\n".join(lines) + "\nnet_in,2014-02-14 00:00:00,9\n")


@pytest.mark.parametrize(
    ("write", "name", "family", "days", "mean"),
    [
        (planetlab, "p.npz", "planetlab", [2, 1], 0.5 / 3),
        (smd, "s.npz", "smd", [2], 0.5),
        (gcd, "gcd.npz", "gcd", [2, 1], 0.2),
        (bitbrains, "bitbrains.npz", "bitbrains", [2], 0.5),
        (alibaba, "alibaba.csv.gz", "alibaba", [1], 0.01),
        (nab, "nab.csv", "nab", [1], 0.25),
    ],
)
def test_each_form_is_recognised(tmp_path, write, name, family, days, mean):
    write(tmp_path / name)
    trace = read_trace(tmp_path / name)
    assert (trace.family, [len(one) for one in trace.sources]) == (family, days)
    assert trace.cpu.mean() == pytest.approx(mean, rel=0.01)
    assert len(trace.cpu) == sum(days)


def test_days_of_a_job_are_joined_in_order(tmp_path):
    """The Google trace names a job's days apart; the job is a source, and its kind."""
    gcd(tmp_path / "gcd.npz")
    trace = read_trace(tmp_path / "gcd.npz")
    assert list(trace.names) == list(trace.kinds) == ["gcd-7", "gcd-8"]
    assert trace.cpu[list(trace.sources[0]), 0].tolist() == pytest.approx([0.2, 0.1])


def test_lives_are_those_of_scheduled_requests(tmp_path):
    """Sizes in cores and bytes; what was never scheduled or deleted is left out."""
    path = tmp_path / "r.csv"
    path.write_text(
        "name,cpu_milli,memory_mib,creation_time,deletion_time,scheduled_time\n"
        "a,500,1024,10,70,12\nb,500,1024,10,70,\nc,500,1024,10,,12\n"
    )
    lives = read_lives(path)
    assert (lives.life_s.tolist(), lives.cores.tolist(), lives.memory_bytes.tolist()) == ([60.0], [0.5], [2.0**30])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.csv", "name,cpu_milli\n", "r.csv: has no column memory_mib"),
        ("r.csv", "cpu_milli,memory_mib,creation_time,deletion_time,scheduled_time\n1,2,x,4,5\n",
         "r.csv: creation_time, row 2: 'x' is no number"),
        ("r.csv", "", "r.csv: is empty"),
        ("r.txt", "", "r.txt: is neither .npz, .csv nor .csv.gz"),
        ("r.csv", "a\x00\xe9", "r.csv: is no UTF-8 text: unexpected end of data at byte 2"),
        ("r.csv.gz", "text", "r.csv.gz: Not a gzipped file (b'te')"),
        ("r.csv", "cpu_milli,memory_mib,creation_time,deletion_time,scheduled_time\ninf,1,0,9,0\n1,1,0,inf,0\n",
         "r.csv: no request was scheduled and deleted"),
    ],
)  # fmt: skip
def test_wrong_lives_are_told_where(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="latin1")
    with pytest.raises(WorkloadError) as caught:
        read_lives(tmp_path / name)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("series,timestamp,value\nec2_cpu,noon,1\n", "n.csv: timestamp, row 2: 'noon' is no time"),
        ("series,timestamp,value\nec2_cpu,2014-02-14 00:00:00,much\n", "n.csv: value, row 2: 'much' is no number"),
        ("series,timestamp,value\nnet,2014-02-14 00:00:00,1\n", "n.csv: series: none has cpu in its name"),
        ("series,timestamp,value\nec2_cpu,2014-02-14 00:00:00,1\n", "n.csv: holds 0 hours, at least one day is needed"),
        (
            "series,timestamp,value\ncpu,0001-01-02 00:00:00,1\ncpu,9999-01-01 00:00:00,1\n",
            "n.csv: timestamp: 3,651,693 days of 1 series are too many",
        ),
        (
            "series,timestamp,value\n"
            + "".join(f"cpu,2014-02-14 {h:02d}:{m:02d}:00,-1\n" for h in range(24) for m in range(0, 60, 5)),
            "n.csv: cpu of 'cpu': expected numbers of 0 or more",
        ),
        ("machine,ts,cpu_pct\nm,0,1\n", "n.csv has no mem_pct"),
    ],
)
def test_a_wrong_trace_is_told_where(tmp_path, text, message):
    (tmp_path / "n.csv").write_text(text)
    with pytest.raises(WorkloadError) as caught:
        read_trace(tmp_path / "n.csv")
    assert str(caught.value) == message


DAYS = np.full((1, 288), 5.0)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"days": ["a"], "cpu_a": np.full((1, 288), "x"), "machine_a": ["h"]}, "could not convert string to float"),
        ({"days": ["a"], "cpu_a": DAYS * np.nan, "machine_a": ["h"]}, "cpu of 'h': expected numbers of 0 or more"),
        ({"days": ["a"], "cpu_a": -DAYS, "machine_a": ["h"]}, "cpu of 'h': expected numbers of 0 or more"),
        ({"days": np.zeros(0), "cpu_a": DAYS}, "days: there are none"),
        ({"days": "a", "cpu_a": DAYS, "machine_a": ["h"]}, "iteration over a 0-d array"),
        ({"days": ["b"], "cpu_a": DAYS}, "day b has no machine_b"),
        ({"machines": ["a"], "columns": ["cpu_r", "mem_u"], "x_a": np.zeros(9)}, "too many indices"),
        ({"machines": np.zeros(0), "columns": ["cpu_r", "mem_u"]}, "machines: there are none"),
        (
            {"machines": ["a"], "columns": ["cpu_r", "mem_u"], "x_a": np.ones((9, 2))},
            "holds 0.15 hours, at least one day",
        ),
    ],
)
def test_a_wrong_array_is_told(tmp_path, arrays, message):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(WorkloadError) as caught:
        read_trace(tmp_path / "t.npz")
    assert str(caught.value).startswith(f"t.npz: {message}")


def test_the_parts_have_nothing_in_common():
    """No source and no day of one is in both; together they have every source."""
    days = np.zeros((80, 288), np.float32)
    trace = Trace(
        family="t", cell_s=300.0, cpu=days, memory=None, sources=[range(k, k + 2) for k in range(0, 80, 2)],
        names=[f"v{k}" for k in range(40)],
    )  # fmt: skip
    tuning, held_out = part_of(trace, "tuning"), part_of(trace, "held-out")
    assert not set(tuning.names) & set(held_out.names)
    assert sorted([*tuning.names, *held_out.names]) == sorted(trace.names)
    rows = [{row for days in part.sources for row in days} for part in (tuning, held_out)]
    assert not rows[0] & rows[1]


@pytest.mark.skipif(not DATA.is_dir(), reason="the traces are not beside the project")
@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("bitbrains_rnd_week.npz", 499),
        ("gcd2011_vms.npz", 173),
        ("planetlab_cpu.npz", 2_768),
        ("smd_1min.npz", 4),
        ("alibaba2018_hosts.csv.gz", 8),
        ("nab_aws.csv.gz", 5),
    ],
)
def test_the_traces_themselves_are_read(name, sources):
    """All their sources, between idle and full, without gaps."""
    trace = read_trace(DATA / name)
    assert len(trace.sources) == sources
    assert np.isfinite(trace.cpu).all()
    assert 0 <= trace.cpu.min() <= trace.cpu.max() <= 1
