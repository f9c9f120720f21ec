"""The basis of a decision, in words: expected use and its source, how full the machine is, the risk of overload."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING

import msgspec

from schemas.process.tables import Screen
from schemas.resources import RESOURCES
from schemas.values.numbers import amount
from scorer.client import Candidate, RankResult, UpdateResult
from scorer.commands.shared.show import ratio

if TYPE_CHECKING:
    from scorer.ranking.ranking import Ranking

Ranked = RankResult | UpdateResult
"""An answer with the terms of a ranking."""

_WIDTH = 100


def used_share(terms: Mapping[str, float | None], more: float = 0.0) -> float | None:
    """Return the used share of allocatable, with credits and debits, plus ``more``; None where unknown.

    >>> used_share({"mean": 3.0, "credit": 1.0, "debit": 0.5, "allocatable": 10.0}, 0.5)
    0.4
    """
    mean, whole = terms["mean"], terms["allocatable"]
    if mean is None or not whole:
        return None
    return (mean + (terms.get("credit") or 0.0) - (terms.get("debit") or 0.0) + more) / whole


def chance(value: float) -> str:
    """Return a probability in percent, rounded for people.

    >>> [chance(p) for p in (0.0, 0.0004, 0.0057, 0.123, 0.9996, 1.0)]
    ['below 0.1%', 'below 0.1%', '0.6%', '12%', 'above 99.9%', 'above 99.9%']
    """
    if value < 0.001:
        return "below 0.1%"
    if value > 0.999:
        return "above 99.9%"
    return f"{100 * value:.1f}%" if value < 0.1 else f"{100 * value:.0f}%"


def chances(machine: Candidate) -> tuple[str, Mapping[str, float | None]]:
    """Return a limit in words and, by resource, the chance of a load above it; empty when no score computes one."""
    for term in machine.scores.values():
        for name, values in term.items():
            if name.startswith("chance_above_") and isinstance(values, Mapping):
                return name.removeprefix("chance_above_").replace("_percent", "%"), values
    return "", {}


def expected_use(answer: Ranked) -> Mapping[str, float]:
    """Return the expected use by resource, from a mapping or from a record's list, in which -1 stands for none."""
    if isinstance(answer.expected, dict):
        return answer.expected
    return {name: use for name, use in zip(RESOURCES, answer.expected, strict=False) if use >= 0}


def answer_of(ranking: Ranking, top: int | None = None, explain_all: bool | None = None) -> RankResult:
    """Return the answer of a local ranking in the form in which a client returns a scorer's."""
    from scorer.ranking.explanation.explain import answer

    return msgspec.convert(answer(ranking, top, explain_all), RankResult, from_attributes=True)


def in_words(answer: Ranked, screen: Screen | None = None, of: Candidate | None = None) -> list[str]:
    """Return lines on a machine: for each requested resource the expected use, and the load with it.

    ``of``: the machine; None: the chosen one.
    """
    if of is None and (not answer.candidates or not answer.machine):
        return []
    machine = of or answer.candidates[0]
    asked, expected, source = answer.request, expected_use(answer), answer.expected_from
    limit, chance_of = chances(machine)
    names = [name for name in RESOURCES if asked.get(name) or expected.get(name)]
    width = max(map(len, names), default=0)
    lines = [f"{machine.machine}, with the instance:"] if names else []
    for name in names:
        terms, use = machine.resources[name], expected.get(name) or 0.0
        said = [f"expected use {amount(name, use)} of {amount(name, asked.get(name) or 0.0)} asked"]
        said[0] += f" ({source[name]})" if source.get(name) else ""
        if (before := used_share(terms)) is not None:
            likely = chance_of.get(name)
            risk = "" if likely is None else f"; chance of more than {limit}: {chance(likely)}"
            said.append(f"{ratio(before)} full without it, {ratio(used_share(terms, use))} with it{risk}")
        if terms.get("credit"):
            said.append(f"{amount(name, terms['credit'])} of that is credit: placed, and not all measured yet")
        if terms.get("debit"):
            said.append(f"{amount(name, terms['debit'])} less than measured (debit): of instances that have left")
        wide = screen.width if screen is not None and screen.width else _WIDTH
        for number, line in enumerate(said):
            head = f"  {name if number == 0 else '':{width}}  "
            lines += wrap(line, max(wide, 40), initial_indent=head, subsequent_indent=" " * (width + 6))
    return lines
