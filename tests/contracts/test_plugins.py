"""What every filter and every score keeps to, the built-in ones and those of other packages alike."""

import ast
import dataclasses
import inspect
import json
from functools import lru_cache
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
import pytest

import scorer
from schemas.rpc.request import read_request
from scorer.commands.shared.fleet_file import read_fleet
from scorer.placement.choosing.trial import Trial
from scorer.ranking.explain import answer
from scorer.ranking.kernel.layout import PLAIN
from scorer.ranking.plugin import Plugin
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile import PlacedFilter, Profile, WeightedScore
from scorer.ranking.rank import rank
from tests.scorer.fleets import alone, see

FILTERS = dict(plugins.filters())
SCORES = dict(plugins.scores())
EVERY = {f"filter {name}": kind for name, kind in FILTERS.items()} | {f"score {name}": k for name, k in SCORES.items()}

SETTINGS = {
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


def machine(number):
    """Return one of a varied lot: idle, busy, overfull, warming, stale, silent, cordoned, tainted, of no capacity."""
    odd = number % 11
    usage = {
        "cpu": {"mean": 1.5 * odd, "std": 0.3 * odd, "p95": 2.0 * odd, "max": 2.2 * odd}
        | ({"coverage": 0.3} if odd == 4 else {}),
        "memory": {"mean": 10e9 * odd, "std": 1e9},
        "nic": {"mean": 1e7 * odd, "std": 1e6},
    }
    if odd == 5:
        del usage["nic"]
    capacity = {"cpu": 16, "memory": 128e9, "nic": 1.25e9}
    if odd == 9:
        capacity = {"cpu": 0, "memory": 128e9}
    operator = {"power": {"k0": 400, "k1": -90, "k2": -0.07}} if number % 2 else {}
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


def described(numbers):
    """Return a fleet file of these machines, with instances on every other one."""
    instances = [
        {"id": f"i{number}", "machine": f"m{number}", "cpu": 1, "memory": "2G", "limits": {"cpu": 2}, "maxmemory": "3G",
         "ports": [6379], "labels": {"app": "redis" if number % 4 else "proxy"}, "cluster": "c1", "role": "master",
         "placed_ago_s": 100 * number}
        for number in numbers if number % 2 == 0
    ]  # fmt: skip
    return {"machines": [machine(number) for number in numbers], "instances": instances}


@lru_cache
def fleet_file(numbers):
    """Return the fleet of these machines, read once: no plugin changes it."""
    return read_fleet(described(list(numbers)))


def build(kind):
    """Return the plugin with settings under which it has something to say."""
    return kind(**SETTINGS.get(kind.name, {}))


def is_filter(kind):
    return FILTERS.get(kind.name) is kind


def ranked(kind, fleet, asked):
    return rank(read_request(asked), fleet.inputs(alone(build(kind), kind="filter" if is_filter(kind) else "score")))


def ask(kind, numbers, asked, file=None):
    """Return what the plugin says of these machines, or those of a fleet file; None when it has nothing to say."""
    ranking = ranked(kind, read_fleet(file) if file else fleet_file(tuple(numbers)), asked)
    if is_filter(kind):
        return ranking.feasible if ranking.verdicts else None
    return ranking.terms[0].raw if ranking.terms else None


def looks_alone(kind, asked):
    """Return whether a built-in plugin reads a machine's own row alone; one of another package may read them all."""
    if not issubclass(kind, Plugin) or kind.name == "data_locality":  # by how many machines have the data
        return False
    plugin, request = build(kind), read_request(asked)
    machines = see(fleet_file(tuple(NUMBERS)), request)
    return plugin.inner == PLAIN and not len(plugin.columns(request, machines))


NUMBERS = list(range(44))
every = pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY.keys())


def one_verdict_for_each_machine(kind, asked):
    """A filter gives a truth value, a score a finite number from 0 to 100, for each machine of any fleet."""
    for numbers in (NUMBERS, [0], [10], []):
        said = ask(kind, numbers, asked)
        if said is None:
            continue
        assert said.shape == (len(numbers),)
        if is_filter(kind):
            assert said.dtype == np.bool_
        else:
            assert np.isfinite(said).all()
            assert ((said >= 0) & (said <= 100)).all()


def the_order_of_the_machines_does_not_matter(kind, asked):
    shuffled = list(np.random.default_rng(5).permutation(NUMBERS))
    said = ask(kind, NUMBERS, asked)
    again = ask(kind, [int(number) for number in shuffled], asked)
    assert (said is None) == (again is None)
    if said is not None:
        np.testing.assert_allclose(again, said[shuffled], rtol=0, atol=1e-9)


def other_machines_do_not_matter(kind, asked):
    """A machine gets the same verdict in half the fleet, unless the plugin reads more than its row."""
    if not looks_alone(kind, asked):
        return
    said, half = ask(kind, NUMBERS, asked), ask(kind, NUMBERS[::2], asked)
    if said is not None and half is not None:
        np.testing.assert_array_equal(half, said[::2])


def instances_elsewhere_do_not_matter(kind, asked):
    """A machine gets the same verdict whatever instances come to other machines or leave them."""
    if not looks_alone(kind, asked):
        return
    file = described(NUMBERS)
    here = [one for one in file["instances"] if int(one["machine"][1:]) % 4]
    others = [one | {"id": f"{one['id']}-{n}", "ports": [7000]} for one in file["instances"] for n in range(3)]
    elsewhere = [one for one in others if int(one["machine"][1:]) % 4 == 0]
    rows = [number for number in NUMBERS if number % 4]
    said = ask(kind, NUMBERS, asked, file | {"instances": here})
    again = ask(kind, NUMBERS, asked, file | {"instances": here + elsewhere})
    if said is not None and again is not None:
        np.testing.assert_array_equal(again[rows], said[rows])


def copies_go_where_one_by_one_would(kind, asked):
    """Beside the filter of resources, which ends it, copies of two sizes go in one loop where seven rankings go."""
    if kind.name == "fits":
        return
    plugin = build(kind)
    fits = PlacedFilter(FILTERS["fits"]())
    filters = (fits, PlacedFilter(plugin)) if is_filter(kind) else (fits,)
    scores = () if is_filter(kind) else (WeightedScore(plugin),)
    profile, request = Profile("two", filters=filters, scores=scores), read_request(asked)
    other = msgspec.structs.replace(request, cpu=(request.cpu or 0.0) / 2, memory=(request.memory or 0.0) / 3)
    kinds = [(request, 3), (other, 4)]
    together, single = (Trial(fleet_file(tuple(NUMBERS)).inputs(profile)) for _ in range(2))
    found = []
    for number, one in enumerate(chain.from_iterable([one] * count for one, count in kinds)):
        best = single.best(one)
        if best.machine is None:
            break
        found.append(best.machine)
        single.propose(one, best.machine, f"copy-{number}")
    assert together.together(kinds) in (None, (found, best.why))


def it_can_explain_itself(kind, asked):
    """The numbers behind a verdict can be written as JSON; every refused machine has a reason in words."""
    ranking = ranked(kind, fleet_file(tuple(NUMBERS)), asked)
    for row in range(len(NUMBERS)):
        found = ranking.verdict_of(row)
        assert (found is None) == bool(ranking.feasible[row])
        assert found is None or found[1].strip() == found[1] != ""
    told = answer(ranking, explain_all=True)
    assert len(told.machines or ()) == len(NUMBERS)
    json.dumps(msgspec.to_builtins(told), allow_nan=False)


LAWS = (
    one_verdict_for_each_machine,
    the_order_of_the_machines_does_not_matter,
    other_machines_do_not_matter,
    instances_elsewhere_do_not_matter,
    copies_go_where_one_by_one_would,
    it_can_explain_itself,
)


@every
def test_each_law_holds_for_each_request(kind, subtests):
    for law in LAWS:
        for name, asked in REQUESTS.items():
            with subtests.test(f"{law.__name__}, {name}"):
                law(kind, asked)


@every
def test_it_is_a_frozen_dataclass_with_a_name(kind):
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
        assert all(getattr(plugin, "reasons", None) or (plugin.reason,))


@every
def test_it_is_documented(kind):
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
def test_every_plugin_file_is_listed(folder, known):
    """Each class with a name in the folder stands in its tuple, under a name of its own, and each file has one."""
    files = sorted((Path(scorer.__file__).parent / "ranking" / folder).glob("*.py"))
    ours = [kind.__module__ for kind in known.values() if kind.__module__.startswith(f"scorer.ranking.{folder}.")]
    assert {name.rpartition(".")[2] for name in ours} == {file.stem for file in files} - {"__init__"}
    for file in files:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(line, ast.AnnAssign) and getattr(line.target, "id", "") == "name" for line in node.body
            ):
                assert node.name in {kind.__name__ for kind in known.values()}, f"{file.name}: {node.name}"
