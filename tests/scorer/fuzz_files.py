"""Mutated profiles and fleet files: ``python -m tests.scorer.fuzz_files 100000 [seed]``.

The built-in profiles as TOML, and a fleet file as JSON, are changed by the byte and by the value. Whatever comes,
reading it gives a profile or a fleet that ranks, or the one error that names the field, in few words.
"""

import json
import random
import re
import sys
import warnings
from collections import Counter
from pathlib import Path

from schemas.resources import PRIORITY_CLASSES
from schemas.rpc.request import InvalidRequest, Request
from scorer.commands.shared.fleet_file import InvalidFleet, read_fleet
from scorer.planning.balance.advice import advice
from scorer.planning.drain.evicting import evicting
from scorer.planning.wanted.requests import InvalidWanted, read_wanted
from scorer.planning.wanted.wanted import compare
from scorer.ranking.explain import answer
from scorer.ranking.profiles import catalogue
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.fuzz_queries import nasty
from tests.support.mutated import at_any_depth, in_bytes

MESSAGE_MAX = 1_500
EXAMPLE = (Path(__file__).parents[2] / "docs/examples/classes.toml").read_text()
PROFILES = [path.read_text() for path in sorted((Path(catalogue.__file__).parent / "profiles").glob("*.toml"))]
PROFILES += [EXAMPLE, EXAMPLE]
BY_CLASS = parse_profile(EXAMPLE, "classes")
TOML_VALUES = (
    "1", "-1", "0", "0.5", "1e308", "-1e308", "nan", "inf", "-inf", "99999999999999999999", "true", '""', '"x"',
    "[]", "{}", "[1]", '["cpu"]', "{ cpu = 1 }", "{ cpu = -1 }", "{ cpu = nan }", "{ tape = 1 }", "1979-05-27T07:32:00Z",
    '"cpu"', '"' + "a" * 400 + '"', '"min-max"', '"rank"', '"none"', '"longest-covered"', '"request"', "[[]]", "{ a = { b = 1 } }",
)  # fmt: skip
FLEET = {
    "machines": [
        {"name": "a", "capacity": {"cpu": 32, "memory": "128G"}, "usage": {"cpu": {"mean": 9, "std": 0.5}, "memory": 4e10},
         "labels": {"rack": "1"}, "operator": {"reserve": {"memory": "8G"}, "taints": [{"key": "x"}]},
         "system": {"cpu": 0.5, "memory": "1G"}},
        {"name": "b", "capacity": {"cpu": 32, "memory": "128G"}, "usage": {"cpu": 3, "memory": "4G"}, "age_s": 900},
    ],
    "operator": {"*": {"share": {"cpu": 0.9}}, "a": {"cordon": True}},
    "instances": [{"id": "i", "machine": "a", "cpu": 1, "memory": "1G", "ports": [6379], "labels": {"keeps": "cpu"},
                   "usage": {"cpu": 0.5, "memory": "1G"}, "usage_since_s": 600, "usage_age_s": 30},
                  {"id": "j", "machine": "a", "cpu": 2, "priority_class": "batch", "usage": {"cpu": 1}}],
    "leavers": [{"id": "k", "machine": "a", "cpu": 1, "priority_class": "free", "usage": {"cpu": 1}, "ended_ago_s": 5}],
    "now": 1_790_000_000,
}  # fmt: skip


def mutated_profile(rng):
    """A built-in profile with other values, keys, lines or bytes."""
    lines = rng.choice(PROFILES).splitlines()
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines))
        key, equals, _ = lines[at].partition("=")
        kind = rng.randrange(5)
        if kind <= 1 and equals:
            lines[at] = f"{key}= {rng.choice(TOML_VALUES)}"
        elif kind == 2:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 3:
            del lines[at]
            lines = lines or [""]
        else:
            lines[at] = re.sub(r"\w+", lambda m: rng.choice((m[0], m[0][:-1], m[0] + "x", "use")), lines[at], count=1)
    text = "\n".join(lines)
    return in_bytes(rng, text.encode()).decode(errors="replace") if rng.random() < 0.2 else text


def read_profile(rng, offline):
    text = mutated_profile(rng)
    try:
        profile = parse_profile(text, "fuzzed", "fuzzed.toml")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rank(Request(cpu=1.0, memory=1e9), offline.inputs(profile))
            advice(offline.inputs(profile))
            by_class(rng, offline, profile)
    except ProfileError as error:
        assert len(str(error)) < MESSAGE_MAX, str(error)
        return "profile refused"
    except Exception as error:
        raise AssertionError(text) from error
    return "profile read"


def by_class(rng, offline, profile):
    """Rank an instance of any class, and look for what no longer fits."""
    asked = Request(cpu=1.0, memory=1e9, priority_class=rng.choice(PRIORITY_CLASSES))
    answer(rank(asked, offline.inputs(profile)), explain_all=True)
    evicting(offline.inputs(profile))


def read_file(rng, profile):
    value = at_any_depth(rng, json.loads(json.dumps(FLEET)), lambda _: nasty(rng))
    try:
        found = read_fleet(value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rank(Request(cpu=1.0, memory=1e9), found.inputs(profile))
            by_class(rng, found, BY_CLASS)
    except (InvalidFleet, InvalidRequest, ProfileError) as error:
        assert len(str(error)) < MESSAGE_MAX, str(error)
        return "fleet refused"
    except Exception as error:
        raise AssertionError(json.dumps(value)) from error
    return "fleet read"


WANTED = [
    {"id": "i", "cpu": 1, "memory": "1G", "ports": [6379], "machine": "m1", "labels": {"app": "x"}},
    {"id": "new", "cpu": "500m", "count": 2, "selector": "a=1", "tolerations": [{"key": "x"}], "expected": {"cpu": 1}},
]


def read_wanted_file(rng, profile, offline):
    """Read a file of wanted instances with other values or bytes, and compare it with a fleet."""
    records = json.loads(json.dumps(WANTED))
    for _ in range(rng.randint(0, 3)):
        one = rng.choice(records)
        one[rng.choice([*one, "maxmemory", "limits", "cluster", "role"])] = nasty(rng)
    lines = "\n".join(map(json.dumps, records))
    text = rng.choice((json.dumps(records), lines, json.dumps({"instances": records, "kind": nasty(rng)})))
    text = in_bytes(rng, text.encode()).decode(errors="replace") if rng.random() < 0.2 else text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compare(read_wanted(text)[:20], offline.inputs(profile), prune=True)
    except (InvalidWanted, InvalidRequest) as error:
        assert len(str(error)) < MESSAGE_MAX, str(error)
        return "wanted refused"
    except Exception as error:
        raise AssertionError(text) from error
    return "wanted read"


def fuzz(count, seed=1):
    """Read so many of each; return the counts, or raise with what broke something."""
    rng, counts = random.Random(seed), Counter[str]()
    there = {"id": "i", "machine": "m0", "cpu": 1, "memory": "1G", "labels": {"app": "x"}}
    offline = fleet(
        *(machine(f"m{n}", usage={"cpu": 4 * n, "memory": n}) for n in range(3)),
        instances=[there, *({"id": f"i{n}", "machine": "m2", "cpu": 2, "memory": 1} for n in range(3))],
    )
    profile = catalogue.load_profiles().choose()
    reads = (
        lambda: read_profile(rng, offline),
        lambda: read_file(rng, profile),
        lambda: read_wanted_file(rng, profile, offline),
    )
    for _ in range(count):
        counts.update(read() for read in reads)
    return counts


if __name__ == "__main__":
    print(json.dumps(fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1), indent=1))
