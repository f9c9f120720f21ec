"""Markdown from docstrings, settings and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_LITERAL = re.compile(r"``(.+?)``")
_TERM = re.compile(r"^([a-z_]+(?:, [a-z_]+)*):$")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a table.

    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell if cell == "---" else escaped(cell) for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells).replace("| --- |", "|---|").replace(" --- |", "---|")


def escaped(cell: str) -> str:
    """Return the text of a cell: one line, no bar that would end it."""
    return " ".join(cell.split()).replace("|", "\\|")


def prose(docstring: str) -> str:
    r"""Return a docstring as Markdown: literals in single backquotes, indented terms as a list, examples as code.

    >>> print(prose("Sum of ``x``.\n\nx:\n    what is\n    added"))
    Sum of `x`.
    <BLANKLINE>
    - **x**: what is added
    """
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", docstring.strip()):
        if block.lstrip().startswith(">>>"):
            lines += ["```python", *block.splitlines(), "```", ""]
        elif block.startswith("    "):
            lines += ["```", *(line[4:] for line in block.splitlines()), "```", ""]
        else:
            lines += [*_terms(block), ""]
    return _LITERAL.sub(r"`\1`", "\n".join(lines)).strip()


def _terms(block: str) -> list[str]:
    """Return the lines of a paragraph, each ``name:`` with what is indented below it as one item of a list."""
    found: list[str] = []
    inside = False
    for line in block.splitlines():
        term = _TERM.match(line)
        if term:
            if found and not inside:
                found.append("")
            found.append(f"- **{term[1]}**:")
            inside = True
        elif inside and line.startswith("    "):
            found[-1] += f" {line.strip()}"
        else:
            if inside:
                found.append("")
            found.append(line)
            inside = False
    return found


def number(value: float | None) -> str:
    """Return a number for people.

    >>> number(0.28125), number(128e9), number(None), number(2.0)
    ('0.2812', '128 G', 'unknown', '2')
    """
    if value is None:
        return "unknown"
    for unit, name in ((1e12, " T"), (1e9, " G"), (1e6, " M")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"
