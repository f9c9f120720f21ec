"""The machines of an answer for people: one table, and the verdicts of filters and scores on some machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from schemas.process.tables import Column, Screen, table, view
from schemas.values.durations import duration
from scorer.client import Candidate, RankResult, Verdict
from scorer.commands.shared.in_words import Ranked, expected_use, in_words, used_share
from scorer.commands.shared.show import age, amount, number, ratio, resources, size

_AMOUNTS = {"mean": 5, "std": 6, "credit": 7, "request": 7, "allocatable": 4}
"""Columns of a resource with amounts; the higher the number, the earlier a narrow terminal drops the column."""


_REFUSALS = (
    Column("refused by", of="filter"),
    Column("machines", of="machines"),
    Column("reason", left=True, of="reason"),
)


def candidates(answer: Ranked, screen: Screen | None = None) -> str:
    """Return the best machines as a table: how full each is, how full it would be, then the amounts.

    ``cpu`` is the mean with credits and debits as a share of allocatable; ``then`` is the same with the requested
    instance.
    """
    found, named = answer.machines or answer.candidates, answer.request
    shown = resources(("cpu", "memory", "nic"), named)
    detailed = resources(("cpu", "memory"), named)
    columns = [Column("machine"), Column("score"), Column("risk", 1)]
    for name in shown:
        columns += [Column(name, 0 if name in ("cpu", "memory") else 2), Column(f"{name} then", 3)]
    for name in detailed:
        first, *others = ((f"{name} mean", 5), ("std", 6), ("credit", 7), ("request", 7), ("of", 4))
        columns += [Column(*first), *(Column(*each) for each in others)]
    columns += [Column("window", 8), Column("age", 2)]
    return table(columns, [_row(one, shown, detailed, expected_use(answer)) for one in found], screen)


def _row(one: Candidate, shown: Sequence[str], detailed: Sequence[str], expected: Mapping[str, float]) -> list[str]:
    cells = [one.machine, number(one.score), number(one.risk)]
    for name in shown:
        terms = one.resources[name]
        cells += [ratio(used_share(terms)), ratio(used_share(terms, expected.get(name, 0.0)))]
    for name in detailed:
        terms = one.resources[name]
        cells += [amount(name, terms[each], 0 if each == "allocatable" else 2) for each in _AMOUNTS]
    return [*cells, duration(one.window_s), age(one.age_s)]


def ranking(answer: RankResult, screen: Screen | None = None) -> str:
    """Return the answer of `rank` as text: the machines in columns, then explanations, summary and warnings."""
    lines = []
    explained = answer.machines or ()
    if explained or answer.candidates:
        lines.append(candidates(answer, screen))
    if explained:
        lines += ["", *in_words(answer, screen, explained[0])]
    for machine in explained:
        lines += [part for line in _explained(machine, answer) for part in _wrapped(line, screen)]
    if explained and answer.refusals:
        lines += ["", view(_REFUSALS, answer.refusals, screen)]
    lines += [""] * bool(explained) + [answer.summary]
    lines += [f"warning: {warning}" for warning in answer.warnings]
    return "\n".join(lines)


def _wrapped(line: str, screen: Screen | None) -> list[str]:
    """Return a line wrapped at words to fit the terminal; lines after the first are indented."""
    if screen is None or screen.width is None or len(line) <= screen.width:
        return [line]
    import textwrap

    return textwrap.wrap(line, screen.width, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False)


def explained_only(answer: RankResult, machine: str = "") -> RankResult:
    """Return the answer with explanations of only one machine, or of only its candidates.

    Raises KeyError for a machine that is not there.
    """
    everything = answer.machines or []
    wanted = {machine} if machine else {one.machine for one in answer.candidates}
    found = [one for one in everything if one.machine in wanted]
    if machine and not found:
        raise KeyError(machine)
    return msgspec.structs.replace(answer, machines=found or everything[:1])


def _standing(machine: Verdict, answer: RankResult) -> list[str]:
    """Return the verdict on a machine: what refuses it, or its place and what it lacks to the best by score."""
    if not machine.feasible:
        first = next(each for each in machine.filters if not each["allowed"])
        return [f"{machine.machine}: refused by {first['filter']}: {first['reason']}"]
    lines = [f"{machine.machine}: feasible, place {machine.place} of {answer.feasible}"]
    if machine.place != 1 and answer.score is not None and machine.score is not None:
        by = sorted(machine.lacks.items(), key=lambda term: -term[1])
        terms = ", ".join(f"{name} {points:+.2f}" for name, points in by if abs(points) >= 0.005)
        lines.append(f"  {answer.score - machine.score:.2f} points below {answer.machine}: {terms or 'equal, a tie'}")
    return lines


def _explained(machine: Verdict, answer: RankResult) -> list[str]:
    """Return the verdict of each filter and score on one machine; a refused machine has no normalised values."""
    feasible = machine.feasible
    lines = ["", *_standing(machine, answer)]
    names = [verdict["filter"] for verdict in machine.filters] + list(machine.scores)
    width = max(map(len, names), default=0)
    for verdict in machine.filters:
        word = "ok" if verdict["allowed"] else f"refused, {verdict['reason']}"
        lines.append(f"  filter {verdict['filter']:{width}}  {word}{_details(verdict.get('compared', {}))}")
    for name, term in machine.scores.items():
        more = {key: value for key, value in term.items() if key not in ("value", "raw", "weight")}
        value = f"{number(term['value'])} * {term['weight']:g}, " if feasible else ""
        lines.append(f"  score  {name:{width}}  {value}raw {number(term['raw'], 4)}{_details(more)}")
    return lines


_TITLES = {"promised": "allocated"}
"""Names of JSON that people read as another word."""


def _details(values: Mapping[str, Any]) -> str:
    return "".join(f"; {_TITLES.get(name, name)} {_in_words(value)}" for name, value in values.items())


def _in_words(value: Any) -> str:
    """Return a number or a table of numbers: amounts with a suffix, unknown ones as unknown."""
    if isinstance(value, Mapping):
        known = {key: each for key, each in value.items() if each is not None}
        return "{" + ", ".join(f"{key} {_in_words(each)}" for key, each in known.items()) + "}" if known else "unknown"
    if isinstance(value, float):
        return size(value) if abs(value) >= 1e5 else f"{value:.4g}"
    if isinstance(value, list):
        return " ".join(map(_in_words, value)) or "none"
    return "unknown" if value is None else str(value)
