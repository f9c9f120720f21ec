"""The tables of a comparison, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from ops.replay.comparison import Result, Row, compare

_ABSOLUTE = {
    "std": ".3f", "p99": ".2f", "hot80": ".2%", "hot90": ".2%", "hot100": ".2%", "lost": ".3%", "on_hot": ".2%",
    "refused_first": ".2%", "refusals": ".3f", "emptied": ".0%", "decision_ms": ".2f",
}  # fmt: skip
_SHOWN = ("std", "hot90", "hot100", "lost", "on_hot")
_HEADINGS = {
    "on_hot": "instances on hot", "refused_first": "first tries refused", "refusals": "refusals each",
    "emptied": "could be emptied", "decision_ms": "ms a decision",
}  # fmt: skip
STAGES = {"steady": "after the fill", "fill": "the fill alone (an empty fleet flatters)"}


def print_report(results: Sequence[Result], baseline: str, console: Console) -> None:
    """Print the comparison over all worlds, each family by itself, then the fill."""
    families = list(dict.fromkeys(one.family for one in results))
    worlds = len({(one.family, one.seed) for one in results})
    console.print(ratios(compare(results, baseline), baseline, f"{_counted(worlds)}, {STAGES['steady']}"))
    console.print(absolutes(compare(results, baseline), "the figures themselves, means over the worlds"))
    if len(families) > 1:
        for family in families:
            console.print(ratios(compare(results, baseline, family=family), baseline, f"{family}, {STAGES['steady']}"))
    if any("fill" in one.stages for one in results):
        console.print(ratios(compare(results, baseline, "fill"), baseline, STAGES["fill"]))


def _counted(worlds: int) -> str:
    return f"all {worlds} worlds" if worlds > 1 else "one world"


def ratios(rows: Sequence[Row], baseline: str, title: str) -> Table:
    """Return the table of ratios to the baseline; the baseline's own row has its figures."""
    table = Table(title=f"{title}: ratios to {baseline}, 95 % intervals; lower is better", title_justify="left")
    table.add_column("policy")
    for name in _SHOWN:
        table.add_column(_HEADINGS.get(name, name), justify="right")
    table.add_column(_HEADINGS["refused_first"], justify="right")
    for row in rows:
        refused = format(row.figures["refused_first"], ".2%")
        if row.policy == baseline:
            cells = [format(row.figures[name], _ABSOLUTE[name]) for name in _SHOWN]
        else:
            cells = [str(row.ratios[name]) if name in row.ratios else "-" for name in _SHOWN]
        table.add_row(row.policy, *cells, refused, style="dim" if row.reference else None)
    return table


def absolutes(rows: Sequence[Row], title: str) -> Table:
    """Return the table of the figures themselves."""
    table = Table(title=title, title_justify="left")
    table.add_column("policy")
    for name in _ABSOLUTE:
        table.add_column(_HEADINGS.get(name, name), justify="right")
    for row in rows:
        cells = [format(row.figures[name], how) if name in row.figures else "-" for name, how in _ABSOLUTE.items()]
        table.add_row(row.policy, *cells, style="dim" if row.reference else None)
    return table
