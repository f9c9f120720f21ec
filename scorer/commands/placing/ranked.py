"""The machines of an answer for people: one table, verdicts of filters and scores, the basis of a decision in words."""

import sys
from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import Any

import msgspec

from schemas.process.tables import Column, Screen, view
from schemas.resources import RESOURCES
from schemas.values.near import did_you_mean
from schemas.values.numbers import amount, duration, number, size
from scorer.client import Candidate, RankResult, UpdateResult, Verdict
from scorer.commands.shared.show import age, ratio, resources

_AMOUNTS = {"mean": 5, "std": 6, "credit": 7, "request": 7, "allocatable": 4}
"""Columns of a resource with amounts; the higher the number, the earlier a narrow terminal drops the column."""


_TITLES = {"age_s_max": "at most", "available_min": "at least", "coverage_min": "at least"}
"""Names of JSON that people read as other words."""
_SHARES = ("available", "available_min", "coverage", "coverage_min", "fleet_mean")
_AMOUNTS_BY = ("request", "today", "yesterday", "limit", "maxmemory")
"""Figures that are shown in the unit of their resource."""
_RANKED = (
    Column("machine", of="machine"),
    Column("score", of=lambda one: number(one.score)),
    Column("risk", 1, of=lambda one: number(one.risk)),
)
_REFUSALS = (
    Column("refused by", of="filter"),
    Column("machines", of="machines"),
    Column("reason", left=True, of="reason"),
)


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
        for place, line in enumerate(said):
            head = f"  {name if place == 0 else '':{width}}  "
            lines += wrap(line, max(wide, 40), initial_indent=head, subsequent_indent=" " * (width + 6))
    return lines


def candidates(answer: Ranked, screen: Screen | None = None) -> str:
    """Return the best machines as a table: their load before and after the placement, then the amounts.

    ``cpu`` is the mean with credits and debits as a share of allocatable; ``then`` is the same with the requested
    instance.
    """
    named, expected = answer.request, expected_use(answer)

    def share(name: str, more: float = 0.0) -> Callable[[Candidate], str]:
        return lambda one: ratio(used_share(one.resources[name], more))

    def term(name: str, each: str) -> Callable[[Candidate], str]:
        return lambda one: amount(name, one.resources[name][each], 0 if each == "allocatable" else 2)

    columns = [*_RANKED]
    for name in resources(("cpu", "memory", "nic"), named):
        columns.append(Column(name, 0 if name in ("cpu", "memory") else 2, of=share(name)))
        columns.append(Column(f"{name} then", 3, of=share(name, expected.get(name, 0.0))))
    for name in resources(("cpu", "memory"), named):
        titles = {"mean": f"{name} mean", "allocatable": "of"}
        columns += [Column(titles.get(each, each), at, of=term(name, each)) for each, at in _AMOUNTS.items()]
    columns += [
        Column("window", 8, of=lambda one: duration(one.window_s)),
        Column("age", 2, of=lambda one: age(one.age_s)),
    ]
    return view(columns, answer.machines or answer.candidates, screen)


def ranking(answer: RankResult, screen: Screen | None = None) -> str:
    """Return the answer of `rank` as text: the machines in columns, then explanations, summary and warnings."""
    lines = []
    explained = answer.machines or ()
    if explained or answer.candidates:
        lines.append(candidates(answer, screen))
    if explained:
        lines += ["", *in_words(answer, screen, explained[0])]
    wide = screen.width if screen is not None and screen.width else sys.maxsize
    for line in [line for machine in explained for line in _explained(machine, answer)]:
        lines += wrap(line, wide, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False) or [line]
    if explained and answer.refusals:
        lines += ["", view(_REFUSALS, answer.refusals, screen)]
    lines += [""] * bool(explained) + [answer.summary]
    lines += [f"warning: {warning}" for warning in answer.warnings]
    return "\n".join(lines)


def explained_only(answer: RankResult, machine: str = "") -> RankResult:
    """Return the answer with the explanation of one machine, or of its candidates, only.

    Raises KeyError for an unknown machine, with a hint.
    """
    everything = answer.machines or []
    wanted = {machine} if machine else {one.machine for one in answer.candidates}
    found = [one for one in everything if one.machine in wanted]
    if machine and not found:
        raise KeyError(did_you_mean(machine, [one.machine for one in everything]))
    return msgspec.structs.replace(answer, machines=found or everything[:1])


def _standing(machine: Verdict, answer: RankResult) -> list[str]:
    """Return the verdict on a machine: its refusal, or its place and by score the difference to the best."""
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
        lines.append(f"  filter {verdict['filter']:{width}}  {word}{_compared(verdict, machine, answer.request)}")
    for name, term in machine.scores.items():
        more = {key: value for key, value in term.items() if key not in ("value", "raw", "weight")}
        value = f"{number(term['value'])} * {term['weight']:g}, " if feasible else ""
        lines.append(f"  score  {name:{width}}  {value}raw {number(term['raw'], 4)}{_details(more)}")
    return lines


def _compared(verdict: Mapping[str, Any], machine: Verdict, asked: Mapping[str, float]) -> str:
    """Return the values that a filter compared, in common units: promised amounts apart from measured use."""
    values, name = verdict.get("compared", {}), verdict["filter"]
    if name == "fits" and "taken" in values:
        parts = _fits(values, asked)
    elif name == "usage_threshold":
        parts = _used(values, machine)
    else:
        return _details(values)
    return "".join(f"; {part}" for part in parts)


def _fits(values: Mapping[str, Any], asked: Mapping[str, float]) -> list[str]:
    found = []
    for name, request in values["request"].items():
        taken, promised, limit, whole = (values[key].get(name) for key in ("taken", "promised", "limit", "allocatable"))
        if not request or limit is None:
            found += [f"{name} capacity unknown"] if request else []
            continue
        promise = f"promised {amount(name, promised)} of {amount(name, limit)}"
        found.append(f"{name} {promise}, asked {amount(name, asked.get(name) or request)}")
        if taken is not None and taken > (promised or 0.0):
            found.append(f"{name} used {amount(name, taken)} of {amount(name, max(limit, whole or 0.0))}")
    return found


def _used(values: Mapping[str, Any], machine: Verdict) -> list[str]:
    of, window = values.get("usage_of", {}), f" of {duration(machine.window_s)}" if machine.window_s else ""
    return [
        f"{name} used, with it ({of.get(name) or 'mean'}{window}) {ratio(values['usage'].get(name))} of"
        f" {ratio(limit)} allowed"
        for name, limit in values["threshold"].items()
    ]


def _details(values: Mapping[str, Any]) -> str:
    return "".join(f"; {_title(name)} {_in_words(value, _unit(name))}" for name, value in values.items())


def _title(name: str) -> str:
    if name.startswith("chance_above_"):
        return f"chance of more than {name.removeprefix('chance_above_').replace('_percent', '%')}:"
    return _TITLES.get(name, name.removesuffix("_s")).replace("_", " ")


def _unit(name: str) -> Callable[[str, float], str]:
    """Return the format of a number with this name, as a function of the value and the resource."""
    if name in _SHARES:
        return lambda _, value: ratio(value)
    if name.startswith("chance_above_"):
        return lambda _, value: chance(value)
    if name.endswith(("_s", "_s_max")):
        return lambda _, value: age(value)
    return lambda resource, value: amount(resource, value) if resource and name in _AMOUNTS_BY else _plain(value)


def _plain(value: float) -> str:
    """Return a number with a fitting precision; one near 0 is marked as such.

    >>> [_plain(value) for value in (0.0, 7.188e-08, 0.25, 3.0, -1e-9, 2e9)]
    ['0', 'below 0.001', '0.25', '3', 'below 0.001', '2.0G']
    """
    if abs(value) >= 1e5:
        return size(value)
    return "below 0.001" if 0 < abs(value) < 0.001 else f"{value:.3g}"


def _in_words(value: Any, unit: Callable[[str, float], str], resource: str = "") -> str:
    """Return a number, or a table of numbers by resource; an unknown one as *unknown*."""
    if isinstance(value, Mapping):
        known = {key: each for key, each in value.items() if each is not None}
        return ", ".join(f"{key} {_in_words(each, unit, key)}" for key, each in known.items()) or "unknown"
    if isinstance(value, float):
        return unit(resource if resource in RESOURCES else "", value)
    if isinstance(value, list):
        return " ".join(_in_words(each, unit) for each in value) or "none"
    return "unknown" if value is None else str(value)
