"""Long work in steps: a generator that yields where others may be served, and returns its result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work that may be left between two of its steps, or given up by closing it."""


def drain(steps: Steps[Result]) -> Result:
    """Return the result of all steps, one after the other.

    >>> def count():
    ...     yield
    ...     return 2
    >>> drain(count())
    2
    """
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result
