"""The tables of a comparison, for a terminal or a page."""

from __future__ import annotations

from collections.abc import Sequence

from ops.replay.report.class_report import class_tables
from ops.replay.report.comparison import Result, Row, compare
from ops.replay.report.table import Table
from schemas.process.tables import Column, Screen, table

FORMATS = {
    "std": ".3f", "p99": ".2f", "hot80": ".2%", "hot90": ".2%", "hot100": ".2%", "lost": ".3%", "on_hot": ".2%",
    "refused_first": ".2%", "refusals": ".3f", "emptied": ".0%",
    "moves": ".2%", "copying": ".2%", "decision_ms": ".2f",
}  # fmt: skip
_MEMORY = {"mem_std": ".3f", "mem90": ".2%", "mem100": ".2%"}
_SHOWN = ("std", "hot90", "hot100", "lost", "on_hot")
_HEADINGS = {
    "on_hot": "instances on hot", "refused_first": "first tries refused", "refusals": "refusals each",
    "emptied": "could be emptied", "moves": "moved an hour", "copying": "network full",
    "decision_ms": "ms a decision",
    "mem_std": "memory: std", "mem90": "memory above 90 %", "mem100": "memory above 100 %",
}  # fmt: skip
STAGES = {"steady": "after the fill", "fill": "the fill alone (an empty fleet flatters)"}


def tables(results: Sequence[Result], baseline: str) -> list[Table]:
    """Return the comparison over all worlds, each family by itself, then the fill; of worlds with batch, by class."""
    families = list(dict.fromkeys(one.family for one in results))
    worlds = len({(one.family, one.seed) for one in results})
    if all("hosted" in one.stages.get("steady", ()) for one in results):
        return class_tables(results, baseline, families, _counted(worlds))
    found = [
        ratios(compare(results, baseline), baseline, f"{_counted(worlds)}, {STAGES['steady']}"),
        absolutes(compare(results, baseline), "the figures themselves, means over the worlds"),
    ]
    if len(families) > 1:
        for family in families:
            found.append(ratios(compare(results, baseline, family=family), baseline, f"{family}, {STAGES['steady']}"))
    if any("fill" in one.stages for one in results):
        found.append(ratios(compare(results, baseline, "fill"), baseline, STAGES["fill"]))
    return found


def print_report(results: Sequence[Result], baseline: str, screen: Screen) -> None:
    """Print the tables for a terminal."""
    for one in tables(results, baseline):
        print(f"{one.title}\n{table(one.columns, one.lines, screen)}\n")  # noqa: T201


def markdown(results: Sequence[Result], baseline: str) -> str:
    """Return the tables as a page has them."""
    return "\n".join(f"**{one.title}**\n\n{_markdown(one)}" for one in tables(results, baseline))


def _markdown(one: Table) -> str:
    lines = [[column.title for column in one.columns], ["---"] * len(one.columns), *one.lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _counted(worlds: int) -> str:
    return f"all {worlds} worlds" if worlds > 1 else "one world"


def ratios(rows: Sequence[Row], baseline: str, title: str) -> Table:
    """Return the table of ratios to the baseline; the baseline's own row has its figures."""
    formats = FORMATS | _MEMORY
    shown = (*_SHOWN, *_of_memory(rows))
    columns = [Column("policy"), *(Column(_HEADINGS.get(name, name), at) for at, name in enumerate(shown))]
    columns += [Column(_HEADINGS["refused_first"], 2), Column("worlds", 3)]
    lines = []
    for row in rows:
        refused = format(row.figures["refused_first"], ".2%")
        if row.policy == baseline:
            cells = [format(row.figures[name], formats[name]) for name in shown]
        else:
            cells = [str(row.ratios[name]) if name in row.ratios else "-" for name in shown]
        lines.append([row.policy, *cells, refused, str(row.worlds)])
    return Table(f"{title}: ratios to {baseline}, 95 % intervals; lower is better", columns, lines)


def absolutes(rows: Sequence[Row], title: str) -> Table:
    """Return the table of the figures themselves."""
    formats = FORMATS | _of_memory(rows)
    columns = [Column("policy"), *(Column(_HEADINGS.get(name, name), at) for at, name in enumerate(formats))]
    lines = [
        [
            row.policy,
            *(format(row.figures[name], how) if name in row.figures else "-" for name, how in formats.items()),
        ]
        for row in rows
    ]
    return Table(title, columns, lines)


def _of_memory(rows: Sequence[Row]) -> dict[str, str]:
    """Return the figures of memory and their formats, where all rows have them."""
    return _MEMORY if all(name in row.figures for row in rows for name in _MEMORY) else {}
