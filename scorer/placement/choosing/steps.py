"""Long work in steps: a generator that yields where other queries may be answered, and returns its result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from scorer.ranking.inputs import quiet

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work that may pause between two steps, or be given up by closing the generator."""


_next = quiet(next)


def quietly(steps: Steps[Result]) -> Steps[Result]:
    """Return the same steps, each with numpy as in `scorer.ranking.inputs.quiet`."""
    while True:
        try:
            _next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result
        yield


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
