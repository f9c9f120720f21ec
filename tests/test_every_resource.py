"""Every resource goes all the way, in values: message, fold, table, state, snapshot, ranking, ledger.

And one more than there are goes the same way (`tests.support.fifth_resource`): an entry in `schemas.resources` is all
that it takes.
"""

import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from schemas.messages.sample import Moments
from schemas.resources import ABOUT, RESOURCES, UNITS
from schemas.rpc.request import InvalidRequest, read_request
from schemas.tables.window_table import decode_table
from scorer.ledger.view.residents import Residents, by_machine
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.explain import answer as answer_of
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from scorer.snapshot.builder import build_snapshot
from streams.fold.batch import Arrived
from streams.fold.peaks import Zone
from streams.fold.ring import HOURS, S
from streams.fold.table import Table
from streams.state.checkpoint import encode_hour, encode_position, encode_vitals
from streams.state.partition import Partition
from tests.streams.batches import START
from tests.streams.golden_values import decode_ring

ROOT = Path(__file__).parents[1]
MACHINES = ("busy", "calm", "without")
NOW_S = START + 3_600.0


def unit(name):
    return 1.0 if ABOUT[name].is_share else 1000.0


def message(machine, name, slot):
    """A sample as any agent may write it: 0.8 of the resource on ``busy``, 0.2 on ``calm``; cpu and memory alike."""
    used = {"busy": 0.8, "calm": 0.2}
    found = {other: Moments(10, 100.0, 0.0, 100.0, 1000.0) for other in ("cpu", "memory")}
    if machine in used:
        mean = used[machine] * unit(name)
        found[name] = Moments(10, mean, 0.0, min(mean * 1.25, unit(name)), unit(name))
    elif name in found:
        del found[name]
    sample = {"type": "sample", "v": 1, "machine": machine, "boot": 1, "seq": slot, "interval_s": 10}
    return msgspec.json.encode(sample | {"at": START + slot * 10 + 5} | found)


def table_of(name):
    """The windows of an hour, by a worker that stopped in the middle and resumed from what it had written."""
    state = Partition(0, Table((300, 3600), Zone()))
    for part in (range(180), range(180, 360)):
        values = [message(machine, name, slot) for slot in part for machine in MACHINES]
        state.fold([Arrived(n, value, NOW_S, None) for n, value in enumerate(values)])
        ring = state.ring
        positions = {p: encode_position(ring, p) for p in range(S)}
        hours = {h: encode_hour(ring, h) for h in range(HOURS)}
        state = Partition(0, Table((300, 3600), Zone()), decode_ring(encode_vitals(ring), positions, hours))
    state.refresh_table()
    return decode_table(state.table.encode(state.ring, {}))


def profile_of(name):
    text = f"""
        [[filters]]
        use = "fits"
        [[filters]]
        use = "usage_threshold"
        thresholds = {{ {name} = 0.95 }}
        [[scores]]
        use = "global_variance"
        weight = 1.0
        normalise = "min-max"
        weights = {{ {name} = 1.0 }}
        [[scores]]
        use = "load_variation_risk"
        weight = 1.0
        resources = ["{name}"]
    """
    return parse_profile(text, "one")


def ranked(snapshot, ledger, name, amount):
    """The ranking of a request of that much of one resource."""
    return rank(read_request({name: amount}), RankingInputs(snapshot, ledger, profile_of(name), NOW_S))


@pytest.mark.parametrize("name", RESOURCES)
def test_a_resource_goes_all_the_way(name):
    """It is in every window at its place; the machine that uses least of it is taken, until it is promised."""
    table = table_of(name)
    assert table.header.resources == RESOURCES
    snapshot = build_snapshot([table], {}, {})
    row, whole = RESOURCES.index(name), unit(name)
    busy, calm, without = (snapshot.roster.index[machine] for machine in MACHINES)
    for window_s in (300, 3600):
        windows = snapshot.windows(window_s)
        np.testing.assert_allclose(windows.mean[row, [busy, calm]], [0.8 * whole, 0.2 * whole])
        assert np.isnan(windows.mean[row, without])
        assert windows.filled[row].tolist() == [window_s // 10, window_s // 10, 0]
        np.testing.assert_allclose(windows.picked("max")[row, calm], 0.25 * whole)
        np.testing.assert_allclose(windows.picked("percentile")[row, :, calm], [0.2 * whole] * 4)
        assert not windows.warming.any()
    np.testing.assert_allclose(snapshot.column("peak_today")[row, [busy, calm]], [0.8 * whole, 0.2 * whole])
    np.testing.assert_allclose(snapshot.allocatable[row, [busy, calm]], [whole, whole])

    ledger = LedgerView()
    answer = answer_of(ranked(snapshot, ledger, name, 0.4 * whole))
    assert answer.machine == "calm", answer
    assert f"too much {name} used" in answer.summary
    best = answer.candidates[0].resources[name]
    assert (best["mean"], best["request"]) == (pytest.approx(0.2 * whole), pytest.approx(0.4 * whole))

    reserved = instance_of(read_request({"id": "i", name: 0.4 * whole}), "calm", NOW_S)
    ledger.apply(msgspec.structs.replace(reserved, state="confirmed", started_at=NOW_S))
    placed = Residents(ledger, snapshot.roster).placed()
    allocated = by_machine(placed.amounts, placed.rows, 3)
    np.testing.assert_allclose(allocated[row], [0, 0.4 * whole, 0])
    assert allocated.sum() == pytest.approx(0.4 * whole)
    second = answer_of(ranked(snapshot, ledger, name, 0.5 * whole))
    assert second.machine is None
    assert second.summary.startswith("0/3 feasible")
    assert answer_of(ranked(snapshot, ledger, name, 0.3 * whole)).machine == "calm"


@pytest.mark.parametrize("name", RESOURCES)
def test_a_request_is_counted_as_finely_as_the_resource_says(name):
    """Its decimals, in the amount, the limit and the expected usage."""
    amount = 1 / 3
    wanted = round(amount, ABOUT[name].decimals)
    got = read_request({name: amount, "limits": {name: amount}, "expected": {name: amount}})
    assert (getattr(got, name), got.limits, got.expected) == (wanted, {name: wanted}, {name: wanted})
    assert got.amounts()[RESOURCES.index(name)] == wanted
    assert UNITS[name]


@pytest.mark.parametrize("value", [1.5, 2, "1.5", "100G", "10Gi", "0G", " 3k "])
@pytest.mark.parametrize("name", [name for name in RESOURCES if ABOUT[name].is_share])
def test_a_share_is_refused_where_it_is_none(name, value):
    """An amount of space, or any above 1, is told what the resource is."""
    for params in ({name: value}, {"limits": {name: value}}, {"expected": {name: value}}):
        with pytest.raises(InvalidRequest, match=r"share of time from 0 to 1 .* space is not a resource"):
            read_request(params)


@pytest.mark.slow
def test_one_more_resource_needs_nothing_but_its_entry():
    """With a made-up one these tests hold, and tables, states and messages without it are read."""
    again = [
        "tests/test_every_resource.py::test_a_resource_goes_all_the_way",
        "tests/test_every_resource.py::test_a_request_is_counted_as_finely_as_the_resource_says",
        "tests/streams/state/test_checkpoint.py::test_the_golden_checkpoint_is_read",
        "tests/streams/fold/test_batch.py",
        "tests/test_golden.py",
        "tests/scorer/snapshot/test_builder.py",
        "tests/scorer/ledger/record/test_instance.py",
        "tests/scorer/planning/test_room.py",
        "tests/scorer/classes/test_capacity.py",
        "tests/scorer/rpc/methods/test_moving.py",
        "tests/scorer/commands/planning/test_carry_out.py",
        "tests/ops/exporter",
        *("schemas", "streams", "scorer", "ops"),  # the examples of docstrings
        "--deselect=tests/test_golden.py::test_each_format_is_read_and_written_again",  # they have a column less
    ]
    command = [sys.executable, "-m", "tests.support.fifth_resource", "-v", "-p", "no:cacheprovider", *again]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "test_a_resource_goes_all_the_way[tpu] PASSED" in done.stdout
