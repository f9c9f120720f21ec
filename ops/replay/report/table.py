"""A table of a report."""

from __future__ import annotations

from typing import NamedTuple

from schemas.process.tables import Column


class Table(NamedTuple):
    """A table and its title."""

    title: str
    columns: list[Column]
    lines: list[list[str]]
