"""Workloads from files: what is read, and what a wrong file is told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.replay.workload import WorkloadError
from ops.replay.worlds.workload_file import build, is_workload, read_workload
from schemas.resources import CPU, MEMORY

TABLES = {
    "machines": "machine,cores,mem_capacity_mib,labels\nm1,8,1024,zone=a\nm2,16,2048,zone=b\n",
    "instances": "instance,asked_cores,asked_mem_mib,start_s,end_s,kind,labels\n"
    "web,2,512,0,1200,nginx,app=web\ndb,4,256,300,900,redis,\n",
    "usage": "instance,ts,cpu_cores,mem_mib\n"
    "web,0,1,100\nweb,300,1,100\nweb,600,1,100\nweb,900,1,100\ndb,300,2,50\ndb,600,2,50\n",
}

HEAD = "instance,asked_cores,start_s,end_s"
USE = "instance,ts,cpu_cores\n"


def folder(at, **changed):
    at.mkdir(exist_ok=True)
    for name, text in (TABLES | changed).items():
        (at / f"{name}.csv").write_text(text)
    return at


def test_a_folder_of_tables_is_a_workload(tmp_path):
    """Amounts, times, labels and usage are those of the tables."""
    path = folder(tmp_path / "mine")
    assert is_workload(path)
    found = read_workload(path)
    assert list(found.machines) == ["m1", "m2"]
    assert found.capacity[[CPU, MEMORY]].tolist() == [[8.0, 16.0], [2.0**30, 2.0**31]]
    assert (found.start.tolist(), found.life.tolist(), found.minutes) == ([0, 5], [20, 10], 20)
    assert found.request(0).amounts()[:2] == (2.0, 2.0**29)
    assert (found.request(0).kind, found.request(0).labels, found.request(1).labels) == ("nginx", {"app": "web"}, {})
    assert found.machine_labels[1] == {"zone": "b"}
    assert found.usage.of(0, CPU, 0, 20).tolist() == [1.0] * 20
    assert found.usage.of(1, CPU, 5, 20).tolist() == [2.0] * 15  # the last value holds
    assert found.usage.of(1, MEMORY, 5, 6).tolist() == [50 * 2.0**20]


def test_an_instance_may_have_a_class(tmp_path):
    """It goes into the request; an empty value is prod."""
    table = HEAD + ",priority_class\nweb,1,60,90,batch\ndb,1,0,9,\n"
    found = read_workload(folder(tmp_path / "mine", instances=table))
    assert [found.request(each).priority_class for each in (0, 1)] == ["prod", "batch"]  # by their start
    assert found.lower.tolist() == [False, True]


def test_arrays_hold_the_same(tmp_path):
    """An ``.npz`` with instances is a workload; expected use goes into the request."""
    path = tmp_path / "mine.npz"
    np.savez(
        path, machine=["m1"], cores=[8.0], ts=np.arange(3) * 60.0, instance=["a"], asked_cores=[1.0], start_s=[0.0],
        end_s=[180.0], cpu_cores=[[0.1, 0.2, 0.3]], expected_cores=[0.5],
    )  # fmt: skip
    assert is_workload(path)
    found = read_workload(path)
    assert found.usage.of(0, CPU, 0, 3) == pytest.approx([0.1, 0.2, 0.3])
    assert found.request(0).expected == {"cpu": 0.5}


def test_the_shortest_step_is_the_length_of_a_cell(tmp_path):
    """Also where most steps are longer, because cells of the whole fleet are missing."""
    lines = "instance,ts,cpu_cores\nweb,0,1\ndb,60,2\nweb,180,3\ndb,300,4\nweb,420,5\n"
    found = read_workload(folder(tmp_path / "mine", usage=lines))
    assert found.minutes == 8
    assert found.usage.of(0, CPU, 0, 8).tolist() == [1, 1, 1, 3, 3, 3, 3, 5]
    assert found.usage.of(1, CPU, 0, 8).tolist() == [2, 2, 2, 2, 2, 4, 4, 4]


def test_an_instance_without_an_end_runs_on(tmp_path):
    """It is there until after the last cell, at any time of the epoch."""
    found = read_workload(folder(tmp_path / "mine", instances=HEAD + "\nweb,1,0,\ndb,1,300,600\n"))
    assert found.life[0] > found.minutes
    assert found.life[1] == 5
    late_s = 1.7e9
    np.savez(tmp_path / "late.npz", **arrays(ts=late_s + np.arange(3) * 60.0, start_s=[late_s] * 2,
                                             end_s=[np.nan, late_s + 60.0]))  # fmt: skip
    late = read_workload(tmp_path / "late.npz")
    assert late.life[0] > late.minutes
    assert late.life[1] == 1


def test_a_given_zero_differs_from_no_amount(tmp_path):
    """A profile's default for instances without an amount is not for them."""
    both = "instance,asked_cores,asked_mem_mib,start_s,end_s\nweb,0,0,0,1200\ndb,4,256,300,900\n"
    given = read_workload(folder(tmp_path / "given", instances=both)).request(0)
    assert given.given_amounts()[:3] == (0.0, 0.0, None)
    cores = f"{HEAD}\nweb,0,0,1200\ndb,4,300,900\n"
    assert read_workload(folder(tmp_path / "none", instances=cores)).request(0).given_amounts()[:2] == (0.0, None)


@pytest.mark.parametrize(
    ("table", "text", "message"),
    [
        ("machines", "machine,cores\nm1,8\nm1,9\n", "machine, row 3: 'm1' is there twice"),
        ("machines", "machine,cores\nm1,0\n", "cores, row 2: expected a number above 0, got 0"),
        ("machines", "machine,cores\nm1,many\n", "cores, row 2: 'many' is no number"),
        ("machines", "machine,cores\nm1\n", "row 2: 1 values, the header has 2"),
        ("machines", "machine\nm1\n", "has no column cores"),
        ("machines", "machine,cores,cores\nm1,8,9\n", "has two columns cores"),
        ("machines", "machine,cores\n\nm1,8\n", "row 2: 0 values, the header has 2"),
        ("machines", "machine,cores\n", "mine: machine: there are no machines"),
        ("machines", "machine,cores\nm1,1e308\n", "cores, row 2: expected a number of at most 1e+09, got 1e+308"),
        ("machines", "machine,cores\n" + "m" * 200_000 + ",8\n",
         "machines.csv: field larger than field limit (131072)"),
        ("instances", HEAD + "\nweb,1,9,5\ndb,1,0,9\n", "end_s, row 2: the instance ends before it starts"),
        ("instances", HEAD + "\nweb,-1,0,60\ndb,1,0,9\n", "asked_cores, row 2: expected a number of 0 or more, got -1"),
        ("instances", HEAD + "\nweb,1,,60\ndb,1,0,9\n", "start_s, row 2: expected a number, got nan"),
        ("instances", HEAD + "\nweb,1,0,1e300\ndb,1,0,9\n",
         "end_s, row 2: expected a number of at most 1e+11, got 1e+300"),
        ("instances", "name,asked_cores,start_s,end_s\nweb,1,0,60\n", "has no column instance"),
        ("instances", HEAD + ",labels\nweb,1,0,60,zone\ndb,1,0,9,\n",
         "labels, row 2: expected key=value,key=value, got 'zone'"),
        ("instances", HEAD + ",priority_class\nweb,1,0,60,\ndb,1,0,9,gold\n",
         "priority_class, row 3: expected prod, mid, batch, free, got 'gold'"),
        ("usage", USE + "cache,0,1\n", "instance, row 2: 'cache' is not in instances.csv"),
        ("usage", "instance,ts\nweb,0\n", "has no column cpu_cores"),
        ("usage", USE + "web,0,-1\n", "cpu_cores, row 2: expected from 0 to 1e+09, got -1"),
        ("usage", USE + "", "has no lines"),
        ("usage", USE + "web,0,1\ndb,0,1\nweb,60,1\nweb,60,2\n",
         "ts, row 5: 'web' has a line in this cell of 60 s already"),
        ("usage", USE + "web,0,1e300\n", "cpu_cores, row 2: expected from 0 to 1e+09, got 1e+300"),
        ("usage", USE + "web,0,1\nweb,1e300,1\n", "ts, row 3: expected a time of at most 1e+11 s, got 1e+300"),
        ("usage", USE + "web,0,1\nweb,,1\n", "ts, row 3: expected a time of at most 1e+11 s, got nan"),
        ("usage", USE + "web,0,1\nweb,0.001,1\n", "mine: ts: 2 cells of 0.001 s are less than a minute"),
        ("usage", USE + "web,0,1\nweb,99999999999,1\n",
         "mine: ts: 3,333,333,333 minutes of 2 rows are too many: at most 200,000,000"),
        ("usage", USE + "web,0,1\nweb,1,1\nweb,2,1\nweb,99999999999,1\n", "ts: steps of 1 s over 1e+11 s are too many"),
        ("usage", USE + "web,0,1\nweb,300,1\nweb,750,1\n",
         "ts, row 4: expected a whole number of cells of 300 s, the shortest step, after 0, got 750"),
        ("instances", HEAD + "\n", "mine/usage.csv: instance, row 2: 'web' is not in instances.csv"),
        ("instances", HEAD + "\nweb,1,0,60\ndb,1,0,9\nweb,1,0,9\n", "instance, row 4: 'web' is there twice"),
        ("instances", HEAD + "\nweb,1,-90,-60\ndb,1,-9,-2\n",
         "mine: instance: none runs after the first cell of ts begins"),
        ("instances", HEAD + "\nweb,1,50,60\ndb,-1,0,9\n",
         "asked_cores, row 3: expected a number of 0 or more, got -1"),
        ("instances", HEAD + "\n,1,50,60\n", "instance, row 2: expected a name"),
        ("usage", USE + "web,noon,1\n", "ts, row 2: 'noon' is no number"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_told_where(tmp_path, table, text, message):
    with pytest.raises(WorkloadError) as caught:
        read_workload(folder(tmp_path / "mine", **{table: text}))
    assert str(caught.value) == (
        message if message.startswith(("mine", "machines.csv")) else f"mine/{table}.csv: {message}"
    )


def arrays(**changed):
    """Two instances on one machine for three minutes, as arrays."""
    return {
        "machine": ["m"], "cores": [8.0], "ts": np.arange(3) * 60.0, "instance": ["a", "b"], "asked_cores": [1.0, 1.0],
        "start_s": [0.0, 0.0], "end_s": [180.0, 180.0], "cpu_cores": np.ones((2, 3)), **changed,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cores": ["a"]}, "cores: expected numbers, got text"),
        ({"cpu_cores": np.full((2, 3), 1j)}, "cpu_cores: expected numbers, got complex128"),
        ({"cpu_cores": np.ones((3, 2))}, "cpu_cores: has the shape (3, 2), expected (2, 3)"),
        ({"machine": "m"}, "machine: has the shape (), expected (1,)"),
        ({"ts": np.zeros((3, 1))}, "ts: has the shape (3, 1), expected (3,)"),
        ({"ts": [0.0, 60.0, np.nan]}, "ts, row 3: expected a time of at most 1e+11 s"),
        ({"ts": [0.0, 60.0, 90.0]}, "ts, row 3: the times are not evenly spaced"),
        ({"ts": [0.0, -60.0, -120.0]}, "ts, row 2: the times are not evenly spaced"),
        ({"ts": [], "cpu_cores": np.ones((2, 0))}, "ts: there are no cells"),
        ({"fill_s": np.nan}, "fill_s: expected 0 or more seconds, got nan"),
        ({"fill_s": [1.0, 2.0]}, "fill_s: has the shape (2,), expected ()"),
        ({"cpu_cores": np.full((2, 3), 1e38)}, "cpu_cores, row 1, cell 1: expected from 0 to 1e+09, got 1e+38"),
        ({"labels": ["=", "x"]}, "labels, row 1: expected key=value,key=value, got '='"),
    ],
)
def test_a_wrong_array_is_told_where(tmp_path, changed, message):
    np.savez(tmp_path / "mine.npz", **arrays(**changed))
    with pytest.raises(WorkloadError) as caught:
        read_workload(tmp_path / "mine.npz")
    assert str(caught.value) == f"mine.npz: {message}"


def test_other_columns_are_ignored(tmp_path):
    """Also those of another table; a mark of the encoding and empty lines at the end are none."""
    path = folder(
        tmp_path / "mine",
        machines="\ufeffmachine,cores,fill_s,colour\nm1,8,x,red\n\n\n",
        instances=HEAD + ",machine,ts,cpu_cores\nweb,1,0,60,m9,x,y\ndb,1,0,9,m9,x,y\n",
    )
    found = read_workload(path)
    assert (list(found.machines), list(found.instances), found.minutes) == (["m1"], ["web", "db"], 20)


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04garbage"])
def test_a_damaged_file_is_no_workload(tmp_path, raw):
    (tmp_path / "mine.npz").write_bytes(raw)
    assert not is_workload(tmp_path / "mine.npz")
    with pytest.raises(WorkloadError, match=r"^mine.npz: is no .npz of numpy: "):
        read_workload(tmp_path / "mine.npz")


WORDS = st.text(max_size=6) | st.sampled_from(["batch", "free", "Batch", "prod ", "", "a=b", "\x00", "=", "mid"])


@given(priority_class=st.lists(WORDS, min_size=2, max_size=3), kind=st.lists(WORDS, min_size=2, max_size=2))
def test_whatever_the_words_are_it_is_a_workload_or_one_error(priority_class, kind):
    """Each instance that is read has a request of one of the classes; else the message names file and column."""
    given = arrays(priority_class=priority_class, kind=kind)
    try:
        found = build({name: np.array(value) for name, value in given.items()}, "mine")
    except WorkloadError as error:
        assert str(error).startswith("mine: priority_class")
    else:
        classes = [found.request(each).priority_class for each in (0, 1)]
        assert found.lower.tolist() == [one in {"batch", "free"} for one in classes]


def test_a_missing_table_is_named(tmp_path):
    path = folder(tmp_path / "mine")
    (path / "usage.csv").unlink()
    with pytest.raises(WorkloadError, match=r"^mine: has no usage.csv$"):
        read_workload(path)
    (tmp_path / "none").mkdir()
    with pytest.raises(WorkloadError, match=r"^none: is neither a workload \(machines.csv, .*\) nor a recording$"):
        read_workload(tmp_path / "none")
