"""The tables of a comparison, for a terminal or a page; of worlds with batch those by class."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isclose
from typing import NamedTuple

from ops.replay.report.comparison import CLASS_RATIOS, MEMORY_RATIOS, NIC_RATIOS, Result, Row, compare
from schemas.process.tables import Column, Screen, table


class Table(NamedTuple):
    title: str
    columns: list[Column]
    lines: list[list[str]]


class Shown(NamedTuple):
    formats: Mapping[str, str]
    headings: Mapping[str, str]
    """Headings; a figure without one has its name."""
    compared: tuple[str, ...]
    """The figures that are shown as ratios."""
    beside: str
    """The figure that is shown beside the ratios, not as a ratio."""
    note: str = ""
    """After the title of the ratios."""

    def columns(self, names: Sequence[str]) -> list[Column]:
        return [Column("policy"), *(Column(self.headings.get(name, name), at) for at, name in enumerate(names))]

    def cell(self, row: Row, name: str) -> str:
        return format(row.figures[name], self.formats[name]) if name in row.figures else "-"


LOAD = Shown(
    {
        "std": ".3f", "p99": ".2f", "hot80": ".2%", "hot90": ".2%", "hot100": ".2%", "lost": ".3%", "on_hot": ".2%",
        "refused_first": ".2%", "refusals": ".3f", "emptied": ".0%",
        "moves": ".2%", "exchanges": ".2%", "copying": ".2%", "decision_ms": ".2f",
    },
    {
        "on_hot": "instances on hot", "refused_first": "first tries refused", "refusals": "refusals each",
        "emptied": "could be emptied", "moves": "moved an hour", "exchanges": "roles exchanged an hour",
        "copying": "network full",
        "decision_ms": "ms a decision",
        "mem_std": "memory: std", "mem90": "memory above 90 %", "mem100": "memory above 100 %",
        "nic_std": "network: std", "nic90": "network above 90 %", "nic100": "network above 100 %",
    },
    ("std", "hot90", "hot100", "lost", "on_hot"), "refused_first", "; lower is better",
)  # fmt: skip
FURTHER = tuple(dict(zip(names, (".3f", ".2%", ".2%"), strict=True)) for names in (MEMORY_RATIOS, NIC_RATIOS))
"""Beside those of the load where all worlds have memory, a network."""
BY_CLASS = Shown(
    {
        "hosted": ".2f", "hosted_prod": ".2f", "hosted_batch": ".2f", "kept_batch": ".2f", "running_batch": ".1f",
        "used_batch": ".2f", "mean": ".2f",
        "hot90_prod": ".3%", "on_hot_prod": ".3%", "hot90_alone": ".3%", "lost_prod": ".4%", "lost_yielding": ".4%",
        "waits_batch": ".2f", "evictions": ".3f", "refused_prod": ".2%",
    },
    {
        "hosted_prod": "hosted prod", "hosted_batch": "hosted batch", "kept_batch": "batch less lost work",
        "running_batch": "batch instances a machine", "used_batch": "used by batch", "mean": "mean load",
        "hot90_prod": "hot minutes with prod", "on_hot_prod": "prod on hot", "hot90_alone": "hot by prod alone",
        "lost_prod": "prod lost", "lost_yielding": "prod lost, batch yields",
        "waits_batch": "batch waits, min", "evictions": "evictions an instance-hour",
        "refused_prod": "prod's first tries refused",
    },
    CLASS_RATIOS, "evictions",
)  # fmt: skip
STAGES = {"steady": "after the fill", "fill": "the fill alone (an empty fleet flatters)"}


def tables(results: Sequence[Result], baseline: str) -> list[Table]:
    """Return all worlds compared, the figures themselves, why instances were refused, each family, then the fill.

    Worlds with batch have figures by class instead, and no table of the fill.
    """
    families = list(dict.fromkeys(one.family for one in results))
    count = len({(one.family, one.seed) for one in results})
    worlds = f"all {count} worlds" if count > 1 else "one world"
    by_class = all("hosted" in one.stages.get("steady", ()) for one in results)
    shown = BY_CLASS if by_class else LOAD
    rows = compare(results, baseline)
    found = [ratios(rows, baseline, f"{worlds}, {STAGES['steady']}", shown), figures(rows, shown)]
    found += [refused(results)] if any(one.refusals for one in results) else []
    for family in families if len(families) > 1 else ():
        title = family if by_class else f"{family}, {STAGES['steady']}"
        found.append(ratios(compare(results, baseline, family=family), baseline, title, shown))
    if any("fill" in one.stages for one in results) and not by_class:
        found.append(ratios(compare(results, baseline, "fill"), baseline, STAGES["fill"], shown))
    return found


def print_report(results: Sequence[Result], baseline: str, screen: Screen) -> None:
    for one in tables(results, baseline):
        print(f"{one.title}\n{table(one.columns, one.lines, screen)}\n")  # noqa: T201


def markdown(results: Sequence[Result], baseline: str) -> str:
    """Return the tables as text for a page."""
    found = []
    for one in tables(results, baseline):
        lines = [[column.title for column in one.columns], ["---"] * len(one.columns), *one.lines]
        found.append(f"**{one.title}**\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(found)


def ratios(rows: Sequence[Row], baseline: str, title: str, shown: Shown) -> Table:
    """Return the table of ratios to the baseline; the baseline's own row has its figures.

    A ratio of nothing to nothing is a dash. Where every policy has the same figures, as with one instance, there are
    too few instances to compare. A ratio whose interval has 1 in it, or that is of one world, is marked by ``~``.
    """
    shown = _with_further(shown, rows)
    base = next((row.figures for row in rows if row.policy == baseline), {})
    alike = len(rows) > 1 and all(
        isclose(row.figures.get(name, 0.0), base.get(name, 0.0), rel_tol=1e-6)
        for row in rows
        for name in shown.compared
    )
    columns = [*shown.columns(shown.compared), Column(shown.headings[shown.beside], 2), Column("worlds", 3)]
    lines = []
    for row in rows:
        if row.policy == baseline:
            cells = [shown.cell(row, name) for name in shown.compared]
        else:
            cells = [
                f"{'' if row.ratios[name].tells else '~'}{row.ratios[name]}"
                if name in row.ratios and not alike and (row.figures.get(name) or base.get(name))
                else "-"
                for name in shown.compared
            ]
        lines.append([row.policy, *cells, shown.cell(row, shown.beside), str(row.worlds)])
    single = all(row.worlds < 2 for row in rows)
    note = "; too few instances to compare: every policy has the same figures" if alike else shown.note
    if not alike and any(cell.startswith("~") for line in lines for cell in line):
        note += f"; ~: too little to tell, {'one world has no interval' if single else 'the interval has 1 in it'}"
    return Table(f"{title}: ratios to {baseline}{'' if single else ', 95 % intervals'}{note}", columns, lines)


def figures(rows: Sequence[Row], shown: Shown) -> Table:
    shown = _with_further(shown, rows)
    names = [name for name in shown.formats if any(name in row.figures for row in rows)]
    lines = [[row.policy, *(shown.cell(row, name) for name in names)] for row in rows]
    return Table("the figures themselves, means over the worlds", shown.columns(names), lines)


def refused(results: Sequence[Result]) -> Table:
    """Return the table of the most frequent reasons of first refusals, by policy."""
    by_policy: dict[str, Counter[str]] = {}
    for one in results:
        by_policy.setdefault(one.policy, Counter()).update(one.refusals)
    lines = [
        [policy, ", ".join(f"{count} {reason}" for reason, count in found.most_common(3)) or "none"]
        for policy, found in by_policy.items()
    ]
    return Table(
        "why instances were refused first: for each the reason that refused most machines, the fill included",
        [Column("policy"), Column("instances, reason", left=True)],
        lines,
    )


def _with_further(shown: Shown, rows: Sequence[Row]) -> Shown:
    """Return the figures of the load with those of memory and network, where all rows have them."""
    for formats in FURTHER if shown is LOAD else ():
        if all(name in row.figures for row in rows for name in formats):
            shown = shown._replace(formats={**shown.formats, **formats}, compared=(*shown.compared, *formats))
    return shown
