"""One decision, step by step, with the numbers that the product computes when the pages are built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ops.docs.example_fleet import machine
from ops.docs.markdown import number, table
from schemas.rpc.request import read_request
from scorer.client import RankResult
from scorer.commands.shared.fleet_file import read_fleet
from scorer.commands.shared.in_words import answer_of, chance, chances, in_words, used_share
from scorer.commands.shared.show import amount, ratio
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import instance_of
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from streams.fold.moments import about, pool

FIRST, SECOND = (10, 7.5, 20.0), (10, 9.0, 45.0)
"""Two samples of one machine, each the moments (n, mean, m2) of ten readings of its CPU, in cores."""

FLEET = [
    machine("calm", cpu=0.28, std=0.02, memory=0.31),
    machine("bursty", cpu=0.28, std=0.28, memory=0.31),
    machine("taken", cpu=0.20, std=0.02, memory=0.25),
    machine("left", cpu=0.36, std=0.02, memory=0.40),
    machine("full", cpu=0.97, std=0.02, memory=0.47),
    machine("silent", cpu=0.03, std=0.01, memory=0.08, age_s=900.0),
]
INSTANCES = [{"id": "new-1", "machine": "taken", "cpu": 8, "memory": "32G", "placed_ago_s": 600}]
LEFT = {"id": "old-1", "cpu": 8, "memory": "16G"}
LEFT_FROM_S, LEFT_UNTIL_S = 3 * 3600.0, 120.0
"""How long ago the instance on `left` began and ended."""
LEARNED = {"cpu": 0.4, "memory": 0.7}
REQUEST = {"cpu": 2, "memory": "10G"}


def decided() -> Ranking:
    """Return the decision that the page is about."""
    fleet = read_fleet({"machines": FLEET, "instances": INSTANCES, "learned": LEARNED})
    started_at, ended_at = fleet.now_s - LEFT_FROM_S, fleet.now_s - LEFT_UNTIL_S
    ran = copy_with(
        instance_of(read_request(LEFT), "left", started_at), state="confirmed", started_at=started_at, generation=1
    )
    fleet.ledger.apply(ran)
    fleet.ledger.apply(copy_with(ran, state="released", ended_at=ended_at))
    return rank(read_request(REQUEST), fleet.inputs(load_profiles().choose()))


def page() -> str:
    """Return the page."""
    ranking = decided()
    answer = answer_of(ranking, len(FLEET), explain_all=True)
    parts = [
        "# Why this machine? One decision, step by step",
        "A deployer asks for a machine for 2 cores and 10 GB. The numbers on this page are computed by the product when "
        "the page is built; `windward rank --fleet-file FILE --explain` shows the same of a fleet of yours.",
        "## 1. Readings become a sample",
        "The agent reads `/proc` once a second. After ten readings it sends their *moments*: count n, mean, sum of "
        "squared distances from the mean m2, and maximum. Two samples of the CPU of one machine, in cores:",
        _moments(FIRST, SECOND),
        "## 2. Samples become a window",
        "Each sample fills a slot of ten seconds. A window merges the moments of its slots, so its mean and standard "
        "deviation are those of all readings, exactly:",
        _moments(_of_both()),
        "## 3. What is asked, and what is expected to be used",
        "Instances rarely use all that they ask. Scores use the *expected use*; limits never do. It is the one in the "
        "request (`--expected cpu=0.5`), else the *learned* one (`windward learned`), else what is asked. Here:",
        _expected(answer),
        "## 4. The scorer knows six machines",
        "Each has 32 cores and 128 GB. On `taken` an instance that asks for 8 cores was placed ten minutes ago: the "
        "window of an hour shows a sixth of its load, so the rest of its expected use is added as *credit*. On `left` "
        "one of 8 cores ended two minutes ago: most of the window still has its load, which is subtracted as *debit*. "
        "In cores:",
        _known(ranking, answer),
        "## 5. Filters refuse",
        "A machine stays when no filter of the profile refuses it. The filters that this request uses:",
        _filtered(ranking),
        "## 6. Scores compare",
        "Each score gives 0 to 100. *Raw* is the score's own value; some are spread over the feasible machines "
        "(`min-max`); the total is the mean by weight.",
        _scored(ranking),
        "The first score is the growth of the expected load above 90 %. It goes with a chance: how likely each machine "
        "is to be more than 90 % full with the instance.",
        _likely(ranking, answer),
        "## 7. The best is reserved",
        f"`{answer.machine}` has the highest total, {number(answer.score)}. A script in Redis compares the limits "
        "of the filters once more with the ledger's own sums and writes the reservation; if another scorer was first "
        "and there is no room left, the next machine is tried.",
        f"The answer has the same in one line: **{answer.summary}**. `windward place`, `windward why` and "
        "`windward rank --explain` explain the chosen machine in words:",
        "```text\n" + "\n".join(in_words(answer)) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _of_both() -> tuple[Any, Any, Any]:
    """Return the moments of both samples together."""
    n, mean, m2 = np.array([FIRST, SECOND], np.float64).T
    first, second = (each.sum() for each in about(mean[:1], n, mean, m2))
    return n.sum(), *pool(mean[0], n.sum(), first, second)


def _moments(*rows: Sequence[Any]) -> str:
    cells = [[*map(number, map(float, row)), number(math.sqrt(row[2] / row[0]))] for row in rows]
    return table(["n", "mean", "m2", "standard deviation"], cells)


def _expected(answer: RankResult) -> str:
    rows = [
        [name, amount(name, answer.request[name]), amount(name, answer.expected[name]), source]
        for name, source in answer.expected_from.items()
    ]
    return table(["resource", "asked", "expected use", "where it comes from"], rows)


def _likely(ranking: Ranking, answer: RankResult) -> str:
    said = {each.machine: each for each in answer.machines or ()}
    rows = []
    for row in ranking.order.tolist():
        machine = said[ranking.machines.name(row)]
        _, chance_of = chances(machine)
        cells = [f"`{machine.machine}`"]
        for name, use in answer.expected.items():
            if use:
                terms = machine.resources[name]
                cells += [ratio(used_share(terms)), ratio(used_share(terms, use)), chance(chance_of[name] or 0.0)]
        rows.append(cells)
    heads = [f"{name}{what}" for name, use in answer.expected.items() if use for what in ("", " with it", ", chance")]
    return table(["machine", *heads], rows)


def _known(ranking: Ranking, answer: RankResult) -> str:
    said = {each.machine: each.resources["cpu"] for each in answer.machines or ()}
    rows = []
    for row in range(len(ranking.machines)):
        name, seen = (
            ranking.machines.name(row),
            {"seen": ranking.machines.mean[0, row], "age": ranking.machines.age_s[row]},
        )
        terms = said[name] | seen
        shown = ("mean", "credit", "debit", "seen", "std", "promised", "age")
        rows.append([f"`{name}`", *(number(float(terms[term])) for term in shown)])
    return table(["machine", "measured mean", "credit", "debit", "seen", "std", "allocated", "age, s"], rows)


def _filtered(ranking: Ranking) -> str:
    names = [ranking.machines.name(row) for row in range(len(ranking.machines))]
    rows = []
    for verdict in ranking.verdicts:
        cells = ["ok" if allowed else "**refused**" for allowed in verdict.allowed.tolist()]
        rows.append([f"[{verdict.filter.name}](filters/{verdict.filter.name}.md)", *cells])
    rows.append(["feasible", *("yes" if each else "no" for each in ranking.feasible.tolist())])
    return table(["filter", *(f"`{name}`" for name in names)], rows)


def _scored(ranking: Ranking) -> str:
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
