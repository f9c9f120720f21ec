"""The live view: keys, 80 columns, one frame as text, a server that goes away; the fleet as the demo sees it."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import redis
from textual.widgets import DataTable, Input, Static

from ops.demo.command import spread
from ops.top import view
from ops.top.app import TopApp
from ops.top.view import TopSettings
from schemas.process.tables import Screen
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import decode_table
from scorer.planning.soon_hot import chances, margins
from scorer.snapshot.builder import build_snapshot
from tests.window_tables import window_table

WINDOWS_S = (300, 900, 3600)


def row(machine, cpu, *, memory=0.5, age_s=3.0, disk=None):
    rest = {"nic": 0.1, "disk": disk}
    return view.Row(machine, (cpu, cpu, cpu), 0.05, (memory, memory, memory), rest, 0.2, cpu, age_s)


ROWS = [
    row("rack-1-node-00001", 0.2, memory=0.9),
    row("rack-1-node-00002", 0.9),
    row("rack-2-node-00003", 0.5, age_s=90, disk=0.7),
]
MOMENT = view.Moment(
    now_s=1_000.0, windows_s=WINDOWS_S, rows=ROWS, std={"cpu": (0.1, 0.1, 0.1)}, waiting=2, scorers=1,
    decisions=[view.Decision(990.0, "db-1 on rack-1-node-00001, 3/3 feasible")],
)  # fmt: skip


def driven(steps, moments=None):
    """Run the application at 80 columns, do the steps, return it."""
    left = list(moments or [])

    def read():
        found = left.pop(0) if left else MOMENT
        if isinstance(found, Exception):
            raise found
        return found

    app = TopApp(read, TopSettings(interval_s=3600))

    async def run():
        async with app.run_test(size=(80, 24)) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await steps(pilot, app)

    asyncio.run(run())
    return app


def names(app):
    shown = app.query_one(DataTable)
    return [str(shown.get_row_at(at)[0]) for at in range(shown.row_count)]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        pytest.param([], [2, 3, 1], id="cpu first"),
        pytest.param(["m"], [1, 2, 3], id="memory"),
        pytest.param(["d"], [3, 1, 2], id="disk"),
        pytest.param(["a"], [3, 1, 2], id="age"),
        pytest.param(["m", "h"], [2, 3, 1], id="soon hot"),
        pytest.param(["N"], [1, 2, 3], id="name"),
        pytest.param(["r"], [1, 3, 2], id="turned"),
        pytest.param(["s"], [3], id="stale only"),
        pytest.param(["slash", *"rack-2", "enter"], [3], id="search"),
        pytest.param(["slash", *"rack-2", "enter", "escape"], [2, 3, 1], id="search ended"),
    ],
)
def test_keys(keys, wanted):
    """Each key changes what is shown, and in which order."""

    async def steps(pilot, app):
        await pilot.press(*keys)
        await pilot.pause()
        assert [int(name[-5:]) for name in names(app)] == wanted

    driven(steps)


@pytest.mark.parametrize("name", ["a[/b]", "[red]a[/red]", "[@click=app.quit]a[/]"])
def test_a_name_is_no_markup(name):
    async def steps(_pilot, app):
        assert name in app.query_one(DataTable).render_line(1).text

    driven(steps, [replace(MOMENT, rows=[replace(ROWS[0], machine=name)])])


def test_at_80_columns_names_are_whole_and_nothing_scrolls():
    async def steps(pilot, app):
        shown = app.query_one(DataTable)
        assert shown.virtual_size.width <= 80
        titles = [str(column.label) for column in shown.columns.values()]
        assert titles[:2] == ["machine", "cpu 5m"]
        assert {"cpu 15m", "mem 5m", "nic", "disk", "risk"} <= set(titles)
        assert "db-1 on rack-1-node-00001" in str(app.query_one("#decisions", Static).render())

    driven(steps)


def test_at_80_columns_the_age_is_whole_beside_a_scroll_bar():
    """Of a fleet that is longer than the terminal; the process at fault is in the first line."""
    many = replace(MOMENT, rows=ROWS * 20, problem="stream: not running: h-7")
    many = replace(many, rows=[replace(one, machine=f"m{at:05}") for at, one in enumerate(many.rows)])

    async def steps(pilot, app):
        shown = app.query_one(DataTable)
        assert shown.virtual_size.width <= shown.scrollable_content_region.width
        assert str(shown.ordered_columns[-1].label) == "age"
        assert str(app.query_one("#heading", Static).render()).startswith("stream: not running: h-7")

    driven(steps, [many])


def test_refusals_are_said_once_while_they_stay_the_same():
    """A newer decision with the same ones has said them."""
    decisions = [
        view.Decision(990.0, "b on m", "3 stale"),
        view.Decision(980.0, "a on m", "3 stale"),
        view.Decision(970.0, "c", "1 x"),
    ]
    lines = view.decision_lines(replace(MOMENT, decisions=decisions), 5)
    assert [line.split("  ")[-1] for line in lines] == ["b on m: 3 stale", "a on m", "c: 1 x"]


def test_a_server_that_is_away_leaves_the_last_moment_and_says_so():
    async def steps(pilot, app):
        app.look()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert len(names(app)) == 3
        assert "no answer from Redis: gone" in str(app.query_one("#heading", Static).render())
        app.look()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "no answer" not in str(app.query_one("#heading", Static).render())

    driven(steps, [MOMENT, redis.ConnectionError("gone"), MOMENT])


def test_a_search_field_is_there_only_while_it_is_asked_for():
    async def steps(pilot, app):
        assert not app.query_one("#filter", Input).display
        await pilot.press("slash")
        assert app.query_one("#filter", Input).display

    driven(steps)


def test_a_resource_that_no_machine_reports_has_no_column():
    """Where some do, the others have none; as JSON each row has every resource."""
    without = replace(MOMENT, rows=ROWS[:2])
    assert "disk" not in [column.title for column in view.columns(without)]
    assert len(view.columns(without)) == len(view.cells(ROWS[0], view.reported(without)))
    assert view.cells(ROWS[0], view.reported(MOMENT))[-5:-3] == ["10%", "-"]
    assert view.cells(ROWS[2], view.reported(MOMENT))[-5:-3] == ["10%", "70%"]
    assert [(one["nic"], one["disk"]) for one in view.as_json(MOMENT)["rows"]] == [(0.1, None), (0.1, None), (0.1, 0.7)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_frame_fits(width):
    """Figures, machines, decisions as text; names and the shortest windows stay."""
    shown = view.frame(MOMENT, view.chosen(MOMENT, "cpu"), Screen(width), machines=2, decisions=5)
    table = [line for line in shown.splitlines() if "rack-1-node-00002" in line or "cpu 5m" in line]
    assert len(table) == 2
    assert all(len(line) <= width for line in table)
    assert "3 machines, 1 stale" in shown
    assert "10s ago  db-1 on" in shown


def test_an_empty_fleet_is_shown(tmp_path):
    """Before the first sample; before the first answer of Redis nothing is said of the fleet."""
    assert "0 machines" in view.frame(view.Moment(1.0), [], Screen(80), machines=5, decisions=5)
    unread = view.frame(view.Moment(0.0), [], Screen(80), machines=5, decisions=5)
    assert unread.startswith("reading the fleet")
    assert "0 machines" not in unread


def built(*tables):
    return build_snapshot([PartitionWindows(decode_table(raw)) for raw in tables], {}, {})


def test_every_machine_of_a_large_fleet_has_a_risk():
    """Hot ones, too, which no scorer would offer. A machine without data has none."""
    count = 1_500
    used = np.linspace(0.0, 1.2, count)
    raw = window_table([f"m{n:04d}" for n in range(count)], utilization=used, capacity=(16.0, 64e9))
    blank = window_table(["blank"], capacity=(np.nan, np.nan, np.nan), partition=1)
    rows = view.rows_of(built(raw, blank), now_s=0.0)
    assert len(rows) == count + 1
    for at in (0, 700, count - 1):
        sigma = min(0.1 * used[at], 1.0)
        assert rows[at].risk == pytest.approx((min(used[at], 1.0) + sigma) / 2, rel=1e-6)
    assert rows[-1].risk is None
    assert [rows[at].soon for at in (0, count - 1)] == pytest.approx([0.0, 1.0])
    assert rows[700].soon == pytest.approx(chances(margins(used[700:701], used[700:701], 0.1 * used[700:701])).item())
    assert rows[-1].soon is None
    assert view.rows_of(built(), now_s=0.0) == []


def test_the_spread_of_a_burst_on_one_machine_and_on_all():
    used, capacity = np.array([1.0, 2.0, 3.0]), np.full(3, 10.0)
    piled = spread(used, capacity, 2.0, [0] * 6)
    even = spread(used, capacity, 2.0, [0, 1, 2, 0, 1, 2])
    assert (piled.machines, piled.most, piled.highest) == (1, 6, 1.3)
    assert (even.machines, even.most) == (3, 2)
    assert even.std < piled.std
