"""What every filter and every score keeps to, the built-in ones and those of other packages alike."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scorer
from schemas.rpc.request import Request, read_request
from scorer.commands.shared.fleet_file import FleetState, read_fleet
from scorer.ledger.view.view import instance_of
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.kept import Kept
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.scope import SCOPES
from scorer.ranking.seen import fleet_of
from tests.rows import each_row

FILTERS = dict(plugins.filters())
SCORES = dict(plugins.scores())
EVERY = {f"filter {name}": kind for name, kind in FILTERS.items()} | {f"score {name}": k for name, k in SCORES.items()}

SETTINGS: dict[str, dict[str, Any]] = {
    "usage_threshold": {"thresholds": {"cpu": 0.6, "memory": 0.7, "nic": 0.8}},
    "daily_peak": {"thresholds": {"cpu": 0.8, "memory": 0.9}},
    "warming": {"coverage_min": 0.5},
}
"""Settings under which a plugin that is off by default has something to say."""

REQUESTS = {
    "plain": {"cpu": 2, "memory": "8G"},
    "best effort": {},
    "huge": {"cpu": 1e6, "memory": "1P", "nic": "1T"},
    "everything": {
        "cpu": 1, "memory": "4G", "nic": "10M", "limits": {"cpu": 3}, "expected": {"memory": "2G"}, "maxmemory": "4G",
        "ports": [6379, 7000], "priority_class": "batch", "labels": {"app": "redis"}, "cluster": "c1", "role": "master",
        "cluster_masters": 4, "kind": "cache", "data_labels": ["image-a", "disk=ssd"], "machine": "m3",
        "selector": "rack in (r0, r1), disk!=hdd", "prefer": [{"selector": "disk=ssd", "weight": 5}],
        "affinity": [{"instances": {"app": "redis"}, "topology": "rack"}], "tolerations": [{"key": "gpu"}],
        "anti_affinity": [{"instances": {"app": "proxy"}}],
    },
}  # fmt: skip


def machine(number: int) -> dict[str, Any]:
    """Return one of a varied lot: idle, busy, overfull, warming, stale, silent, cordoned, tainted, of no capacity."""
    odd = number % 11
    usage: dict[str, Any] = {
        "cpu": {
            "mean": 1.5 * odd,
            "std": 0.3 * odd,
            "p95": 2.0 * odd,
            "max": 2.2 * odd,
            "coverage": 0.3 if odd == 4 else 1,
        },
        "memory": {"mean": 10e9 * odd, "std": 1e9},
        "nic": {"mean": 1e7 * odd, "std": 1e6},
    }
    if odd == 5:
        del usage["nic"]
    capacity: dict[str, Any] = {"cpu": 16, "memory": 128e9, "nic": 1.25e9}
    if odd == 9:
        capacity = {"cpu": 0, "memory": 128e9}
    operator: dict[str, Any] = {"power": {"k0": 400, "k1": -90, "k2": -0.07}} if number % 2 else {}
    if odd == 6:
        operator |= {"cordon": True}
    if odd == 7:
        operator |= {"taints": [{"key": "gpu"}, {"key": "old", "effect": "avoid"}]}
    if odd == 8:
        operator |= {"thresholds": {"cpu": 0.2}, "share": {"memory": 0.5}, "reserve": {"cpu": 2}}
    return {
        "name": f"m{number}",
        "capacity": capacity,
        "usage": {} if odd == 10 else usage,
        "age_s": 4000 if odd == 3 else 3,
        "labels": {"rack": f"r{number % 3}", "disk": "ssd" if number % 2 else "hdd"} if odd != 2 else {},
        "operator": operator,
        "classes": {"prod": {"cpu": 0.5 * odd, "memory": 1e9}},
        "peak_yesterday": {"cpu": 12},
    }


def described(numbers: list[int]) -> dict[str, Any]:
    """Return a fleet file of these machines, with instances on every other one."""
    instances = [
        {"id": f"i{number}", "machine": f"m{number}", "cpu": 1, "memory": "2G", "limits": {"cpu": 2}, "maxmemory": "3G",
         "ports": [6379], "labels": {"app": "redis" if number % 4 else "proxy"}, "cluster": "c1", "role": "master",
         "placed_ago_s": 100 * number}
        for number in numbers if number % 2 == 0
    ]  # fmt: skip
    return {"machines": [machine(number) for number in numbers], "instances": instances}


@lru_cache
def fleet_file(numbers: tuple[int, ...]) -> FleetState:
    """Return the fleet of these machines, read once: no plugin changes it (`test_nothing_it_is_given_is_changed`)."""
    return read_fleet(described(list(numbers)))


def see(numbers: list[int], request: Request, file: dict[str, Any] | None = None, kept: Kept | None = None) -> Machines:
    """Return these machines, or those of a fleet file, as a decision sees them."""
    fleet = read_fleet(file) if file else fleet_file(tuple(numbers))
    return Machines(fleet_of(fleet.inputs(Profile("any"), kept)), request, fleet.now_s)


def _inputs(machines: Machines, kept: Kept | None = None) -> RankingInputs:
    """Return what these machines were made from."""
    ledger: Any = machines.fleet.seats.ledger
    return RankingInputs(machines.fleet.snapshot, ledger, Profile("any"), machines.now_s, kept or Kept())


def build(kind: type[Any]) -> Any:
    """Return the plugin with settings under which it has something to say."""
    return kind(**SETTINGS.get(kind.name, {}))


def ask(plugin: Any, machines: Machines) -> Any:
    """Return what the plugin says, None when it has nothing to say."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if not plugins.wanted(plugin, machines.request, machines):
            return None
        return plugin(machines.request, machines)


NUMBERS = list(range(44))
every = pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY.keys())
every_request = each_row("asked", REQUESTS.values(), ids=REQUESTS.keys())


@every
@every_request
def test_one_verdict_for_each_machine(kind: type[Any], asked: dict[str, Any]) -> None:
    """A filter gives a truth value, a score a finite number from 0 to 100, for each machine of any fleet."""
    for numbers in (NUMBERS, [0], [10], []):
        machines = see(numbers, read_request(asked))
        said = ask(build(kind), machines)
        if said is None:
            continue
        assert said.shape == (len(numbers),)
        if kind.name in FILTERS and FILTERS[kind.name] is kind:
            assert said.dtype == np.bool_
        else:
            assert np.isfinite(said).all()
            assert ((said >= 0) & (said <= 100)).all()


@every
@every_request
def test_the_order_of_the_machines_does_not_matter(kind: type[Any], asked: dict[str, Any]) -> None:
    """Whichever order the machines come in, each gets the same verdict."""
    shuffled = list(np.random.default_rng(5).permutation(NUMBERS))
    said = ask(build(kind), see(NUMBERS, read_request(asked)))
    again = ask(build(kind), see([int(number) for number in shuffled], read_request(asked)))
    assert (said is None) == (again is None)
    if said is not None:
        np.testing.assert_allclose(again, said[shuffled], rtol=0, atol=1e-9)


ALONE = ("machine", "instances")
"""The scopes of plugins that look at one machine."""


@every
@every_request
def test_other_machines_do_not_matter(kind: type[Any], asked: dict[str, Any]) -> None:
    """A machine gets the same verdict in half the fleet, unless the plugin states that it looks at the whole of it."""
    if plugins.declared_scope(kind) not in ALONE:
        return
    said = ask(build(kind), see(NUMBERS, read_request(asked)))
    half = ask(build(kind), see(NUMBERS[::2], read_request(asked)))
    if said is not None and half is not None:
        np.testing.assert_allclose(half, said[::2], rtol=0, atol=1e-9)


@every
@every_request
def test_instances_elsewhere_do_not_matter(kind: type[Any], asked: dict[str, Any]) -> None:
    """A machine gets the same verdict whatever instances come to other machines or leave them."""
    if plugins.declared_scope(kind) not in ALONE:
        return
    file = described(NUMBERS)
    here = [one for one in file["instances"] if int(one["machine"][1:]) % 4]
    others = [one | {"id": f"{one['id']}-{n}", "ports": [7000]} for one in file["instances"] for n in range(3)]
    elsewhere = [one for one in others if int(one["machine"][1:]) % 4 == 0]
    rows = [number for number in NUMBERS if number % 4]
    said = ask(build(kind), see(NUMBERS, read_request(asked), file | {"instances": here}))
    again = ask(build(kind), see(NUMBERS, read_request(asked), file | {"instances": here + elsewhere}))
    if said is not None and again is not None:
        np.testing.assert_array_equal(again[rows], said[rows])


@every
@every_request
def test_which_instances_there_are_does_not_matter(kind: type[Any], asked: dict[str, Any]) -> None:
    """With scope ``machine`` or ``means`` only the sums of the instances count, not their ports, clusters or labels."""
    kept = Kept()
    plugin, machines = build(kind), see(NUMBERS, read_request(asked), kept=kept)
    said = ask(plugin, machines)
    if said is None or plugins.scope_for(plugin, machines.request, machines) not in ("machine", "means"):
        return
    file = described(NUMBERS)
    for one in file["instances"]:
        for field in ("ports", "labels", "cluster", "role"):
            del one[field]
    np.testing.assert_array_equal(ask(plugin, see(NUMBERS, read_request(asked), file)), said)


@every
@every_request
def test_what_a_decision_saw_stays(kind: type[Any], asked: dict[str, Any]) -> None:
    """With scope ``machine`` or ``means`` the same machines get the same verdict after the ledger has changed."""
    kept = Kept()
    plugin, machines = build(kind), see(NUMBERS, read_request(asked), described(NUMBERS), kept)
    said = ask(plugin, machines)
    if said is None or plugins.scope_for(plugin, machines.request, machines) not in ("machine", "means"):
        return
    place(machines, ["m0", "m1", "m14"])
    fleet_of(_inputs(machines, kept))
    np.testing.assert_array_equal(ask(plugin, machines), said)
    rows = np.array([0, 1, 14, 20])
    np.testing.assert_allclose(ask(plugin, machines.take(rows)), said[rows], rtol=0, atol=1e-9)


def place(machines: Machines, names: list[str]) -> None:
    """Put a copy of the requested instance on each of these machines."""
    for number, name in enumerate(names):
        machines.fleet.seats.ledger.apply(instance_of(machines.request, name, machines.now_s, f"copy-{number}"))


@every
@each_row(
    "asked",
    [
        *REQUESTS.values(),
        {"labels": {"app": "web"}, "anti_affinity": [{"instances": {"app": "web"}, "topology": "rack"}]},
        {"labels": {"app": "web"}, "anti_affinity": [{"instances": {"app": "redis"}, "topology": "rack"}]},
    ],
    ids=[*REQUESTS, "far from its own kind", "far from another kind"],
)
def test_copies_change_the_machines_that_the_scope_names(kind: type[Any], asked: dict[str, Any]) -> None:
    """Copies of the instance change the verdict on their own machines alone, or with scope ``means`` by the means."""
    plugin, before = build(kind), see(NUMBERS, read_request(asked))
    after = see(NUMBERS, read_request(asked), described(NUMBERS))  # its own: it is changed
    scope = plugins.scope_for(plugin, before.request, before)
    if ask(plugin, before) is None or scope == "fleet":
        return
    filled = ["m0", "m1", "m14"]
    place(after, filled)
    after = Machines(fleet_of(_inputs(after)), after.request, after.now_s)
    others = [number for number in NUMBERS if f"m{number}" not in filled]
    if scope != "means":
        np.testing.assert_array_equal(ask(plugin, after)[others], ask(plugin, before)[others])
        return
    then, now = plugins.parts(plugin, before), plugins.parts(plugin, after)
    rows = [int(name[1:]) for name in filled]
    np.testing.assert_allclose(now.own[others], then.own[others], rtol=0, atol=1e-9)
    np.testing.assert_allclose(now.slopes, then.slopes, rtol=0, atol=1e-9)
    np.testing.assert_allclose(now.steps, then.steps, rtol=0, atol=1e-9)
    np.testing.assert_allclose(now.means, then.means + then.steps[:, rows].sum(axis=1), rtol=1e-9)


@every
@every_request
def test_the_parts_of_a_score_make_the_score(kind: type[Any], asked: dict[str, Any]) -> None:
    """``own - slopes @ means``, clipped, is the score; a machine's own part is the same among some rows."""
    plugin, machines = build(kind), see(NUMBERS, read_request(asked))
    said = ask(plugin, machines)
    if said is None or plugins.scope_for(plugin, machines.request, machines) != "means":
        return
    own, slopes, means, _ = plugins.parts(plugin, machines)
    np.testing.assert_allclose(np.clip(own - means @ slopes, 0.0, 100.0), said, rtol=0, atol=1e-9)
    rows = np.array([3, 8, 8, 40, 21])
    np.testing.assert_allclose(plugins.parts(plugin, machines.take(rows)).own, own[rows], rtol=0, atol=1e-9)


@every
def test_it_states_its_scope(kind: type[Any]) -> None:
    """Built-in plugins state what their values depend on."""
    assert plugins.declared_scope(kind) in SCOPES
    assert "scope" in vars(kind) or not kind.__module__.startswith("scorer.")


def test_what_a_plugin_without_a_scope_is_taken_for() -> None:
    """It may count the instances of its machine."""
    silent: Any = type("Silent", (), {})
    assert plugins.declared_scope(silent) == "instances"


@every
@every_request
def test_some_machines_at_a_time_get_the_same_verdict(kind: type[Any], asked: dict[str, Any]) -> None:
    """Asked of some rows, as a batch does, a plugin says what it says of the whole fleet."""
    machines = see(NUMBERS, read_request(asked))
    plugin = build(kind)
    said = ask(plugin, machines)
    spread_over_feasible = plugins.scope_for(plugin, machines.request, machines) == "fleet" and kind.name in SCORES
    if said is None or spread_over_feasible:
        return
    rows = np.array([3, 8, 8, 40, 21])
    part = ask(plugin, machines.take(rows))
    np.testing.assert_allclose(part, said[rows], rtol=0, atol=1e-9)


@every
@every_request
def test_nothing_it_is_given_is_changed(kind: type[Any], asked: dict[str, Any]) -> None:
    """Request and columns are after the call what they were before it."""
    machines = see(NUMBERS, read_request(asked))
    fleet = machines.whole
    names = (
        "mean",
        "std",
        "allocated",
        "credit",
        "utilization",
        "deviation",
        "allocatable",
        "capacity",
        "max",
    )
    before = {name: copy.deepcopy(getattr(fleet, name)) for name in names}
    request = copy.deepcopy(machines.request)
    plugin = build(kind)
    first = ask(plugin, machines)
    for position in (0, 10):
        plugins.detail(plugin, machines.request, machines, position) if first is not None else None
    for name in names:
        np.testing.assert_array_equal(getattr(fleet, name), before[name], err_msg=name)
    assert machines.request == request
    if first is not None:
        np.testing.assert_array_equal(ask(plugin, machines), first)


@every
@every_request
def test_it_can_explain_itself(kind: type[Any], asked: dict[str, Any]) -> None:
    """The numbers behind a verdict can be written as JSON; every refused machine has a reason in words."""
    machines = see(NUMBERS, read_request(asked))
    plugin = build(kind)
    said = ask(plugin, machines)
    if said is None:
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        for position in range(len(machines)):
            json.dumps(dict(plugins.detail(plugin, machines.request, machines, position)), allow_nan=False)
        if said.dtype == np.bool_:
            found = plugins.reasons(plugin, machines.request, machines, said)
            assert all(reason and reason.strip() == reason for reason in found)
            explained = np.logical_or.reduce(list(found.values())) if found else np.zeros(len(machines), np.bool_)
            assert (explained | said).all()


@every
def test_it_is_a_frozen_dataclass_with_a_name(kind: type[Any]) -> None:
    """Settings are fields with defaults that nobody can change afterwards."""
    assert dataclasses.is_dataclass(kind)
    plugin = kind()
    assert isinstance(kind.name, str)
    assert kind.name == kind.name.strip().lower()
    fields = dataclasses.fields(kind)
    if fields:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(plugin, fields[0].name, None)
    if kind.name in FILTERS and FILTERS[kind.name] is kind:
        assert kind.reason


@every
def test_it_is_documented(kind: type[Any]) -> None:
    """The docstring says in a sentence what it does, and names every setting of its own."""
    text = inspect.getdoc(kind) or ""
    assert len(text.splitlines()[0]) > 20
    assert text.splitlines()[0].rstrip().endswith((".", ":", "``."))
    inherited = {
        field.name for base in kind.__mro__[1:] if dataclasses.is_dataclass(base) for field in dataclasses.fields(base)
    }
    everything = text + "".join(inspect.getdoc(base) or "" for base in kind.__mro__[1:-1])
    for field in dataclasses.fields(kind):
        assert field.name in everything, f"{kind.name}: setting {field.name} is not documented"
    assert inherited <= {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize(("folder", "known"), [("filters", FILTERS), ("scores", SCORES)])
def test_every_plugin_file_is_listed(folder: str, known: dict[str, type[Any]]) -> None:
    """Each class with a name in the folder stands in its tuple."""
    for file in sorted((Path(scorer.__file__).parent / "ranking" / folder).glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(line, ast.AnnAssign) and getattr(line.target, "id", "") == "name" for line in node.body
            ):
                assert node.name in {kind.__name__ for kind in known.values()}, f"{file.name}: {node.name}"
