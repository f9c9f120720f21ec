"""The built-in profiles side by side: the plugins of each, and its ranking of one small fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ops.docs.example_fleet import machine, ranked
from ops.docs.markdown import number, table
from ops.docs.plugin_pages import changed, defaults_of, written
from scorer.ranking.filters import FILTERS
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.scores import SCORES

FLEET = [
    machine("idle", cpu=0.05, std=0.01, memory=0.10),
    machine("calm", cpu=0.30, std=0.02, memory=0.35),
    machine("bursty", cpu=0.30, std=0.30, memory=0.35),
    machine("busy", cpu=0.70, std=0.05, memory=0.50),
    machine("hot", cpu=0.95, std=0.03, memory=0.60),
]
INSTANCES: list[dict[str, Any]] = [
    {"id": "a", "machine": "calm", "cpu": 4, "memory": "16G"},
    {"id": "b", "machine": "idle", "cpu": 16, "memory": "64G"},
]
REQUEST = {"cpu": 2, "memory": "10G"}


def page(profiles: Mapping[str, Profile]) -> str:
    """Return the page."""
    names = list(profiles)
    parts = [
        "# Profiles compared",
        "A profile is the filters and weighted scores that run together. `windward profiles show NAME` prints one with "
        "every setting in force; a file of your own is checked by the same command.",
        table(["profile", "what it is for"], [[name, profiles[name].description] for name in names]),
        "## What each makes of one fleet",
        f"Five machines of 32 cores, a request of 2 cores and 10 GB. `idle` has little load, but an instance on it has "
        f"requested half of it ({', '.join(one['id'] for one in INSTANCES)} are the instances). The total score of each, "
        "and the machine that is chosen:",
        _outcome(profiles),
        "## Load",
        table(["", *names], [[key, *(str(profiles[name].effective()[key]) for name in names)]
                             for key in ("window", "credits", "debits", "learned", "stale", "stale_s")]),
        "## Filters",
        _present("filters", profiles),
        "## Scores",
        _present("scores", profiles),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _outcome(profiles: Mapping[str, Profile]) -> str:
    rows = []
    for name, profile in profiles.items():
        ranking = ranked(FLEET, REQUEST, profile, INSTANCES)
        cells = {}
        for row in range(len(ranking.machines)):
            said = number(float(ranking.total[row])) if ranking.feasible[row] else "refused"
            machine_name = ranking.machines.name(row)
            cells[machine_name] = f"**{said}**" if machine_name == ranking.chosen else said
        rows.append([name, *(cells[each["name"]] for each in FLEET), f"{ranking.chosen}"])
    return table(["profile", *(each["name"] for each in FLEET), "chosen"], rows)


def _present(kind: str, profiles: Mapping[str, Profile]) -> str:
    used: dict[str, dict[str, dict[str, Any]]] = {}
    for name, profile in profiles.items():
        for each in profile.effective()[kind]:
            used.setdefault(each["use"], {})[name] = each
    rows = []
    known = {each.name: each for each in (*FILTERS, *SCORES)}
    for plugin, by_profile in used.items():
        defaults = defaults_of(known[plugin])
        cells = [_cell(by_profile.get(name), defaults) for name in profiles]
        rows.append([f"[{plugin}]({kind}/{plugin}.md)", *cells])
    return table(["", *profiles], rows)


def _cell(settings: Mapping[str, Any] | None, defaults: Mapping[str, Any]) -> str:
    if settings is None:
        return ""
    own = changed(settings, defaults)
    return written(own) if own else "yes"
