"""A ranking changes no argument: every value that can be reached from one is the same afterwards, array by array.

The snapshot joins a column of its tables when it is first read (`scorer.snapshot.snapshot`), and plugins keep what
follows from their settings as cached properties. So a first ranking may add these;
it changes nothing else. Later rankings add nothing.
"""

import hashlib
from collections import deque
from functools import cached_property
from types import FunctionType

import numpy as np
import pytest

from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import instance_of
from scorer.ranking.explain import answer
from scorer.ranking.inputs import Tables
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from tests.scorer.fleets import fleet, inputs_on, machine, request

PROFILES = load_profiles()
DERIVED = " (cached property)"

SHAPES = {
    "best effort": {},
    "cpu alone": {"cpu": 0},
    "every resource": {"cpu": 2, "memory": "4G", "nic": "10M", "disk": 0.1},
    "too large for all": {"cpu": 1e6, "memory": "4G"},
    "limits, expected use, kind": {
        "cpu": 2, "memory": "4G", "limits": {"cpu": 4}, "expected": {"cpu": 0.5}, "kind": "cache", "maxmemory": "2G",
    },
    "class and labels": {"cpu": 1, "priority_class": "batch", "labels": {"app": "a"}, "ttl_s": 30},
    "free class": {"cpu": 1, "memory": "1G", "priority_class": "free"},
    "a master of a cluster": {"cpu": 1, "cluster": "c", "role": "master", "cluster_masters": 3, "ports": [6379]},
    "a replica": {"cpu": 1, "cluster": "c", "role": "replica", "ports": [6380, 6381]},
    "machine by name": {"cpu": 1, "machine": "m3"},
    "selector, preferences": {
        "cpu": 1, "selector": "zone=a,!gpu", "prefer": [{"selector": "zone=b", "weight": 5}],
    },
    "affinity": {
        "cpu": 1,
        "affinity": [{"instances": {"app": "a"}, "topology": "zone"}],
        "anti_affinity": [{"instances": {"app": "a"}}],
    },
    "tolerations, data": {
        "cpu": 1,
        "tolerations": [{"key": "dedicated", "value": "db"}],
        "data_labels": ["image/a"],
    },
    "window": {"cpu": 1, "memory": "1G", "window_s": 300},
}  # fmt: skip


def everything():
    """Return a fleet with something of each kind: old, silent, cordoned and tainted machines, learned use, leavers."""
    usage = {"cpu": {"mean": 3, "std": 1, "p95": 5, "max": 7}, "memory": "20G", "nic": "1M", "disk": 0.2}
    capacity = {"nic": "1G", "disk": 1}
    machines = [
        machine(
            f"m{number}", 16, "128G", capacity=capacity, usage={} if number == 5 else usage,
            age_s=500 if number == 4 else number, labels={"zone": "ab"[number % 2], "image/a": "yes"},
            peak_yesterday={"cpu": 9 + number}, peak_yesterday_ago_s={"cpu": 80_000},
            classes={"batch": {"cpu": 1, "memory": "2G"}},
        )
        for number in range(6)
    ]  # fmt: skip
    operator = {
        "m1": {"cordon": True},
        "m2": {"taints": [{"key": "dedicated", "value": "db", "effect": "refuse"}]},
        "m3": {"reserve": {"memory": "8G"}, "share": {"cpu": 0.9}},
    }
    instances = [
        {"id": "a", "machine": "m0", "cpu": 2, "memory": "8G", "labels": {"app": "a"}, "placed_ago_s": 30},
        {"id": "b", "machine": "m3", "cpu": 1, "cluster": "c", "role": "master", "ports": [6379], "kind": "cache"},
        {"id": "c", "machine": "m3", "cpu": 1, "priority_class": "batch", "limits": {"cpu": 2}, "state": "reserved"},
        {"id": "d", "machine": "beyond", "cpu": 1, "expected": {"cpu": 0.3}, "placed_ago_s": 100, "maxmemory": "1G"},
    ]
    leavers = [{"id": "z", "machine": "m0", "cpu": 3, "placed_ago_s": 5000, "ended_ago_s": 60}]
    return fleet(
        *machines, operator=operator, instances=instances, leavers=leavers, learned={"cpu": 0.6}, now=1_800_000_000.0
    )


def held(of, path, above=()):
    """Yield the path and the digest of every value that can be reached: array bytes, numbers, texts, lengths of lists.

    A dict's keys are paths; so one that grows has more paths, and the others stay.
    """
    if isinstance(of, np.ndarray):
        content = of.tolist() if of.dtype.hasobject else hashlib.sha256(of.tobytes()).hexdigest()
        yield path, f"{of.dtype} {of.shape} {content}"
    elif of is None or isinstance(of, str | bytes | int | float | slice | np.generic):
        yield path, repr(of)
    elif isinstance(of, set | frozenset):
        yield path, repr(sorted(map(repr, of)))
    elif id(of) not in above and not isinstance(of, type | FunctionType):
        if isinstance(of, list | tuple | deque):
            yield f"{path}.len", str(len(of))
        for name, value in parts(of, path):
            yield from held(value, f"{path}{name}", (*above, id(of)))


def parts(of, path):
    if isinstance(of, dict):
        yield from ((f"[{key!r}]", value) for key, value in of.items())
    elif isinstance(of, list | tuple | deque):
        yield from ((f"[{number}]", value) for number, value in enumerate(of))
    else:
        slots = [name for kind in type(of).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(of, name)]
        assert slots or hasattr(of, "__dict__"), f"{path}: a {type(of)} hides what it holds"
        for name in dict.fromkeys([*slots, *getattr(of, "__dict__", ())]):
            derived = isinstance(getattr(type(of), name, None), cached_property)
            yield f".{name}{DERIVED if derived else ''}", getattr(of, name)


@pytest.mark.parametrize(
    ("profile", "shape"),
    [
        pytest.param(
            profile, shape, marks=() if profile == "windward" or shape == "every resource" else pytest.mark.slow
        )
        for profile in sorted(PROFILES.by_name)
        for shape in SHAPES
    ],
)
def test_a_ranking_changes_no_argument(profile, shape):
    """Neither the first ranking of a fleet nor a later one, on a ledger or an overlay, with and without kept values."""
    offline, wanted, chosen = everything(), request(**SHAPES[shape]), load_profiles().choose(profile)
    overlay, kept = Overlay(offline.ledger, without=["a"]), Tables()
    overlay.propose(instance_of(wanted, "m0", offline.now_s, "proposed"))
    arguments = {"ledgers": (offline.ledger, overlay), "request": wanted, "profile": chosen}

    def decide(keep):
        for ledger in (offline.ledger, overlay):
            answer(rank(wanted, inputs_on(offline, ledger, chosen, keep)), explain_all=True)

    before, read_before = dict(held(arguments, "")), dict(held(offline.snapshot, ""))
    assert min(len(before), len(read_before)) > 100
    decide(kept)
    first, read = dict(held(arguments, "")), dict(held(offline.snapshot, ""))
    assert {path: value for path, value in first.items() if DERIVED not in path or path in before} == before
    assert {path: read.get(path) for path in read_before} == read_before
    decide(kept)
    decide(None)
    assert dict(held(arguments, "")) == first
    assert dict(held(offline.snapshot, "")) == read
