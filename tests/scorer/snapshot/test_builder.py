"""The snapshot: whose row counts, what is used again, which windows count."""

import gc
import weakref

import numpy as np
import pytest

from schemas.messages.operator import DEFAULT, OperatorFacts
from schemas.messages.sample import MachineFacts
from schemas.resources import RESOURCES
from schemas.tables.window_table import WARMING_COVERAGE
from scorer.commands.shared.fleet_file import read_fleet
from scorer.ranking.inputs import Tables
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import LONGEST_COVERED, choose_windows
from tests.scorer.fleets import machine, request
from tests.scorer.snapshot.tables import table


def mean_of(snapshot, name):
    return float(snapshot.windows().mean[0, snapshot.roster.index[name]])


def test_tables_of_several_partitions_are_joined():
    snapshot = build_snapshot([table(["a", "b"]), table(["c"], mean=3.0)], {}, {})
    assert snapshot.names == ("a", "b", "c")
    assert [mean_of(snapshot, name) for name in snapshot.names] == [1, 1, 3]
    assert np.isnan(snapshot.column("peak_today")).all()
    assert len(build_snapshot([], {}, {})) == 0


@pytest.mark.parametrize(("first", "second", "expected"), [(100, 200, 2.0), (200, 100, 1.0), (100, 100, 2.0)])
def test_of_two_rows_the_newer_counts(first, second, expected):
    """A machine in two tables is the one with the newer sample, also when only the numbers change."""
    tables = [table(["a", "b"], at=first), table(["b"], at=second, mean=2.0)]
    snapshot = build_snapshot(tables, {}, {})
    assert snapshot.names == ("a", "b")
    assert mean_of(snapshot, "b") == expected
    swapped = [table(["a", "b"], at=second), table(["b"], at=first, mean=2.0)]
    again = build_snapshot(swapped, snapshot.sources.facts, snapshot.sources.operator, previous=snapshot)
    assert mean_of(again, "b") == (2.0 if first >= second else 1.0)
    assert again.sources is snapshot.sources, "names and rules are used again"


def test_machines_without_data_are_there():
    facts = {"f": MachineFacts(v=1, machine="f", boot=0, at=0, capacity={"cpu": 4.0}, labels={"x": "y"})}
    operator = {"o": OperatorFacts(cordon=True, capacity={"cpu": 6.0}), DEFAULT: OperatorFacts(labels={"all": "yes"})}
    snapshot = build_snapshot([table(["a"])], facts, operator, ledger_machines=("l", "a"))
    assert snapshot.names == ("a", "f", "o", "l")
    assert snapshot.has_data.tolist() == [True, False, False, False]
    assert (snapshot.machines_with_data, snapshot.newest_at) == (1, snapshot.seen_at[0])
    assert snapshot.seen_at[1:].tolist() == [-np.inf] * 3
    assert snapshot.capacity[0, :3].tolist() == [10.0, 4.0, 6.0]
    assert np.isnan(snapshot.windows().mean[:, 1:]).all()
    assert snapshot.rules.labels(1) == {"x": "y", "all": "yes"}
    assert snapshot.rules.cordon.tolist() == [False, False, True, False]


def test_machines_of_the_ledger_alone_have_columns():
    """Without a single window table (a server that came back empty) the ledger's machines are there, without data."""
    snapshot = build_snapshot((), {}, {}, ledger_machines=("a", "b", "c"))
    assert sorted(snapshot.names) == ["a", "b", "c"]
    for name in ("at", "capacity", "end", "interval_s"):
        assert snapshot.column(name).shape[-1] == 3
    assert (snapshot.machines_with_data, snapshot.newest_at) == (0, -np.inf)
    assert snapshot.windows().mean.shape == (len(RESOURCES), 3)
    assert np.isnan(snapshot.allocatable).all()


LEAST = float(WARMING_COVERAGE)
LITTLE = LEAST - 0.1


def chosen(*coverages, window_s=LONGEST_COVERED):
    """The windows of one machine whose cpu and memory are covered so far in each window; None: no data there."""
    column = np.zeros((len(coverages), len(RESOURCES), 1))
    mean = np.full_like(column, np.nan)
    for place, of in enumerate(coverages):
        for resource, coverage in zip(("cpu", "memory"), of, strict=True):
            if coverage is not None:
                at = (place, RESOURCES.index(resource), 0)
                column[at], mean[at] = coverage, 1.0
    read = {"coverage": column, "mean": mean}
    return choose_windows(
        lambda name, place: read[name][place], tuple(300 * 4**n for n in range(len(coverages))), window_s, 1
    )


@pytest.mark.parametrize(
    ("of", "expected"),
    [((1.0, 0.75), 0.75), ((0.75, None), 0.75), ((None, 1.0), 1.0), ((None, None), 0.0), ((0.75, 0.0), 0.0)],
)
def test_the_resource_that_is_covered_least_counts(of, expected):
    found = chosen(of, window_s=300)
    assert found.coverage.tolist() == [expected]
    assert found.warming.tolist() == [expected < WARMING_COVERAGE]


@pytest.mark.parametrize(
    ("coverages", "window_s", "warming"),
    [
        ([1.0, 1.0, 1.0], 4800, False),
        ([1.0, 1.0, LEAST], 4800, False),
        ([1.0, 1.0, LITTLE], 1200, False),
        ([1.0, LEAST, LITTLE], 1200, False),
        ([1.0, LITTLE, LITTLE], 300, False),
        ([LEAST, LITTLE, LITTLE], 300, False),
        ([LITTLE, LITTLE, LITTLE], 4800, True),
        ([LITTLE, LITTLE, LITTLE / 2], 1200, True),
        ([LITTLE, LITTLE / 2, LITTLE / 2], 300, True),
    ],
)
def test_the_longest_window_that_is_covered(coverages, window_s, warming):
    """Just covered is covered; where none is, the longest of the best covered ones."""
    found = chosen(*((each, None) for each in coverages))
    assert found.window_s.tolist() == [window_s]
    assert found.warming.tolist() == [warming]


def facts(**labels):
    return MachineFacts(v=1, machine="m", boot=1, at=1.0, labels=labels, capacity={"cpu": float(len(labels))})


OPERATOR = {"b": OperatorFacts(labels={"zone": "operator"})}
BEFORE = {"a": facts(rack="r1", zone="z1"), "b": facts(rack="r2", zone="z1"), "c": facts(rack="r1")}


def codes(snapshot, key):
    column = snapshot.rules.label(key)
    return [column.values[code] if code >= 0 else "" for code in column.codes]


def test_changed_facts_give_what_all_facts_give():
    first = build_snapshot((), BEFORE, OPERATOR)
    assert codes(first, "rack") == ["r1", "r2", "r1"]
    after = {"a": facts(zone="z2"), "b": facts(zone="z9"), "c": facts(rack="r1", new="n")}
    second = build_snapshot((), after, OPERATOR, previous=first)
    anew = build_snapshot((), after, OPERATOR)
    for key in ("rack", "zone", "new", "nothing"):
        assert codes(second, key) == codes(anew, key)
    assert np.array_equal(second.rules.capacity_agent, anew.rules.capacity_agent, equal_nan=True)
    assert codes(first, "rack") == ["r1", "r2", "r1"]


def test_a_label_that_no_machine_has_takes_no_memory():
    rules = build_snapshot((), BEFORE, OPERATOR).rules
    assert rules.label("x1") is rules.label("x2")


def test_a_snapshot_and_a_ranking_of_it_are_freed_at_once():
    profile, kept = load_profiles().choose(), Tables()
    offline = read_fleet({"machines": [machine("m1", 8, 64e9, usage={"cpu": 1, "memory": 1e9})]})
    gc.collect()
    gc.disable()
    try:
        ranking = rank(request(cpu=1, memory=1e9), offline.inputs(profile, kept))
        ends = [weakref.ref(each) for each in (ranking, ranking.machines.table, offline.snapshot)]
        del ranking, kept, offline
        assert [end() for end in ends] == [None] * len(ends)
    finally:
        gc.enable()
