"""What a load watcher answers, by rows of windows; no deviation without its mean, whatever is unknown."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.tables.window_table import decode_table, encode_table
from scorer.kubernetes.load_watcher.answer import Answer, make_answer
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from tests.window_tables import GIB, WINDOWS_S, window_table

NOW_S = 1_795_301_775.5
CPU, MEMORY = RESOURCES.index("cpu"), RESOURCES.index("memory")
QUARTER = WINDOWS_S.index(900)


def nodes_of(*ages_s: float, **columns: dict[int, float]) -> Snapshot:
    """Return nodes n0, n1, ... whose newest samples have these ages; ``columns``: values by row of the 15 minutes."""
    names = [f"n{row}" for row in range(len(ages_s))]
    table = decode_table(window_table(names, utilization=0.25, capacity=(16.0, 64 * GIB), at=NOW_S))
    changed = {name: column.copy() for name, column in table.columns.items()}
    changed["at"][:] = NOW_S - np.array(ages_s)
    changed["end"][:] = changed["at"] + 7
    for column, values in columns.items():
        name, _, resource = column.partition("_of_")
        whole = changed[name]
        part = whole[QUARTER] if name in ("mean", "std") else whole
        for row, value in values.items():
            part[(RESOURCES.index(resource), row) if resource else row] = value
    return build_snapshot([decode_table(encode_table(table.header, changed, table.names))], {}, {})


def answer_of(snapshot: Snapshot, now_s: float = NOW_S) -> Answer:
    """Return the answer, which there is."""
    answer = make_answer(snapshot, 900, 60.0, now_s)
    assert answer is not None
    return answer


def body_of(snapshot: Snapshot, now_s: float = NOW_S) -> dict[str, Any]:
    """Return the body as a client reads it."""
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer_of(snapshot, now_s).body))
    return body


def figures_of(snapshot: Snapshot, node: str = "n0") -> dict[tuple[str, str], float]:
    """Return a node's values by type and operator, each of which is there once."""
    listed = body_of(snapshot)["data"]["NodeMetricsMap"][node]["metrics"]
    found = {(one["type"], one["operator"]): one["value"] for one in listed}
    assert len(found) == len(listed)
    return found


def test_the_body_is_that_of_a_load_watcher() -> None:
    """All of it, in percent of the capacity; the end is that of the newest sample, not that of its slot."""
    end = math.floor(NOW_S - 3)
    figures = [
        {"name": "windward", "type": kind, "operator": operator, "rollup": "15m", "value": value}
        for kind in ("CPU", "Memory")
        for operator, value in (("AVG", 25.0), ("STD", 2.5))
    ]
    body = body_of(nodes_of(3))
    for one in body["data"]["NodeMetricsMap"]["n0"]["metrics"]:
        one["value"] = round(one["value"], 3)
    assert body == {
        "timestamp": end,
        "window": {"duration": "15m", "start": end - 900, "end": end},
        "source": "Windward",
        "data": {"NodeMetricsMap": {"n0": {"metrics": figures, "tags": {}, "metadata": {}}}},
    }


@pytest.mark.parametrize(
    ("unknown", "left"),
    [
        ("mean_of_cpu", {"Memory"}),
        ("std_of_cpu", {"Memory"}),
        ("capacity_of_cpu", {"Memory"}),
        ("std_of_memory", {"CPU"}),
        ("mean_of_nic", {"CPU", "Memory"}),
    ],
)
def test_mean_and_deviation_are_listed_together_or_not_at_all(unknown: str, left: set[str]) -> None:
    """One unknown figure leaves out both of its resource, and none of another."""
    found = figures_of(nodes_of(3, **{unknown: {0: math.nan}}))
    assert found.keys() == {(kind, operator) for kind in left for operator in ("AVG", "STD")}


def test_a_capacity_of_0_is_unknown() -> None:
    """No value is infinite, which JSON does not have."""
    assert {kind for kind, _ in figures_of(nodes_of(3, capacity_of_memory={0: 0.0}))} == {"CPU"}


def test_a_node_without_any_figure_is_left_out() -> None:
    """And where that is the only one, nothing is known."""
    nothing = {"mean_of_cpu": {0: math.nan}, "std_of_memory": {0: math.nan}}
    found = answer_of(nodes_of(3, 3, **nothing))
    assert (set(found.body.data.nodes), found.left_out) == ({"n1"}, 1)
    assert make_answer(nodes_of(3, **nothing), 900, 60.0, NOW_S) is None


@pytest.mark.parametrize(
    ("ages_s", "listed", "silent", "end_age_s"),
    [
        ([3, 5, 59], {"n0", "n1", "n2"}, False, 59),
        ([3, 61, 5], {"n0", "n2"}, False, 5),
        ([3, *[900] * 99], {"n0"}, False, 3),
        ([900, 7200], {"n0", "n1"}, True, 7200),
    ],
    ids=["fresh", "one stale", "99 of 100 stale", "all"],
)
def test_a_stale_node_is_left_out_unless_all_are(
    ages_s: list[float], listed: set[str], silent: bool, end_age_s: float
) -> None:
    """Then the pipeline is silent: the last known load of all, with its true end."""
    found = answer_of(nodes_of(*ages_s))
    assert set(found.body.data.nodes) == listed
    assert (found.silent, found.left_out) == (silent, len(ages_s) - len(listed))
    assert found.body.window.end == math.floor(NOW_S - end_age_s)


def test_an_interval_longer_than_the_limit_is_no_fault() -> None:
    """A node that reports once a minute is stale after three of its intervals."""
    snapshot = nodes_of(3, 150, interval_s={1: 60.0})
    assert set(answer_of(snapshot).body.data.nodes) == {"n0", "n1"}
    assert set(answer_of(snapshot, NOW_S + 31).body.data.nodes) == {"n0"}


def test_the_clock_of_a_node_is_corrected() -> None:
    """One that is 4 s ahead has an end on the broker's clock."""
    assert answer_of(nodes_of(-1, skew={0: 4.0})).body.window.end == math.floor(NOW_S - 3)


@pytest.mark.parametrize("ages_s", [(3.0, 30.0, 20.0), (1.0, 2.0), (900.0, 800.0)])
def test_an_answer_holds_until_a_node_becomes_stale(ages_s: tuple[float, ...]) -> None:
    """Until then it is made again equal, and just after it another."""
    snapshot = nodes_of(*ages_s)
    found = answer_of(snapshot)
    if found.silent:
        assert found.until_s == math.inf
    else:
        assert found.until_s == NOW_S - max(ages_s) + 60
        assert answer_of(snapshot, found.until_s) == found
        assert answer_of(snapshot, found.until_s + 0.01) != found


def test_a_window_that_is_not_kept_is_not_replaced_by_another() -> None:
    """Nor are nodes without any data listed."""
    assert make_answer(nodes_of(3), 600, 60.0, NOW_S) is None
    assert make_answer(build_snapshot([], {}, {}), 900, 60.0, NOW_S) is None


@given(
    st.lists(
        st.tuples(
            *[st.sampled_from([0.0, 2.5, math.nan, math.inf])] * 6,
            st.sampled_from([-5.0, 3.0, 61.0, 1e5]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_is_unknown_the_body_is_whole(rows: list[tuple[float, ...]]) -> None:
    """Each listed node has a mean and a deviation of each type it has, all finite; the window has its length."""
    columns = [f"{name}_of_{resource}" for name in ("mean", "std", "capacity") for resource in ("cpu", "memory")]
    given_columns = {column: {row: one[place] for row, one in enumerate(rows)} for place, column in enumerate(columns)}
    found = make_answer(nodes_of(*[one[-1] for one in rows], **given_columns), 900, 60.0, NOW_S)
    if found is None:
        return
    body = msgspec.json.decode(msgspec.json.encode(found.body))
    assert body["window"]["end"] - body["window"]["start"] == 900
    assert body["window"]["end"] <= body["timestamp"]
    assert body["data"]["NodeMetricsMap"]
    for one in body["data"]["NodeMetricsMap"].values():
        assert [each["operator"] for each in one["metrics"]] == ["AVG", "STD"] * (len(one["metrics"]) // 2)
        assert one["metrics"]
        assert all(math.isfinite(each["value"]) for each in one["metrics"])
