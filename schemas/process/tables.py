"""Tables for people, in one style for every command. The width of the terminal is an argument, by `screen`.

Each column has a priority: columns that do not fit are left out, the highest number first, and named below the table.
Columns of priority 0 stay, and no cell is cut: a name that is longer than the terminal is written in full.

A table looks like one of `rich` without a box. It is made here because importing rich costs more than the rest of a
command together: 25 of the 150 ms that `windward place` may take.
"""

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

_GAP = "  "
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_UNREADABLE = (
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
"""Characters that control a terminal, or the direction of a text, or are invisible."""
_OF_A_TEXT = re.compile(_UNREADABLE)
_OF_LINES = re.compile(rf"(\n|\x1b\[[012]m)|{_UNREADABLE}")
_Value = TypeVar("_Value")


def readable(value: _Value) -> _Value:
    r"""Return a value for people: in all of its texts, U+FFFD replaces characters that control a terminal.

    Agents, deployers and pods choose their texts: a name could clear the screen, or forge a row. Structs, dataclasses,
    mappings and lists are walked.

    >>> readable({"id": "a\x1b[2Jb", "n": 1}) == {"id": "a\ufffd[2Jb", "n": 1}
    True
    """
    found: Any = value
    kind: Any = type(value)
    if isinstance(value, str):
        found = value if value.isascii() and value.isprintable() else _OF_A_TEXT.sub("\ufffd", value)
    elif isinstance(value, dict):
        found = {readable(name): readable(one) for name, one in value.items()}
    elif kind in (list, tuple, set, frozenset):
        found = kind(map(readable, found))
    elif isinstance(value, msgspec.Struct):
        found = msgspec.structs.replace(
            value, **{name: readable(getattr(value, name)) for name in value.__struct_fields__}
        )
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = [field.name for field in dataclasses.fields(value) if field.init]
        found = dataclasses.replace(value, **{name: readable(getattr(value, name)) for name in shown})
    return cast("_Value", found)


def readable_lines(text: str) -> str:
    """Return lines for people as `readable` does; line ends and styles stay."""
    return _OF_LINES.sub(lambda one: one[1] or "\ufffd", text)


@dataclass(frozen=True)
class Column:
    """A column: its heading, its priority, its alignment, and the function or field that gives its cells."""

    title: str
    priority: int = 0
    left: bool = False
    of: str | Callable[[Any], str] = ""
    """A field of the row, "-" where it is empty; or a function that makes the cell of a row."""

    def cell(self, row: Any) -> str:
        """Return the column's cell for a row, which is a Struct or a mapping."""
        if callable(self.of):
            return self.of(row)
        found = row[self.of] if isinstance(row, Mapping) else getattr(row, self.of)
        return "-" if found is None or found == "" else str(found)


@dataclass(frozen=True)
class Screen:
    """The output of a table: its width in characters (None: no limit), and whether it supports styles."""

    width: int | None = None
    styled: bool = False


def view(columns: Sequence[Column], rows: Iterable[Any], screen: Screen | None = None) -> str:
    """Return the table of some rows, with the cells that each column gives for a row.

    >>> print(view([Column("id", of="id"), Column("to", of="target", left=True)], [{"id": "db-1", "target": None}]))
    id    to
    db-1  -
    """
    return table(columns, [[column.cell(row) for column in columns] for row in rows], screen)


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], screen: Screen | None = None) -> str:
    """Return aligned columns; the first is aligned to the left.

    >>> print(table([Column("machine"), Column("score"), Column("age", 1)], [["a", "9.5", "3s"]]))
    machine  score  age
    a          9.5   3s
    >>> print(table([Column("machine"), Column("score"), Column("age", 1)], [["a", "9.5", "3s"]], Screen(width=16)))
    machine  score
    a          9.5
    (1 more: --wide)
    """
    screen, rows = screen or Screen(), [readable(list(row)) for row in rows]
    sizes = [max([len(column.title), *(len(row[at]) for row in rows)]) for at, column in enumerate(columns)]
    shown = fitting(columns, sizes, screen.width)
    lines = []
    for number, row in enumerate(([column.title for column in columns], *rows)):
        cells = [
            row[at].ljust(sizes[at]) if not place or columns[at].left else row[at].rjust(sizes[at])
            for place, at in enumerate(shown)
        ]
        line = _GAP.join(cells).rstrip()
        lines.append(f"{BOLD}{line}{PLAIN}" if screen.styled and not number else line)
    hidden = [column.title for at, column in enumerate(columns) if at not in shown]
    if hidden:
        note = f"(without {', '.join(hidden)}: --wide shows all)"
        if screen.width is not None and len(note) > screen.width:
            note = f"({len(hidden)} more: --wide)"
        lines.append(f"{DIM}{note}{PLAIN}" if screen.styled else note)
    return "\n".join(lines)


def fitting(columns: Sequence[Column], sizes: Sequence[int], width: int | None) -> list[int]:
    """Return the indices of the columns that are shown, in their order.

    >>> fitting([Column("a"), Column("b", 2), Column("c", 1)], [3, 3, 3], 8)
    [0, 2]
    """
    shown = list(range(len(columns)))
    while width is not None and sum(sizes[at] for at in shown) + len(_GAP) * (len(shown) - 1) > width:
        last = max(shown, key=lambda at: (columns[at].priority, at))
        if not columns[last].priority:
            break
        shown.remove(last)
    return shown


def screen(*, wide: bool = False) -> Screen:
    """Return the screen for tables: the terminal's width; no limit with ``wide`` or without a terminal."""
    if not sys.stdout.isatty():
        return Screen()
    import shutil

    return Screen(None if wide else shutil.get_terminal_size().columns, "NO_COLOR" not in os.environ)
