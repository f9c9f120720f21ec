"""Small fleets for tests: a machine is a few words, a score or a filter is asked directly."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from schemas.rpc.request import read_request
from scorer.commands.shared.fleet_file import read_fleet
from scorer.ledger.view.overlay import Overlay
from scorer.ranking import explain
from scorer.ranking.inputs import RankingInputs, Tables, machines_of
from scorer.ranking.kernel import binding
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import LoadModel, PlacedFilter, Profile, WeightedScore
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.rank import rank
from scorer.ranking.scores.load_aware import LoadAware

PROFILES = load_profiles()
CASES = Path(__file__).parent / "ranking" / "cases"


def cases(name, kind=None):
    rows = json.loads((CASES / f"{name}.json").read_text())["cases"]
    return [row for row in rows if kind is None or row.get("kind") == kind]


def by_name(row):
    return row["name"]


def machine(name="m", cpu=10.0, memory=100.0, **more):
    """Return a machine with this capacity; `usage` and the rest as in a fleet file."""
    capacity = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": name, "capacity": capacity | more.pop("capacity", {}), **more}


def fleet(*machines, **more):
    return read_fleet({"machines": list(machines), **more})


def request(**params):
    return read_request(params)


def toml(settings):
    """Return the text of a profile with these settings; `filters` and `scores` are lists of tables.

    >>> print(toml({"window": 300, "estimate": {"factor": {"cpu": 0.85}}, "scores": [{"use": "peaks", "peer": True}]}))
    window = 300
    estimate = { factor = { cpu = 0.85 } }
    [[scores]]
    use = "peaks"
    peer = true
    """
    lists = ("filters", "scores")
    lines = [f"{name} = {_toml_value(value)}" for name, value in settings.items() if name not in lists]
    for name in lists:
        for table in settings.get(name, ()):
            lines += [f"[[{name}]]", *(f"{key} = {_toml_value(value)}" for key, value in table.items())]
    return "\n".join(lines)


def _toml_value(value):
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml_value(each)}' for key, each in value.items())} }}" if value else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value)


def ranked(offline, profile="windward", asked=None, kept=None, **params):
    if isinstance(profile, str):
        profile = PROFILES.choose(profile)
    elif not isinstance(profile, Profile):
        profile = parse_profile(toml(profile), "test")
    return rank(asked or request(**params), offline.inputs(profile, kept))


def told(offline, profile, asked=None):
    answer = msgspec.to_builtins(explain.answer(ranked(offline, profile, asked), explain_all=True))
    of = {each["machine"]: each for each in answer["machines"]}
    return {name: of[name] for name in offline.snapshot.names}


def score_told(offline, score, asked=None, **profile):
    """Return what the answer tells of one score on every machine: `raw` and its details; {} where it did not run."""
    answer = told(offline, {**profile, "scores": [score]}, asked)
    return {name: each["scores"].get(score["use"], {}) for name, each in answer.items()}


def raw_scores(offline, score, asked=None, **profile):
    """Return the value of one score on every machine, before it is normalised, by machine's name."""
    return {name: each["raw"] for name, each in score_told(offline, score, asked, **profile).items()}


def verdicts(offline, of_filter, asked=None, **profile):
    answer = told(offline, {**profile, "filters": [of_filter]}, asked)
    return {name: next(iter(each["filters"]), {"allowed": True}) for name, each in answer.items()}


def inputs_on(offline, ledger, profile, tables=None):
    """What a ranking of these machines is made from on another ledger, or on an overlay."""
    overlay = ledger if isinstance(ledger, Overlay) else None
    live = ledger.base if isinstance(ledger, Overlay) else ledger
    return RankingInputs(offline.snapshot, live, profile, offline.now_s, tables or Tables(), overlay)


STATISTICS = Profile("statistics", scores=(WeightedScore(LoadAware(statistic="p95")),))
"""A profile whose rows have percentiles and the largest reading."""


def see(
    offline,
    asked=None,
    load_model=None,
    profile=Profile("any"),  # noqa: B008
):
    """Return the machines as a decision sees them; percentiles are there by a profile that needs them."""
    return machines_of(offline.inputs(profile), load_model).of(asked or request())


def alone(plugin, load_model=None, kind="score"):
    model = load_model or LoadModel()
    if kind == "score":
        return Profile("alone", load_model=model, scores=(WeightedScore(plugin),))
    return Profile("alone", load_model=model, filters=(PlacedFilter(plugin),))


def scores(plugin, offline, asked=None, load_model=None):
    (term,) = rank(asked or request(), offline.inputs(alone(plugin, load_model))).terms
    assert np.isfinite(term.raw).all()
    return dict(zip(offline.snapshot.names, map(float, term.raw), strict=True))


def allowed(plugin, offline, asked=None, load_model=None):
    found = rank(asked or request(), offline.inputs(alone(plugin, load_model, "filter"))).feasible
    return dict(zip(offline.snapshot.names, map(bool, found), strict=True))


def compared(raw, inner):
    """Return what values are among those of other machines, by the function that a decision calls."""
    uses = binding.Uses(raw.size, 1)
    values = uses.raw(uses.add(binding.Records(*[raw] * 5), binding.use_of_profile(0, None, inner=inner)))
    values[:] = raw
    binding.compare(np.zeros(raw.size, np.int32), uses)
    return values


IDLE = {"cpu": 0, "memory": 0}
BUSY = {"cpu": 9, "memory": 90}


def passes(plugin, *machines, instances=(), load_model=None, **asked):
    found = allowed(plugin, fleet(*machines, instances=list(instances)), request(**asked), load_model)
    return " ".join(name for name, passed in found.items() if passed)


def why(plugin, *machines, instances=(), **asked):
    offline = fleet(*machines, instances=list(instances))
    ranking = rank(request(**asked), offline.inputs(alone(plugin, kind="filter")))
    found = [ranking.verdict_of(row) for row in range(len(offline.snapshot))]
    return [each[1] for each in found if each is not None]


def mixed():
    busy = [machine(f"busy{n}", usage={"cpu": 9.5, "memory": 10}) for n in range(3)]
    return fleet(*busy, *(machine(f"old{n}", usage={"cpu": 1, "memory": 1}, age_s=900) for n in range(2)))


def small_fleet():
    return fleet(
        machine(
            "a", labels={"disk": "ssd", "image-x": "yes"}, operator={"taints": [{"key": "old", "effect": "avoid"}]}
        ),
        machine("b", labels={"disk": "hdd", "rack": "r1"}),
        instances=[{"id": "1", "machine": "a", "cluster": "c"}],
    )


OF_OPERATOR = {"AVG": "mean", "Latest": "mean", "": "mean", "STD": "std"}
"""The statistic of a window that an operator's figure is."""


def trimaran_usage(metrics, **capacity):
    """Return the usage by resource that Trimaran's metrics say, as load-watcher delivers them; {} without any metric.

    Percent become amounts. Windward's windows have one mean and one std: a list that gives one of them twice cannot be
    told, so which of two wins is no matter of this function.
    """
    found = {}
    for metric in metrics if isinstance(metrics, list) else ():
        resource, statistic = metric["type"].lower(), OF_OPERATOR[metric["operator"]]
        if statistic in found.setdefault(resource, {}):
            raise ValueError(f"{resource} has two figures for its {statistic}")
        found[resource][statistic] = metric["value_percent"] * capacity[resource] / 100
    return found


def steps(plan):
    """Return the moves of a rebalancing."""
    return [one for one in plan.moves if one.target is not None]


def exchanges(plan):
    """Return its exchanges of roles."""
    return [one for one in plan.moves if one.swap_role_with]


def unplaced(plan):
    """Return those that should leave and find no machine."""
    return [one for one in plan.moves if one.target is None and not one.swap_role_with]
