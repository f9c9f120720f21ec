"""Which window and which numbers a decision goes by."""

import pytest

from schemas.rpc.request import InvalidRequest
from scorer.ranking.profiles.profile import LoadModel
from tests.scorer.fleets import by_name, cases, fleet, machine, ranked, see, told

NOT_COVERED = {
    "derived: latest snapshot wins, at most 5 kept": "the next table replaces a table: there is no older one"
}
"""Rows that Windward cannot be asked, and why."""


LENGTHS_S = {"5m": 300, "10m": 600, "15m": 900}


@pytest.mark.parametrize(
    "row", [row for row in cases("load_watcher", "window") if row["name"] not in NOT_COVERED], ids=by_name
)
def test_a_window_not_kept_falls_back_to_the_next_shorter(row):
    inputs = row["inputs"]
    kept = {}
    for name, snapshots in inputs["caches"].items():
        (snapshot,) = snapshots
        for host, value in snapshot.items():
            kept.setdefault(host, {})[str(LENGTHS_S[name])] = {"cpu": value, "memory": 0}
    offline = fleet(*(machine(host, windows=windows) for host, windows in kept.items()))
    answer = told(offline, {"window": LENGTHS_S[inputs["asked"]]})
    assert {host: each["resources"]["cpu"]["mean"] for host, each in answer.items()} == row["expected"]["values"]


def test_each_machine_goes_by_its_longest_covered_window():
    thin = {"cpu": {"mean": 5, "coverage": 0.1}, "memory": {"mean": 5, "coverage": 0.1}}
    young = {"300": {"cpu": 9, "memory": 9}, "3600": thin}
    offline = fleet(
        machine("old", windows={"300": {"cpu": 1, "memory": 1}, "3600": {"cpu": 2, "memory": 2}}),
        machine("young", windows=young),
        machine("younger", windows={"300": thin, "3600": thin}),
    )
    machines = see(offline)
    assert machines.window_s.tolist() == [3600, 300, 3600]
    assert machines.mean[0].tolist() == [2, 9, 5]
    assert machines.warming.tolist() == [False, False, True]
    assert see(offline, None, LoadModel(window="shortest")).mean[0].tolist() == [1, 9, 5]


def test_a_requests_own_window_must_be_kept():
    offline = fleet(machine("m", usage={"cpu": 1, "memory": 1}))
    assert ranked(offline, window_s=300).machines.window_s.tolist() == [300]
    with pytest.raises(InvalidRequest, match="window_s: no window of 120 s is kept; there are 300, 900, 3600"):
        ranked(offline, window_s=120)
