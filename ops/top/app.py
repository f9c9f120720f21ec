"""The live view of ``windward top``, by textual: figures, machines, decisions; keys sort, filter and search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import redis
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from ops.top.view import Moment, Row, TopSettings, cells, chosen, columns, decision_lines, heading, reported
from schemas.process.tables import fitting

_GAP = 4
"""Around a row, and for the scroll bar."""
_DECISIONS = 5


class TopApp(App[None]):
    """Shows the fleet again and again; ``read`` returns its present state and may be slow, so a thread calls it."""

    CSS = """
    #heading { height: auto; text-style: bold; }
    #machines { height: 1fr; }
    #decisions { height: auto; max-height: 7; border-top: solid $accent; }
    #filter { display: none; height: 3; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "sort('cpu')", "cpu"),
        Binding("m", "sort('memory')", "mem"),
        Binding("n", "sort('nic')", "nic", show=False),
        Binding("d", "sort('disk')", "disk", show=False),
        Binding("k", "sort('risk')", "risk"),
        Binding("h", "sort('soon')", "soon hot"),
        Binding("a", "sort('age')", "age"),
        Binding("N", "sort('machine')", "name"),
        Binding("r", "turn", "reverse"),
        Binding("slash", "search", "search"),
        Binding("s", "stale", "stale"),
        Binding("escape", "clear", "clear", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, read: Callable[[], Moment], settings: TopSettings) -> None:
        super().__init__()
        self._read = read
        self.interval_s = settings.interval_s
        self.by, self.turned, self.text, self.stale_only = settings.sort, settings.reverse, settings.filter, False
        self.moment = Moment(0.0)

    def compose(self) -> ComposeResult:
        yield Static(id="heading", markup=False)
        yield DataTable(id="machines", cursor_type="row", zebra_stripes=True)
        yield Static(id="decisions", markup=False)
        yield Input(placeholder="part of a machine's name", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Read now, and then at the interval of the settings."""
        self.query_one(DataTable).focus()
        self.look()
        self.set_interval(self.interval_s, self.look)

    def look(self) -> None:
        """Read the next moment in a thread, one at a time."""
        self.run_worker(self._next, thread=True, exclusive=True, exit_on_error=False)

    def _next(self) -> None:
        try:
            moment = self._read()
        except redis.RedisError as error:
            moment = replace(self.moment, problem=f"no answer from Redis: {error}")
        self.call_from_thread(self.show, moment)

    def show(self, moment: Moment) -> None:
        """Show a state; the cursor stays on its machine."""
        self.moment = moment
        lines = heading(moment)
        order = f"by {self.by}{', reversed' if self.turned else ''}"
        narrowed = f", named *{self.text}*" * bool(self.text) + ", stale only" * self.stale_only
        self.query_one("#heading", Static).update("\n".join([*lines, order + narrowed]))
        self.query_one("#decisions", Static).update("\n".join(decision_lines(moment, _DECISIONS)))
        self._fill(chosen(moment, self.by, reverse=self.turned, text=self.text, stale_only=self.stale_only))

    def _fill(self, rows: list[Row]) -> None:
        shown = self.query_one(DataTable)
        under = shown.cursor_row
        every, rest = columns(self.moment), reported(self.moment)
        texts = [cells(row, rest) for row in rows]
        sizes = [max([len(column.title), *(len(row[at]) for row in texts)]) for at, column in enumerate(every)]
        places = fitting(every, sizes, self.size.width - _GAP)
        shown.clear(columns=True)
        for at in places:
            shown.add_column(every[at].title, width=sizes[at])
        for row in texts:
            shown.add_row(*(Text(row[at].rjust(sizes[at]) if at else row[at]) for at in places), key=row[0])
        shown.move_cursor(row=min(under, len(rows) - 1))

    def on_resize(self) -> None:
        self.show(self.moment)

    def action_sort(self, by: str) -> None:
        self.by = by  # type: ignore[assignment]
        self.show(self.moment)

    def action_turn(self) -> None:
        self.turned = not self.turned
        self.show(self.moment)

    def action_stale(self) -> None:
        """Show stale machines only, or all again."""
        self.stale_only = not self.stale_only
        self.show(self.moment)

    def action_search(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_clear(self) -> None:
        self.text, self.stale_only = "", False
        self.query_one("#filter", Input).value = ""
        self._leave_search()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.text = event.value
        self.show(self.moment)

    def on_input_submitted(self) -> None:
        """Go back to the machines; the filter stays."""
        self._leave_search()

    def _leave_search(self) -> None:
        self.query_one("#filter", Input).display = False
        self.query_one(DataTable).focus()
        self.show(self.moment)
