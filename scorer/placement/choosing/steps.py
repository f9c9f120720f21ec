"""A batch of placements in steps: a generator that pauses so that other queries can be answered."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work that may pause between two steps, or be given up by closing the generator."""


def run_to_end(steps: Steps[Result]) -> Result:
    """Return the result of all steps, one after the other.

    >>> def count():
    ...     yield
    ...     return 2
    >>> run_to_end(count())
    2
    """
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result
