"""Every filter: who passes, who does not, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.request import InvalidRequest
from scorer import plugins
from scorer.filters import affinity as near
from scorer.filters.cordon import Cordon
from scorer.filters.daily_peak import DailyPeak
from scorer.filters.fits import Fits
from scorer.filters.fresh import Fresh
from scorer.filters.machine_name import MachineName
from scorer.filters.masters import Masters
from scorer.filters.maxmemory import Maxmemory
from scorer.filters.memory_pressure import MemoryPressure
from scorer.filters.ports import Ports
from scorer.filters.selector import Selector
from scorer.filters.taints import Taints
from scorer.filters.usage_threshold import UsageThreshold
from scorer.filters.warming import Warming
from scorer.profile import Sight
from scorer.selectors import parse_selector
from tests.scorer.fleets import allowed, by_name, cases, fleet, machine, request, see

IDLE = {"cpu": 0, "memory": 0}
BUSY = {"cpu": 9, "memory": 90}


def passes(
    plugin: Any, *machines: dict[str, Any], instances: Any = (), sight: Sight | None = None, **asked: Any
) -> str:
    """Return the names of the machines that pass, joined."""
    found = allowed(plugin, fleet(*machines, instances=list(instances)), request(**asked), sight)
    return " ".join(name for name, passed in found.items() if passed)


def why(plugin: Any, *machines: dict[str, Any], instances: Any = (), **asked: Any) -> list[str]:
    """Return the reason of each machine that is refused."""
    offline = fleet(*machines, instances=list(instances))
    seen = see(offline, request(**asked))
    verdict = plugin(seen.request, seen)
    found = plugins.reasons(plugin, seen.request, seen, verdict)
    return [next(reason for reason, mask in found.items() if mask[row]) for row in range(len(seen)) if not verdict[row]]


# ---- fits


@pytest.mark.parametrize(
    ("name", "asked", "plugin", "expected"),
    [
        ("both are left", {"cpu": 2, "memory": 20}, Fits(), "idle promised"),
        ("exactly what is left", {"cpu": 10, "memory": 100}, Fits(), "idle"),
        ("more than any machine has", {"cpu": 11}, Fits(), ""),
        ("nothing asked is never refused", {}, Fits(), "idle promised used silent"),
        ("measured load counts where nothing is promised", {"cpu": 1.5}, Fits(), "idle promised"),
        (
            "by requests alone measured load does not count",
            {"cpu": 1.5},
            Fits(basis="requests"),
            "idle promised used silent",
        ),
        ("what counts for a request without an amount", {}, Fits(default_cpu=1.5), "idle promised"),
        ("a resource whose capacity is unknown", {"nic": 1}, Fits(), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_fits(name: str, asked: dict[str, Any], plugin: Fits, expected: str) -> None:
    """A machine takes what allocatable leaves beside the larger of promised and used."""
    machines = [
        machine("idle", usage=IDLE),
        machine("promised", usage=IDLE),
        machine("used", usage=BUSY),
        machine("silent"),
    ]
    instances = [{"id": "i", "machine": "promised", "cpu": 8, "memory": 80, "expected": {"cpu": 0, "memory": 0}}]
    assert passes(plugin, *machines, instances=instances, **asked) == expected


def test_fits_by_allocatable_not_by_capacity() -> None:
    """Share and reserve of the operator come off the capacity first."""
    limited = machine("m", usage=IDLE, operator={"share": {"cpu": 0.5}, "reserve": {"cpu": 1}})
    assert passes(Fits(), limited, cpu=4) == "m"
    assert passes(Fits(), limited, cpu=4.1) == ""


@pytest.mark.parametrize("basis", ["requests", "taken"])
def test_instances_without_an_amount_count_the_default(basis: Any) -> None:
    """Of 100 m each ten fit on a core, nine that are there and the newcomer, and no eleventh; without it any number."""
    nine, ten = (
        [{"id": f"{name}{number}", "machine": name} for number in range(count)]
        for name, count in (("nine", 9), ("ten", 10))
    )
    machines = [machine(name, 1, usage={"cpu": 0.5, "memory": 0}) for name in ("nine", "ten")]
    assert passes(Fits(basis=basis, default_cpu=0.1), *machines, instances=nine + ten) == "nine"
    assert passes(Fits(basis=basis), *machines, instances=nine + ten) == "nine ten"


def test_fits_says_what_is_short() -> None:
    """Too large for the machine, too full, unknown: each in its own words."""
    reasons = why(Fits(), machine("small", 1, usage=IDLE), machine("full", usage=BUSY), machine("dark"), cpu=2)
    assert reasons == ["cpu larger than the machine", "cpu too full", "cpu usage unknown"]


@pytest.mark.parametrize(
    "row", [r for r in cases("reservation", "unicore_filter") if "exactly now" not in r["name"]], ids=by_name
)
def test_reservations_of_others_are_kept(row: dict[str, Any]) -> None:
    """What is reserved for others is not given away, whatever the order; one's own reservation is not in the way.

    Different on purpose: fits also looks where there is no foreign reservation, which the study's plugin leaves to
    another; and a reservation that ends this very second has ended.
    """
    inputs = row["inputs"]
    node, need = inputs["machine"], inputs["pod"]["need"]
    live = [
        {
            "id": r["pod"],
            "machine": node["name"],
            "cpu": r["cpu_millicores"] / 1000,
            "memory": r["memory_bytes"],
            "state": "reserved",
        }
        for r in inputs["reservations"]
        if r["expire_at_unix_s"] > inputs["now_unix_s"] and r["pod"] != inputs["pod"]["name"]
    ]
    host = machine(node["name"], node["allocatable"]["cpu_millicores"] / 1000, node["allocatable"]["memory_bytes"])
    asked = {"cpu": need["cpu_millicores"] / 1000, "memory": need["memory_bytes"]}
    verdict = passes(Fits(basis="requests"), host, instances=live, **asked) == node["name"]
    too_large = asked["cpu"] > node["allocatable"]["cpu_millicores"] / 1000
    assert verdict == (row["expected"]["intended_verdict"] == "pass" and not too_large)


# ---- data


@pytest.mark.parametrize(
    ("age_s", "interval_s", "skew_s", "fresh"),
    [(60, 10, 0, True), (60.5, 10, 0, False), (170, 60, 0, True), (181, 60, 0, False), (63, 10, 4, False)],
)
def test_fresh(age_s: float, interval_s: float, skew_s: float, fresh: bool) -> None:
    """Data is fresh for a minute, or three of the machine's own intervals; skew does not make it younger."""
    one = machine("m", usage=IDLE, age_s=age_s, interval_s=interval_s, skew_s=skew_s)
    assert passes(Fresh(), one, machine("other", usage=IDLE)) == ("m other" if fresh else "other")


def test_fresh_tells_silent_from_stale() -> None:
    """A machine that never sent anything is without data, not stale."""
    assert why(Fresh(), machine("never"), machine("old", usage=IDLE, age_s=900)) == ["without data", "stale"]


def test_warming_is_off_until_a_coverage_is_asked_for() -> None:
    """By default a warming machine passes; half a window may be required."""
    thin = machine("m", usage={"cpu": {"mean": 1, "coverage": 0.4}})
    assert passes(Warming(), thin) == "m"
    assert passes(Warming(coverage_min=0.5), thin) == ""


# ---- load


@pytest.mark.parametrize(
    ("name", "settings", "usage", "asked", "passed"),
    [
        ("below", {"thresholds": {"cpu": 0.8}}, {"cpu": 7, "memory": 0}, {"cpu": 1}, True),
        ("the newcomer counts", {"thresholds": {"cpu": 0.8}}, {"cpu": 7, "memory": 0}, {"cpu": 1.1}, False),
        (
            "expected usage counts, not the request",
            {"thresholds": {"cpu": 0.8}},
            {"cpu": 7, "memory": 0},
            {"cpu": 3, "expected": {"cpu": 0.5}},
            True,
        ),
        (
            "a resource without threshold is not looked at",
            {"thresholds": {"memory": 0.8}},
            BUSY | {"memory": 0},
            {},
            True,
        ),
        (
            "a percentile instead of the mean",
            {"percentile_thresholds": {"cpu": 0.8}},
            {"cpu": {"mean": 1, "p95": 9}, "memory": 0},
            {},
            False,
        ),
        (
            "another percentile",
            {"percentile_thresholds": {"cpu": 0.8}, "statistic": "p50"},
            {"cpu": {"mean": 1, "p95": 9, "p50": 1}, "memory": 0},
            {},
            True,
        ),
        (
            "the maximum",
            {"percentile_thresholds": {"cpu": 0.8}, "statistic": "max"},
            {"cpu": {"mean": 1, "max": 9}, "memory": 0},
            {},
            False,
        ),
        ("nic by threshold", {"thresholds": {"nic": 0.5}}, {"cpu": 0, "memory": 0, "nic": 60}, {}, False),
        ("nic unknown and not asked for", {"thresholds": {"nic": 0.5}}, {"cpu": 0, "memory": 0}, {}, True),
        ("nic unknown and asked for", {"thresholds": {"nic": 0.5}}, {"cpu": 0, "memory": 0}, {"nic": 1}, False),
        ("cpu unknown", {"thresholds": {"cpu": 0.5}}, {"memory": 0}, {}, False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_usage_threshold(
    name: str,
    settings: dict[str, Any],
    usage: dict[str, Any],
    asked: dict[str, Any],
    passed: bool,
) -> None:
    """Usage with the newcomer stays at or below the share of allocatable."""
    one = machine("m", usage=usage, capacity={"nic": 100})
    assert passes(UsageThreshold(**settings), one, **asked) == ("m" if passed else "")


def test_usage_threshold_sees_credits() -> None:
    """A placed instance that no window shows yet counts as load."""
    instances = [{"id": "i", "machine": "m", "cpu": 5, "placed_ago_s": 0}]
    plugin = UsageThreshold(thresholds={"cpu": 0.8})
    assert passes(plugin, machine("m", usage={"cpu": 2}), instances=instances, cpu=2) == ""
    assert passes(plugin, machine("m", usage={"cpu": 2}), instances=instances, cpu=1) == "m"


def test_a_machines_own_thresholds_replace_the_group() -> None:
    """An operator's thresholds of one machine replace all of the profile's, there only."""
    own = {"thresholds": {"memory": 0.5}}
    machines = [
        machine("own", usage={"cpu": 9, "memory": 20}, operator=own),
        machine("plain", usage={"cpu": 9, "memory": 20}),
    ]
    assert passes(UsageThreshold(thresholds={"cpu": 0.8}), *machines) == "own"
    strict = [machine("own", usage=IDLE, operator={"thresholds": {"cpu": 0.05}}), machine("plain", usage=IDLE)]
    assert passes(UsageThreshold(), *strict, cpu=1) == "plain"


def test_prod_thresholds_are_for_prod_newcomers() -> None:
    """A newcomer of class prod is judged by what prod uses; another by all usage."""
    plugin = UsageThreshold(thresholds={"cpu": 0.8}, prod_thresholds={"cpu": 0.5})
    one = machine("m", usage={"cpu": 7, "memory": 0}, classes={"prod": {"cpu": 2}})
    assert passes(plugin, one, cpu=2, priority_class="prod") == "m"
    assert passes(plugin, one, cpu=2, priority_class="batch") == ""


def test_usage_threshold_names_the_resource() -> None:
    """The first resource that is over stands in the reason."""
    plugin = UsageThreshold(thresholds={"cpu": 0.5, "memory": 0.5})
    machines = [machine("c", usage={"cpu": 9, "memory": 0}), machine("m", usage={"cpu": 0, "memory": 90})]
    assert why(plugin, *machines) == ["cpu over threshold", "memory over threshold"]


def test_daily_peak() -> None:
    """Today's and yesterday's peak, with the newcomer, stay below; an unknown peak refuses nobody."""
    plugin = DailyPeak(thresholds={"cpu": 0.8})
    machines = [
        machine("today", usage=IDLE, peak_today={"cpu": 8}),
        machine("yesterday", usage=IDLE, peak_today={"cpu": 1}, peak_yesterday={"cpu": 8}),
        machine("low", usage=IDLE, peak_today={"cpu": 5}, peak_yesterday={"cpu": 5}),
        machine("new", usage=IDLE, peak_today={"cpu": 5}),
    ]
    assert passes(plugin, *machines, cpu=1) == "low new"
    assert why(plugin, *machines, cpu=1) == ["today's peak over threshold", "yesterday's peak over threshold"]
    assert passes(DailyPeak(thresholds={"cpu": 0.8}, days=("yesterday",)), *machines, cpu=1) == "today low new"


def test_memory_pressure_goes_by_the_shortest_window() -> None:
    """A machine that ran full within minutes is refused although its hour is quiet."""
    windows = {"300": {"memory": 98}, "3600": {"memory": 40}}
    assert passes(MemoryPressure(available_min=0.05), machine("m", windows=windows), machine("ok", usage=IDLE)) == "ok"
    only = MemoryPressure(available_min=0.05, best_effort_only=True)
    assert passes(only, machine("m", windows=windows), memory=1) == "m"
    assert passes(only, machine("m", windows=windows)) == ""


# ---- what is already there


def test_ports_are_used_once() -> None:
    """A machine where any of the ports is taken does not take the newcomer."""
    taken = [{"id": "i", "machine": "a", "ports": [6379]}]
    assert passes(Ports(), machine("a"), machine("b"), instances=taken, ports=[6380, 6379]) == "b"
    assert passes(Ports(), machine("a"), machine("b"), instances=taken) == "a b"


def test_sum_of_maxmemory() -> None:
    """The sum of maxmemory with the newcomer's stays within the share of memory."""
    taken = [{"id": "i", "machine": "a", "maxmemory": 50}]
    assert passes(Maxmemory(share=0.8), machine("a"), machine("b"), instances=taken, maxmemory=30) == "a b"
    assert passes(Maxmemory(share=0.8), machine("a"), machine("b"), instances=taken, maxmemory=31) == "b"


@pytest.mark.parametrize(
    ("there", "total", "passed"),
    [(0, 1, True), (0, 2, True), (1, 3, False), (1, 4, False), (1, 5, True), (2, 6, False), (2, 7, True)],
)
def test_masters_of_one_cluster(there: int, total: int, passed: bool) -> None:
    """A machine stays below half of a cluster's masters; the first is always allowed."""
    taken = [{"id": f"i{n}", "machine": "m", "cluster": "c", "role": "master"} for n in range(there)]
    taken += [{"id": "replica", "machine": "m", "cluster": "c", "role": "replica"}]
    taken += [{"id": "other", "machine": "m", "cluster": "d", "role": "master"}]
    asked = {"cluster": "c", "role": "master", "cluster_masters": total}
    assert passes(Masters(), machine("m"), instances=taken, **asked) == ("m" if passed else "")
    assert passes(Masters(), machine("m"), instances=taken, **(asked | {"role": "replica"})) == "m"


# ---- where it may go


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("rack=r1", "a"),
        ("rack==r1", "a"),
        ("rack!=r1", "b c"),
        ("rack in (r1, r2)", "a b"),
        ("rack notin (r1)", "b c"),
        ("rack", "a b"),
        ("!rack", "c"),
        ("cores>32", "b"),
        ("cores<33", "a"),
        ("rack=r1,cores>1", "a"),
        ("", "a b c"),
        ("machine in (a,c)", "a c"),
        (" rack = r2 ", "b"),
        ("cores>32,!gpu", "b"),
    ],
)
def test_selector(selector: str, expected: str) -> None:
    """Each requirement of the grammar, alone and joined."""
    machines = [
        machine("a", labels={"rack": "r1", "cores": "32"}),
        machine("b", labels={"rack": "r2", "cores": "64"}),
        machine("c"),
    ]
    assert passes(Selector(), *machines, selector=selector) == expected


@pytest.mark.parametrize(
    "text", ["rack=", "=r1", "rack in r1", "rack in ()", "a=b,", "a b", "cores>many", "a=b,,c=d", "(a)"]
)
def test_a_selector_that_cannot_be_parsed_is_named(text: str) -> None:
    """The error names the field and the part that cannot be read."""
    with pytest.raises(InvalidRequest, match="selector: cannot read"):
        parse_selector(text)


REDIS = {"instances": {"app": "redis"}}
RACK = {"instances": {"app": "redis"}, "topology": "rack"}


@pytest.mark.parametrize(
    ("plugin", "asked", "expected"),
    [
        (near.Affinity(), {"affinity": [REDIS]}, "a"),
        (near.Affinity(), {"affinity": [RACK]}, "a b"),
        (near.Affinity(), {"affinity": [{"instances": {"app": "none"}}]}, ""),
        (
            near.Affinity(),
            {"affinity": [{"instances": {"app": "new"}, "topology": "rack"}], "labels": {"app": "new"}},
            "a b c",
        ),
        (near.Affinity(), {"affinity": [{"instances": {"cluster": "c1"}}]}, "c"),
        (near.AntiAffinity(), {"anti_affinity": [REDIS]}, "b c d"),
        (near.AntiAffinity(), {"anti_affinity": [RACK]}, "c d"),
        (near.AntiAffinity(), {"anti_affinity": [REDIS, {"instances": {"cluster": "c1"}}]}, "b d"),
        (near.AntiAffinity(), {"anti_affinity": [{"instances": {"app": "redis", "cluster": "c1"}}]}, "a b c d"),
    ],
)
def test_affinity(plugin: Any, asked: dict[str, Any], expected: str) -> None:
    """Near, or far from, instances by machine and by topology label; the first of a group may start."""
    machines = [
        machine("a", labels={"rack": "r1"}),
        machine("b", labels={"rack": "r1"}),
        machine("c", labels={"rack": "r2"}),
        machine("d"),
    ]
    instances = [
        {"id": "1", "machine": "a", "labels": {"app": "redis"}},
        {"id": "2", "machine": "c", "cluster": "c1"},
    ]
    assert passes(plugin, *machines, instances=instances, **asked) == expected


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], "plain avoided"),
        ([{"key": "gpu"}], "plain avoided gpu"),
        ([{"key": "gpu", "value": "no"}], "plain avoided"),
        ([{"key": "gpu", "value": "yes", "effect": "refuse"}], "plain avoided gpu"),
        ([{"key": "gpu", "effect": "avoid"}], "plain avoided"),
        ([{}], "plain avoided gpu"),
    ],
)
def test_taints(tolerations: list[dict[str, str]], expected: str) -> None:
    """A taint that refuses keeps away what does not tolerate it; one that avoids only costs score."""
    machines = [
        machine("plain"),
        machine("avoided", operator={"taints": [{"key": "old", "effect": "avoid"}]}),
        machine("gpu", operator={"taints": [{"key": "gpu", "value": "yes"}]}),
    ]
    assert passes(Taints(), *machines, tolerations=tolerations) == expected


def test_cordon_and_machine_name() -> None:
    """A cordoned machine takes nothing; a named machine is the only one."""
    machines = [machine("a", operator={"cordon": True}), machine("b")]
    assert passes(Cordon(), *machines) == "b"
    assert passes(MachineName(), *machines, machine="a") == "a"
    assert passes(MachineName(), *machines, machine="nowhere") == ""


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (UsageThreshold, {"thresholds": {"cpu": 1.1}}),
        (UsageThreshold, {"thresholds": {"disk": 0.5}}),
        (UsageThreshold, {"expiration_s": -1}),
        (DailyPeak, {"time_zone": "Mars/Base"}),
        (Fresh, {"age_s_max": 0}),
        (Warming, {"coverage_min": 2}),
        (Maxmemory, {"share": 0}),
        (Masters, {"share": -0.1}),
        (MemoryPressure, {"available_min": 1.5}),
        (Fits, {"default_cpu": -1}),
    ],
)
def test_settings_out_of_range_are_refused(kind: type, settings: dict[str, Any]) -> None:
    """A setting out of range is an error that names it."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        kind(**settings)
