"""One decision, step by step, with the numbers that the product computes when the pages are built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ops.docs.fleet import machine, ranked
from ops.docs.markdown import number, table
from scorer.ranking import explain
from scorer.ranking.catalogue import load_profiles
from scorer.ranking.ranking import Ranking
from streams.moments import merge

FIRST, SECOND = (10, 7.5, 20.0), (10, 9.0, 45.0)
"""Two samples of one machine, each the moments (n, mean, m2) of ten readings of its CPU, in cores."""

FLEET = [
    machine("calm", cpu=0.28, std=0.02, memory=0.31),
    machine("bursty", cpu=0.28, std=0.28, memory=0.31),
    machine("taken", cpu=0.20, std=0.02, memory=0.25),
    machine("full", cpu=0.97, std=0.02, memory=0.47),
    machine("silent", cpu=0.03, std=0.01, memory=0.08, age_s=900.0),
]
INSTANCES = [{"id": "new-1", "machine": "taken", "cpu": 8, "memory": "32G", "placed_ago_s": 600}]
REQUEST = {"cpu": 2, "memory": "10G"}


def page() -> str:
    """Return the page."""
    profile = load_profiles().choose()
    ranking = ranked(FLEET, REQUEST, profile, INSTANCES)
    answer = explain.answer(ranking, len(FLEET), explain_all=True)
    parts = [
        "# One decision, step by step",
        "A deployer asks for a machine for 2 cores and 10 GB. The numbers on this page are computed by the product when "
        "the page is built; `windward rank --machines FILE --explain` shows the same of a fleet of yours.",
        "## 1. Readings become a sample",
        "The agent reads `/proc` once a second. After ten readings it sends their *moments*: count n, mean, sum of "
        "squared distances from the mean m2, and maximum. Two samples of the CPU of one machine, in cores:",
        samples(),
        "## 2. Samples become a window",
        "Each sample fills a slot of ten seconds. A window merges the moments of its slots, so its mean and standard "
        "deviation are those of all readings, exactly:",
        merged(),
        "## 3. The scorer knows five machines",
        "Each has 32 cores and 128 GB. On `taken` an instance of 8 cores and 32 GB was placed ten minutes ago: the "
        "window of an hour shows a sixth of its load, so the rest is added as *credit*.",
        known(ranking, answer),
        "## 4. Filters refuse",
        "A machine stays when no filter of the profile refuses it. The filters that this request uses:",
        filtered(ranking),
        "## 5. Scores compare",
        "Each score gives 0 to 100. *Raw* is what the score says; some are spread over the feasible machines "
        "(`min-max`); the total is the mean by weight.",
        scored(ranking),
        "## 6. The best is reserved",
        f"`{answer['machine']}` has the highest total, {number(answer['score'])}. A script in Redis compares the limits "
        "of the filters once more with the ledger's own sums and writes the reservation; if another scorer was first "
        "and there is no room left, the next machine is tried.",
        f"The answer says the same in one line: **{answer['summary']}**.",
    ]
    return "\n\n".join(parts) + "\n"


def samples() -> str:
    """Return the two samples."""
    rows = [[str(n), number(mean), number(m2), number(math.sqrt(m2 / n))] for n, mean, m2 in (FIRST, SECOND)]
    return table(["n", "mean", "m2", "standard deviation"], rows)


def merged() -> str:
    """Return their union."""
    n, mean, m2 = (float(each) for each in merge(*(np.array(float(x)) for x in (*FIRST, *SECOND))))
    return table(
        ["n", "mean", "m2", "standard deviation"], [[number(n), number(mean), number(m2), number(math.sqrt(m2 / n))]]
    )


def known(ranking: Ranking, answer: Mapping[str, Any]) -> str:
    """Return what is seen of each machine: its CPU with credits."""
    said = {each["machine"]: each["resources"]["cpu"] for each in answer["machines"]}
    rows = []
    for row in range(len(ranking.machines)):
        shown = said[ranking.machines.name(row)]
        rows.append([
            f"`{ranking.machines.name(row)}`",
            number(shown["mean"]),
            number(shown["credit"]),
            number(float(ranking.machines.mean[0, row])),
            number(shown["std"]),
            number(shown["promised"]),
            number(float(ranking.machines.age_s[row])),
        ])  # fmt: skip
    return table(["machine", "measured mean", "credit", "with credit", "std", "allocated", "age, s"], rows)


def filtered(ranking: Ranking) -> str:
    """Return who was refused by what."""
    names = [ranking.machines.name(row) for row in range(len(ranking.machines))]
    rows = []
    for verdict in ranking.verdicts:
        cells = ["ok" if allowed else "**refused**" for allowed in verdict.allowed.tolist()]
        rows.append([f"[{verdict.filter.name}](filters/{verdict.filter.name}.md)", *cells])
    rows.append(["feasible", *("yes" if each else "no" for each in ranking.feasible.tolist())])
    return table(["filter", *(f"`{name}`" for name in names)], rows)


def scored(ranking: Ranking) -> str:
    """Return the terms of the feasible machines."""
    feasible = [int(row) for row in ranking.order]
    names = [f"`{ranking.machines.name(row)}`" for row in feasible]
    rows = []
    for term in ranking.terms:
        name = term.weighted.score.name
        rows.append([f"[{name}](scores/{name}.md), raw", *(number(float(term.raw[row])) for row in feasible)])
        rows.append([f"weight {term.weighted.weight:g}, {term.weighted.normalise}",
                     *(number(term.value(row)) for row in feasible)])  # fmt: skip
    rows.append(["**total**", *(f"**{number(float(ranking.total[row]))}**" for row in feasible)])
    return table(["score", *names], rows)
