"""Long work in steps: a generator that yields where other queries may be answered, and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from itertools import islice
from typing import TypeVar

from scorer.ranking.inputs import quiet

Result = TypeVar("Result")
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
PART = 10_000
"""Instances of a whole ledger that are looked at in one step: a few milliseconds."""
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


def in_parts(items: Collection[_Item], make: Callable[[Iterable[_Item]], Iterable[_Made]]) -> Steps[list[_Made]]:
    """Return ``make(items)``, made of `PART` items in each step; the items must not change between the steps.

    >>> drain(in_parts("ab", lambda some: [one.upper() for one in some]))
    ['A', 'B']
    """
    left, found = iter(items), list[_Made]()
    for first in range(0, len(items), PART):
        if first:
            yield
        found += make(islice(left, PART))
    return found


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
