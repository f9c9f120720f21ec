"""The mix: the kinds of instances that were placed lately, as a repeating cycle of requests. Pure.

Instances are of one kind when they have the same kind, class and amounts. Where that makes more than `KINDS_MAX` kinds,
amounts within a factor of about two are one kind, with their mean. Ports, cluster, labels and rules of single instances
are ignored: they do not predict the next instances.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance
from scorer.ledger.view.view import instance_of

KINDS_MAX = 8
"""The most kinds of a mix; rarer ones are left out."""
CYCLE_MAX = 100
"""The most instances of one cycle."""


@dataclass(frozen=True)
class Kind:
    request: Request
    instances: int
    """How many were placed lately."""
    cycle: int
    """How many a cycle has."""


@dataclass(frozen=True)
class Mix:
    """Kinds, the most frequent first."""

    kinds: tuple[Kind, ...]
    instances: int
    """How many were placed lately, of rarer kinds too."""

    @property
    def covered(self) -> int:
        """The number of instances of these kinds."""
        return sum(kind.instances for kind in self.kinds)


def mix_of(instances: Iterable[Instance], since_s: float) -> Mix:
    """Return the mix of the instances that were placed since a moment."""
    lately = [one for one in instances if max(one.reserved_at, one.started_at) >= since_s]
    groups = _grouped(lately, exact=True) or _grouped(lately, exact=False)
    most = sorted(groups, key=len, reverse=True)[:KINDS_MAX]
    cycle = _cycle([len(group) for group in most])
    kinds = (Kind(_mean(group), len(group), number) for group, number in zip(most, cycle, strict=True))
    return Mix(tuple(kinds), len(lately))


def mean_of(kinds: Sequence[Kind]) -> Request:
    """Return the mean instance of some kinds of one class, each weighted by its count in a cycle."""
    each = [instance_of(kind.request, "", 0.0) for kind in kinds for _ in range(kind.cycle)]
    return msgspec.structs.replace(_mean(each), kind="")


def _grouped(instances: Sequence[Instance], *, exact: bool) -> list[list[Instance]]:
    """Return the instances grouped by kind; none where exact amounts give too many kinds."""
    groups: dict[Hashable, list[Instance]] = {}
    for one in instances:
        amounts: Hashable = (one.amounts, one.expected, one.maxmemory) if exact else tuple(map(_rough, one.amounts))
        groups.setdefault((one.kind, one.priority_class, amounts), []).append(one)
        if exact and len(groups) > KINDS_MAX:
            return []
    return list(groups.values())


def _rough(amount: float | None) -> int | None:
    """Return the exponent of the power of two nearest to an amount; None for no amount."""
    return round(math.log2(amount)) if amount else None


def _mean(group: Sequence[Instance]) -> Request:
    """Return the request that stands for instances of one kind."""
    first: Any = group[0]
    amounts: dict[str, Any] = {
        name: sum(one.amounts[at] or 0.0 for one in group) / len(group)
        for at, name in enumerate(RESOURCES)
        if any(one.amounts[at] is not None for one in group)
    }
    given = [one.expected for one in group if one.expected]
    expected: dict[str, Any] = {
        name: sum(each[at] for each in given) / len(given)
        for at, name in enumerate(RESOURCES)
        if len(given) == len(group) and all(each[at] >= 0 for each in given)
    }
    maxmemory = sum(one.maxmemory for one in group) / len(group)
    return Request(
        **amounts, expected=expected, maxmemory=maxmemory, kind=first.kind, priority_class=first.priority_class
    )


def _cycle(counts: Sequence[int]) -> list[int]:
    """Return the count of each kind in a cycle: lowest terms, or shares of `CYCLE_MAX`, at least 1.

    >>> _cycle([6, 4, 2]), _cycle([900, 99, 1])
    ([3, 2, 1], [90, 10, 1])
    """
    total = sum(counts)
    if total > CYCLE_MAX:
        return [max(1, round(CYCLE_MAX * count / total)) for count in counts]
    divisor = math.gcd(*counts) if counts else 1
    return [count // divisor for count in counts]
