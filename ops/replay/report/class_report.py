"""The tables of worlds with batch: hosted core-minutes, losses of prod, evictions."""

from __future__ import annotations

from collections.abc import Sequence

from ops.replay.report.comparison import CLASS_RATIOS, Result, Row, compare
from ops.replay.report.table import Table
from schemas.process.tables import Column

FORMATS = {
    "hosted": ".2f", "hosted_prod": ".2f", "hosted_batch": ".2f", "kept_batch": ".2f", "running_batch": ".1f",
    "used_batch": ".2f", "mean": ".2f",
    "hot90_prod": ".3%", "on_hot_prod": ".3%", "hot90_alone": ".3%", "lost_prod": ".4%", "lost_yielding": ".4%",
    "evictions": ".3f", "refused_prod": ".2%",
}  # fmt: skip
_HEADINGS = {
    "hosted": "hosted", "hosted_prod": "hosted prod", "hosted_batch": "hosted batch",
    "kept_batch": "batch less lost work", "running_batch": "batch instances a machine", "used_batch": "used by batch",
    "mean": "mean load", "hot90_prod": "hot minutes with prod", "on_hot_prod": "prod on hot",
    "hot90_alone": "hot by prod alone", "lost_prod": "prod lost", "lost_yielding": "prod lost, batch yields",
    "evictions": "evictions an instance-hour", "refused_prod": "prod's first tries refused",
}  # fmt: skip


def class_tables(results: Sequence[Result], baseline: str, families: Sequence[str], worlds: str) -> list[Table]:
    """Return the ratios over all worlds, the figures themselves, and each family by itself, all after the fill."""
    rows = compare(results, baseline)
    found = [_ratios(rows, baseline, f"{worlds}, after the fill"), _figures(rows)]
    if len(families) > 1:
        for family in families:
            found.append(_ratios(compare(results, baseline, family=family), baseline, family))
    return found


def _ratios(rows: Sequence[Row], baseline: str, title: str) -> Table:
    columns = [Column("policy"), *(Column(_HEADINGS[name], at) for at, name in enumerate(CLASS_RATIOS))]
    columns += [Column(_HEADINGS["evictions"], 2), Column("worlds", 3)]
    lines = []
    for row in rows:
        if row.policy == baseline:
            cells = [format(row.figures[name], FORMATS[name]) for name in CLASS_RATIOS]
        else:
            cells = [str(row.ratios[name]) if name in row.ratios else "-" for name in CLASS_RATIOS]
        lines.append([row.policy, *cells, format(row.figures["evictions"], ".3f"), str(row.worlds)])
    return Table(f"{title}: ratios to {baseline}, 95 % intervals", columns, lines)


def _figures(rows: Sequence[Row]) -> Table:
    columns = [Column("policy"), *(Column(_HEADINGS[name], at) for at, name in enumerate(FORMATS))]
    lines = [[row.policy, *(format(row.figures[name], how) for name, how in FORMATS.items())] for row in rows]
    return Table("the figures themselves, means over the worlds", columns, lines)
