"""Markdown from docstrings, settings and tables."""

import re
from collections.abc import Iterable, Sequence

_AFTER_TERMS = re.compile(r"(\n {4}.*)\n(?=[^\s>])(?!.*:$)", re.MULTILINE)
_TERM = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a table.

    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in (head, *rows)]
    lines = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def rst(docstring: str) -> str:
    r"""Return a docstring as reStructuredText: names become literals; an indented part below no term is one block.

    >>> print(rst("Sum of `x`.\n\n    x + 1"))
    Sum of ``x``.
    <BLANKLINE>
    ::
    <BLANKLINE>
        x + 1
    """
    named = _TERM.sub(r"``\1``", docstring.strip()).replace("\n|", "\n    |")
    blocks = re.split(r"\n\s*\n", _AFTER_TERMS.sub(r"\1\n\n", named))
    return "\n\n".join(f"::\n\n{block}" if block.startswith("    ") else block for block in blocks)
