"""Label selectors: the text by which a request says which machines it accepts.

Requirements joined by commas, all of which must hold:

| text                    | holds where                                        |
|-------------------------|----------------------------------------------------|
| ``rack=r7``, ``rack==r7`` | the label has this value                          |
| ``rack!=r7``            | it has another value, or is not there              |
| ``disk in (ssd, nvme)`` | it has one of the values                           |
| ``disk notin (hdd)``    | it has none of them, or is not there               |
| ``gpu``, ``!gpu``       | it is there, is not there                          |
| ``cores>32``, ``cores<8`` | it is a number and larger, smaller                |

The key ``machine`` is the machine's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from schemas.request import InvalidRequest, Request
from scorer.machines import Machines
from scorer.snapshot import Bools, LabelColumn

_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9_./:-]*[A-Za-z0-9])?"
_SET = re.compile(rf"({_WORD})\s+(in|notin)\s*\(([^()]*)\)")
_COMPARISON = re.compile(rf"({_WORD})\s*(==|=|!=|>|<)\s*({_WORD})")
_EXISTENCE = re.compile(rf"(!?)\s*({_WORD})")


@dataclass(frozen=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, column: LabelColumn) -> Bools:
        """Return [n]: asked once of each distinct value, however many machines there are."""
        present = column.codes >= 0
        if self.operator == "exists":
            return present
        if self.operator == "absent":
            return ~present
        accepted = np.array([_TESTS[self.operator](value, self.values) for value in column.values] or [False], np.bool_)
        matched = present & accepted[column.codes]
        return matched | ~present if self.operator in ("!=", "notin") else matched


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


_TESTS: dict[str, Callable[[str, tuple[str, ...]], bool]] = {
    "=": lambda value, wanted: value == wanted[0],
    "!=": lambda value, wanted: value != wanted[0],
    "in": lambda value, wanted: value in wanted,
    "notin": lambda value, wanted: value not in wanted,
    ">": lambda value, wanted: _number(value) > _number(wanted[0]),
    "<": lambda value, wanted: _number(value) < _number(wanted[0]),
}


@lru_cache(maxsize=1024)
def parse_selector(text: str, field: str = "selector") -> tuple[Requirement, ...]:
    """Return the requirements of a selector; none for an empty one.

    >>> parse_selector("rack=r7, disk in (ssd,nvme), !gpu")[1]
    Requirement(key='disk', operator='in', values=('ssd', 'nvme'))

    Raises InvalidRequest naming ``field`` and the part that cannot be read.
    """
    found, position = [], 0
    text = text.strip()
    while position < len(text):
        requirement, end = _parse_one(text, position)
        rest = text[end:].lstrip()
        if requirement is None or (rest and not rest.startswith(",")) or rest == ",":
            raise InvalidRequest(f"{field}: cannot read {text[position:]!r}")
        found.append(requirement)
        position = len(text) - len(rest[1:].lstrip()) if rest else len(text)
    return tuple(found)


def _parse_one(text: str, position: int) -> tuple[Requirement | None, int]:
    if match := _SET.match(text, position):
        values = tuple(value.strip() for value in match[3].split(","))
        return (Requirement(match[1], match[2], values) if all(values) else None), match.end()
    if match := _COMPARISON.match(text, position):
        operator = "=" if match[2] == "==" else match[2]
        if operator in "<>" and np.isnan(_number(match[3])):
            return None, match.end()
        return Requirement(match[1], operator, (match[3],)), match.end()
    if match := _EXISTENCE.match(text, position):
        return Requirement(match[2], "absent" if match[1] else "exists"), match.end()
    return None, position


def check_selectors(request: Request) -> None:
    """Raise InvalidRequest for a selector that cannot be parsed, also where the profile does not ask for it."""
    if request.selector:
        parse_selector(request.selector)
    for number, preference in enumerate(request.prefer):
        parse_selector(preference.selector, f"prefer[{number}].selector")


def select(text: str, machines: Machines, field: str = "selector") -> Bools:
    """Return [n]: the machines that all requirements hold of."""
    selected = np.ones(len(machines), np.bool_)
    for requirement in parse_selector(text, field):
        selected &= requirement.holds(machines.label(requirement.key))
    return selected
