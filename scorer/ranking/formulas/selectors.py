"""Label selectors: the text by which a request names the machines that it accepts.

Requirements joined by commas, all of which must hold:

| text                    | holds where                                        |
|-------------------------|----------------------------------------------------|
| ``rack=r7``, ``rack==r7`` | the label has this value                          |
| ``rack!=r7``            | it has another value, or is not there              |
| ``disk in (ssd, nvme)`` | it has one of the values                           |
| ``disk notin (hdd)``    | it has none of them, or is not there               |
| ``gpu``, ``!gpu``       | it is there, is not there                          |
| ``cores>32``, ``cores<8`` | it is a whole number and larger, smaller          |

The key ``machine`` is the machine's name. No value is the empty one, as in kubectl: ``rack=``, ``rack in (r7,)`` and
``rack in ()`` hold where the label is there and empty. A whole number has ASCII digits and 64 bits; 31.5 is none,
as in Kubernetes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from schemas.messages.operator import Taint
from schemas.rpc.request import InvalidRequest, Request, Toleration
from scorer.ranking.machines import Machines
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.rules import LabelColumn, MachineRules

_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9_./:-]*[A-Za-z0-9])?"
_BLANKS = " \t\r\n"
_SET = re.compile(rf"({_WORD})[{_BLANKS}]+(in|notin)[{_BLANKS}]*\(([^()]*)\)")
_COMPARISON = re.compile(rf"({_WORD})[{_BLANKS}]*(==|=|!=|>|<)[{_BLANKS}]*((?:{_WORD})?)")
_EXISTENCE = re.compile(rf"(!?)[{_BLANKS}]*({_WORD})")
_NEXT = re.compile(rf"[{_BLANKS}]*(?:(,)[{_BLANKS}]*|\Z)")
_NUMBER = re.compile(r"[+-]?0*[0-9]{1,19}")
_VALUE = re.compile(f"(?:{_WORD})?")

REQUIREMENTS_MAX = 128
"""The most requirements of all selectors of a request together: each is computed for all machines."""
_SHOWN_MAX = 80
"""The most characters of an invalid selector that the error message shows."""


@dataclass(frozen=True)
class Requirement:
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, column: LabelColumn) -> Bools:
        """Return [n]; computed once for each distinct value, however many machines there are."""
        present = column.codes >= 0
        if self.operator == "exists":
            return present
        if self.operator == "absent":
            return ~present
        accepted = self._accepts(column.values)
        matched = present & accepted[column.codes]
        return matched | ~present if self.operator in ("!=", "notin") else matched

    def _accepts(self, values: tuple[str, ...]) -> Bools:
        """Return whether each distinct value of a label is accepted; at least one element, also without values."""
        if self.operator in ("<", ">"):
            sign, limit = -1 if self.operator == "<" else 1, int(self.values[0])
            return np.array([one is not None and sign * one > sign * limit for one in _numbers(values) or (None,)])
        positions = _positions(values)
        accepted = np.zeros(max(1, len(values)), np.bool_)
        accepted[[positions[value] for value in self.values if value in positions]] = True
        return ~accepted if self.operator in ("!=", "notin") else accepted


@lru_cache(maxsize=64)
def _numbers(values: tuple[str, ...]) -> tuple[int | None, ...]:
    """Return the values of a label as whole numbers, None where a value is not one of 64 bits."""
    found = (int(value) if _NUMBER.fullmatch(value) else 2**63 for value in values)
    return tuple(one if -(2**63) <= one < 2**63 else None for one in found)


@lru_cache(maxsize=64)
def _positions(values: tuple[str, ...]) -> Mapping[str, int]:
    """Return each value of a label with its index."""
    return {value: position for position, value in enumerate(values)}


_FORMS = "KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (A, B) or KEY > NUMBER, with commas between"


@lru_cache(maxsize=256)
def parse_selector(text: str, field: str = "selector") -> tuple[Requirement, ...]:
    """Return the requirements of a selector; none for an empty one.

    >>> parse_selector("rack=r7, disk in (ssd,nvme), !gpu")[1]
    Requirement(key='disk', operator='in', values=('ssd', 'nvme'))

    Raises InvalidRequest naming ``field`` and the part that cannot be read.
    """
    found: list[Requirement] = []
    position = 0
    text = text.strip(_BLANKS)
    while position < len(text):
        if len(found) == REQUIREMENTS_MAX:
            raise InvalidRequest(f"{field}: more than {REQUIREMENTS_MAX} requirements")
        requirement, end = _parse_one(text, position)
        after = _NEXT.match(text, end)
        if requirement is None or after is None or (after[1] and after.end() == len(text)):
            shown = text[position : position + _SHOWN_MAX]
            cut = "..." * (len(text) - position > _SHOWN_MAX)
            raise InvalidRequest(f"{field}: cannot read {shown!r}{cut}; expected {_FORMS}")
        found.append(requirement)
        position = after.end()
    return tuple(found)


def _parse_one(text: str, position: int) -> tuple[Requirement | None, int]:
    if match := _SET.match(text, position):
        values = tuple(value.strip(_BLANKS) for value in match[3].split(","))
        readable = all(_VALUE.fullmatch(value) for value in values)
        return (Requirement(match[1], match[2], values) if readable else None), match.end()
    if match := _COMPARISON.match(text, position):
        operator = "=" if match[2] == "==" else match[2]
        if operator in "<>" and _numbers((match[3],))[0] is None:
            return None, match.end()
        return Requirement(match[1], operator, (match[3],)), match.end()
    if match := _EXISTENCE.match(text, position):
        return Requirement(match[2], "absent" if match[1] else "exists"), match.end()
    return None, position


def check_selectors(request: Request) -> None:
    """Raise InvalidRequest for a selector that cannot be parsed, even if no filter of the profile reads it.

    The requirements of all selectors of a request are counted together.
    """
    count = len(parse_selector(request.selector)) if request.selector else 0
    for number, preference in enumerate(request.prefer):
        count += len(parse_selector(preference.selector, f"prefer[{number}].selector"))
    if count > REQUIREMENTS_MAX:
        raise InvalidRequest(f"prefer: {count} requirements in all selectors, at most {REQUIREMENTS_MAX}")


def select(text: str, machines: Machines, field: str = "selector") -> Bools:
    """Return [n]: whether all requirements hold for the machine."""
    selected = np.ones(len(machines), np.bool_)
    for requirement in parse_selector(text, field):
        selected &= requirement.holds(machines.label(requirement.key))
    return selected


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Return whether any toleration matches this taint."""
    return any(
        each.key in ("", taint.key) and each.value in (None, taint.value) and each.effect in (None, taint.effect)
        for each in tolerations
    )


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration], effect: str) -> list[Taint]:
    """Return the taints of one effect that no toleration matches."""
    return [taint for taint in taints if taint.effect == effect and not tolerated(taint, tolerations)]


def left_of(rules: MachineRules, tolerations: Sequence[Toleration], effect: str) -> Floats:
    """Return [M]: the number of each machine's taints of one effect that no toleration matches."""
    counts = np.array([len(untolerated(taints, tolerations, effect)) for taints in rules.taint_sets], np.float64)
    return counts[rules.taint_codes]
