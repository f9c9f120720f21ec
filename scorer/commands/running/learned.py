"""``windward learned``: the share of their requests that instances use, with its error."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from schemas.process.settings import load_settings
from schemas.process.tables import Column, Screen, table, view
from schemas.resources import RESOURCES
from schemas.tables.learned import ChanceBin, Chances, Learned, read_learned
from schemas.values.numbers import counted, duration
from scorer.commands.shared import ask
from scorer.ranking.estimates.measured_use import FLEET, MEASURED_S_MIN, SEEN_MIN, SIZE
from scorer.settings import ClientSettings

ROWS = 20
"""Kinds shown."""


@dataclass(frozen=True, kw_only=True)
class LearnedSettings(ClientSettings):
    """Print what share of their requests instances really use; exit code 1 while nothing is learned."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ("windward learned", "windward learned --json")


SETTINGS = LearnedSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(LearnedSettings, "learned", argv, environ), "learned", _learned)


def _learned(settings: LearnedSettings) -> int:
    with ask.server(settings) as server:
        learned = read_learned(server.get(settings.names.learned))
    ask.tell(settings, learned, show)
    return ask.OK if learned is not None else ask.FAILED


def show(learned: Learned | None, screen: Screen | None = None, now_s: float | None = None) -> str:
    """Return the measured use by kind of instance, and how often stated chances of overload came true."""
    if learned is None:
        return "nothing is learned yet"
    now_s = time.time() if now_s is None else now_s
    at = max(learned.uses_at, learned.chances.at if learned.chances else 0.0)
    lines = [_measured(learned, screen) if learned.instances else _too_few(learned)]
    if learned.chances is not None:
        lines += [_chances(learned.chances, name, bins, screen) for name, bins in sorted(learned.chances.bins.items())]
    lines.append(f"version {learned.version}, {max(now_s - at, 0.0):.0f} s ago, by {learned.scorer or 'no scorer'}")
    return "\n".join(filter(None, lines))


def _too_few(learned: Learned) -> str:
    """Return how many instances were measured so far, how many are required, and what to do where there are none."""
    if not learned.uses:
        return "no instance is measured: agents do not report any (docs/instances.md)"
    seen = max((one.seen for one in learned.uses.get(FLEET, {}).values()), default=0.0)
    return (
        f"{counted(int(seen), 'instance')} measured for {duration(MEASURED_S_MIN)} or longer; "
        f"use by kind is learned from {SEEN_MIN:.0f} on"
    )


def _measured(learned: Learned, screen: Screen | None) -> str:
    """Return a table of the measured use: of the fleet, then of the kinds with most instances."""
    names = [name for name in RESOURCES if any(name in of for of in learned.instances.values())]
    counts = {group: max(of.values()) for group, of in learned.instances.items() if SIZE not in group}
    shown = sorted(counts, key=lambda group: (group != FLEET, -counts[group], group))[:ROWS]
    rows = []
    for group in shown:
        parts = learned.kinds.get(group, learned.factors if group == FLEET else {})
        cells = [_part(parts.get(name), learned.deviations[group].get(name)) for name in names]
        rows.append([group or "all", f"{counts[group]:,.0f}", *cells])
    columns = [Column("kind", left=True), Column("measured instances"), *(Column(f"{name} used") for name in names)]
    found = table(columns, rows, screen)
    more = len(counts) - len(shown)
    return found + (f"\n{more} kinds more: --json has all, and sizes" if more > 0 else "")


def _chances(chances: Chances, name: str, bins: list[ChanceBin], screen: Screen | None) -> str:
    """Return a table of stated chances of overload, with the frequency of overload for each."""
    above = f"{name} above {chances.limit:.0%} in the next half hour"
    columns = (
        Column("stated before correction", of=lambda one: f"{one.stated / one.cases:.1%}"),
        Column(above, of=lambda one: f"{one.observed / one.cases:.1%}"),
        Column("cases", of=lambda one: f"{one.cases:,.0f}"),
    )
    rows = [one for one in bins if one.cases >= 1]
    return view(columns, rows, screen) if rows else ""


def _part(part: float | None, deviation: float | None) -> str:
    return "" if part is None or deviation is None else f"{part:.2f} ± {deviation:.2f}"
