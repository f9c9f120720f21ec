"""What is told of a few machines, from kept and picked values, is what the columns of the whole fleet say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.rpc.request import read_request
from scorer.commands.shared.fleet_file import FleetState, read_fleet
from scorer.ledger.view.view import instance_of
from scorer.ranking.explanation import explain
from scorer.ranking.filters.daily_peak import DailyPeak
from scorer.ranking.filters.fits import Fits
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.machines.kept import Kept
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from scorer.ranking.ranking import Ranking
from scorer.ranking.scores.load_variation_risk import LoadVariationRisk
from scorer.snapshot.arrays import ROUNDING, Bools
from tests.contracts.test_plugins import REQUESTS, machine
from tests.effort import examples
from tests.scorer.ranking.rankings import PROFILES

LIMITED = """
[[filters]]
use = "fits"
ratio = { cpu = 1.5 }
ratio_where = [{ selector = "disk=ssd", ratio = { memory = 0.5 } }]
[[filters]]
use = "usage_threshold"
thresholds = { cpu = 0.5, memory = 0.7, nic = 0.6 }
%s
[[filters]]
use = "daily_peak"
thresholds = { cpu = 0.8, memory = 0.9 }
[[filters]]
use = "warming"
coverage_min = 0.5
[[scores]]
use = "load_variation_risk"
%s
[[scores]]
use = "expected_overload"
[[scores]]
use = "global_variance"
"""
OWN = {
    "means": LIMITED % ("", ""),
    "percentiles": LIMITED % ("percentile_thresholds = { cpu = 0.6 }\nstatistic = 'p95'", "form = 'reduced'"),
    "prod": LIMITED % ("prod_thresholds = { cpu = 0.2, memory = 0.5 }\nprod_with_system = true", "rounding = true"),
    "debits": "debits = true\n" + LIMITED % ("missing = 'mean'", "newcomer = 'request'"),
    "expired": LIMITED % ("expiration_s = 30\nmissing = 'estimates'", "sensitivity = 2.0\nmargin = 2.0"),
    "alone": 'stale = "requests"\nstale_s = 1\n' + LIMITED % ("optional = []", "resources = ['nic', 'memory']"),
    "refused": 'stale = "refuse"\ncredits = "none"\n' + LIMITED % ("optional = ['memory']", ""),
    "defaults": LIMITED.replace("\nratio =", "\ndefault_cpu = 1.0\nratio =") % ("rounding = true", ""),
}
BY_NAME = PROFILES.by_name | {f"own {name}": parse_profile(text, name) for name, text in OWN.items()}

amounts = st.fixed_dictionaries(
    {"cpu": st.sampled_from([0, 0.1, 1, 6, 20]), "memory": st.sampled_from([0, 1e9, 2e10, 2e11])},
    optional={"nic": st.sampled_from([0, 1e7, 9e8]), "expected": st.just({"memory": 1e9}), "maxmemory": st.just(5e10),
              "priority_class": st.sampled_from(["prod", "mid", "batch", "free"]), "cluster": st.just("c1")},
)  # fmt: skip
requests = st.one_of(amounts, st.sampled_from(list(REQUESTS.values())))
uses = st.lists(st.sampled_from([0.0, 0.3, 0.6, 0.9, 1.1]), min_size=3, max_size=3)
ADDED: list[dict[str, Any]] = [
    {}, {"operator": {"thresholds": {"cpu": 0.2, "memory": 0.9}}}, {"operator": {"prod_thresholds": {"memory": 0.1}}},
    {"operator": {"percentile_thresholds": {"cpu": 0.3}}}, {"operator": {"ratio": {"cpu": 2.0}}},
    {"peak_yesterday": {"memory": 1.2e11}}, {"usage": {}}, {"age_s": 100},
]  # fmt: skip


@st.composite
def fleets(draw: st.DrawFn) -> FleetState:
    """Return the varied machines of the contracts, some with other loads, rules, or ages."""
    machines = []
    for number in draw(st.lists(st.integers(0, 43), min_size=3, max_size=9, unique=True)):
        described, busy = machine(number), draw(st.none() | uses)
        if busy:
            sizes = zip(("cpu", "memory", "nic"), busy, (16, 128e9, 1.25e9), strict=True)
            described["usage"] = {name: {"mean": part * size, "std": 0.1 * size} for name, part, size in sizes}
            described["peak_today"] = {"memory": draw(st.sampled_from([1e10, 1.1e11, 1.2e11]))}
        machines.append(described | draw(st.sampled_from(ADDED)))
    left = [
        {"id": f"left {at}", "machine": each["name"], "cpu": 1, "memory": 1e9, "placed_ago_s": 9000, "ended_ago_s": 60}
        for at, each in enumerate(machines) if at % 3 != 1
    ]  # fmt: skip
    came = [
        {"id": f"came {at}", "machine": each["name"], "cpu": 1, "placed_ago_s": 200}
        for at, each in enumerate(machines) if at % 2 == 0
    ]  # fmt: skip
    return read_fleet({"machines": machines, "leavers": left, "instances": came})


def masks_of(each: Any, machines: Machines) -> Mapping[str, Bools]:
    """Return the refused machines by reason, every comparison made anew for every resource of all machines."""
    found: dict[str, Bools] = {}
    expected = machines.expected[:, None]
    if isinstance(each, UsageThreshold):
        if each.expiration_s and not each.pass_expired:
            found["stale"] = each._expired(machines)
        over, (_, usage), by_prod = each._over(machines), each._groups(machines), each._by_prod(machines)
        for row, name in enumerate(RESOURCES):
            unknown = over[row] & np.isnan(usage[row])
            found[f"{name} usage by prod unknown"] = unknown & by_prod
            found[f"{name} usage unknown"] = unknown
            found[f"{name} used by prod over threshold"] = over[row] & by_prod
            found[f"{name} over threshold"] = over[row]
    elif isinstance(each, DailyPeak):
        limit = each._limit(machines) * (1 + ROUNDING)
        for day, peak in zip(each.days, each._peaks(machines), strict=True):
            found[f"{day}'s peak over threshold"] = (peak + expected > limit).any(axis=0)
    elif isinstance(each, Fits) and each.classes is None:
        asked, taken = each._amounts(machines), each._taken(machines)
        for row in np.flatnonzero(asked):
            limit, name = each._most(machines)[row], RESOURCES[row]
            found[f"{name} capacity unknown"] = np.isnan(limit)
            found[f"{name} usage unknown"] = np.isnan(taken[row])
            found[f"{name} larger than the machine"] = asked[row] > limit * (1 + ROUNDING)
            found[f"{name} too full"] = ~(each._left(machines)[row] >= asked[row])
    elif plugins.has_reasons(each):
        found |= each.reasons(machines.request, machines)
    return found


def refusals_of(ranking: Ranking) -> dict[tuple[str, str], int]:
    """Return how many machines each filter refused, and why, machine by machine."""
    found: Counter[tuple[str, str]] = Counter()
    for row in range(len(ranking.machines)):
        for verdict in ranking.verdicts:
            if not verdict.allowed[row]:
                masks = masks_of(verdict.filter, verdict.machines)
                why = next((reason for reason, mask in masks.items() if mask[row]), verdict.filter.reason)
                found[verdict.filter.name, why] += 1
                break
    return dict(found)


def described_of(ranking: Ranking, row: int) -> dict[str, Any]:
    """Return a machine's terms, from the columns of all machines."""
    machines = ranking.machines
    shown = ("measured_mean", "std", "credit", "debit", "allocated", "allocatable", "utilization")
    names = ("mean", "std", "credit", "debit", "promised", "allocatable", "utilization", "request")
    amounts = [*(machines.column(name)[:, row] for name in shown), machines.amounts]
    if machines.fleet.debits:
        amounts[3] = np.maximum(machines.measured_mean + machines.credit - machines.mean, 0.0)[:, row]
    resources: dict[str, Any] = {
        name: {what: each[place] for what, each in zip(names, amounts, strict=True)}
        for place, name in enumerate(RESOURCES)
    }
    scores = {}
    for term in ranking.terms:
        told = dict(plugins.detail(term.weighted.score, ranking.request, term.machines, row))
        if isinstance(term.weighted.score, LoadVariationRisk):
            each = term.weighted.score.risks(term.machines)[:, row]
            told["risks"] = dict(zip(term.weighted.score.resources, each, strict=True))
            told["risk"] = max(each)
        value = term.value(row) if ranking.feasible[row] else None
        scores[term.weighted.score.name] = {
            "value": value,
            "raw": term.raw[row],
            "weight": term.weighted.weight,
            **told,
        }
    return {
        "machine": machines.name(row), "score": ranking.total[row] if ranking.feasible[row] else None,
        "risk": next((told["risk"] for told in scores.values() if "risk" in told), None),
        "scores": scores, "resources": resources, "window_s": machines.window_s[row],
        "coverage": machines.coverage[row], "warming": machines.warming[row], "age_s": machines.age_s[row],
        "instances": machines.count[row],
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Return what is compared: unknown is None, floats as they are."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-12, abs=1e-12) if np.isfinite(value) else None
    return value


@pytest.mark.parametrize("name", sorted(BY_NAME))
@settings(deadline=None, max_examples=examples(12, 12))
@given(data=st.data(), fleet=fleets())
def test_an_explanation_is_what_the_columns_of_all_machines_say(
    data: st.DataObject, fleet: FleetState, name: str
) -> None:
    """Over random fleets, placements, requests and profiles: reasons, counts, terms and numbers, to the last digit."""
    kept, profile = Kept(), BY_NAME[name]
    for number in range(data.draw(st.integers(1, 3))):
        ranking = rank(read_request(data.draw(requests)), fleet.inputs(profile, kept))
        with np.errstate(all="ignore"):
            answer = explain.answer(ranking, 2)
            rows = range(len(ranking.machines))
            told = [msgspec.to_builtins(each) for each in explain.candidates(ranking, rows)]
            alone = [msgspec.to_builtins(explain.candidates(ranking, [row])[0]) for row in rows]
            assert {(each.filter, each.reason): each.machines for each in answer.refusals} == refusals_of(ranking)
            assert told == alone == [plain(described_of(ranking, row)) for row in rows]
        assert [each.machine for each in answer.candidates] == [ranking.machines.name(row) for row in ranking.best(2)]
        where = data.draw(st.sampled_from(fleet.snapshot.names))
        placed = read_request(data.draw(amounts))
        fleet.ledger.apply(instance_of(placed, where, fleet.now_s, f"i{number}"))
