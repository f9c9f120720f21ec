"""The worlds of the recorded rankings: fleets, requests and profiles, drawn from seeds by Python's own generator."""

import random
from dataclasses import replace

import msgspec

from schemas.rpc.request import read_request
from schemas.tables.learned import Learned
from scorer.commands.shared.fleet_file import FleetState, read_fleet
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.profiles.catalogue import built_in_profiles
from scorer.ranking.profiles.profile_file import parse_profile

NOW_S = 1_790_000_000.0
KINDS = tuple(f"kind-{number}" for number in range(5))
CLUSTERS = tuple(f"cluster-{number}" for number in range(8))
CLASSES = ("prod", "mid", "batch", "free")
_CAPACITIES = {"cpu": (16.0, 32.0, 64.0), "memory": (6.4e10, 2.56e11), "nic": (1.25e9,), "disk": (1.0,)}

_FILTERS = """
filters = [{use="machine_name"}, {use="cordon"}, {use="taints"}, {use="selector"}, {use="ports"}, {use="masters"},
 {use="maxmemory", share=0.8}, {use="affinity"}, {use="anti_affinity"}, FITS, THRESHOLD, MORE]
"""


def profile_text(fits="", threshold="", more='{use="memory_pressure"}', scores="", head=""):
    """Return a profile of all filters, with these settings of two of them."""
    filters = _FILTERS.replace("FITS", f'{{use="fits"{fits}}}').replace(
        "THRESHOLD", f'{{use="usage_threshold"{threshold}}}'
    )
    return f"{head}\n{filters.replace('MORE', more)}\nscores = [{scores}]\n".replace("\n ", " ")


USUAL = ", thresholds={cpu=0.8, memory=0.9, nic=0.9}"
_PLAIN = '{use="least_allocated"}'
TEXTS = {
    "variance": profile_text(threshold=USUAL, scores='{use="global_variance", normalise="min-max"}, {use="spread"}'),
    "variance feasible": profile_text(
        ', basis="requests"', USUAL, scores='{use="global_variance", over="feasible", weights={cpu=1, disk=2}}'
    ),
    "overload": profile_text(
        threshold=USUAL,
        head='debits=true\nlearned=true',
        scores='{use="expected_overload", variation_of="learned", learned_variation=2.0, evenness=0.0, limit=0.7},'
        '{use="apart", weight=3}, {use="taint_preference"}, {use="machine_preference"}',
    ),
    "overload by rank": profile_text(
        threshold=USUAL, scores='{use="expected_overload", normalise="rank", weights={cpu=1}}, {use="data_locality"}'
    ),
    "risk": profile_text(scores='{use="load_variation_risk", margin=1.5, sensitivity=2.0, resources=["cpu","disk"]}'),
    "risk rounded": profile_text(
        head='window="shortest"\ncredits="none"',
        scores='{use="load_variation_risk", rounding=true, newcomer="request"}, {use="spread", by="kind"}',
    ),
    "risk reduced": profile_text(
        head='ties="draw"',
        scores='{use="load_variation_risk", form="reduced", sensitivity=0.0}, {use="spread", by="labels"}',
    ),
    "packing": profile_text(
        scores='{use="target_load_packing", resource="memory", target=0.6, credits="trimaran-60s"},'
        '{use="target_load_packing", rounding=true, limit="capacity", window=300,'
        ' estimate={base="limit-first", factor={cpu=1.5}, default={cpu=1.0}, round_to={cpu=0.001}}}'
    ),
    "beta": profile_text(
        scores='{use="low_risk_overcommitment", smoothing_window=1.0}, {use="low_risk_overcommitment", rounding=true}'
    ),
    "peaks": profile_text(scores='{use="peaks"}, {use="peaks", peer=true}'),
    "aware": profile_text(
        threshold=', thresholds={cpu=0.6}, percentile_thresholds={cpu=0.7, memory=0.9}, missing="estimates"',
        head='credits="koordinator-pending"\nwindow=300\nstale="refuse"',
        scores='{use="load_aware", statistic="p95", missing="estimates", rounding=true, dominant_weight=1.0}',
    ),
    "aware prod": profile_text(
        threshold=', prod_thresholds={cpu=0.5, memory=0.7}, prod_with_system=true, rounding=true, expiration_s=100.0',
        scores='{use="load_aware", prod_usage=true, prod_with_system=true, expiration_s=0.0}',
    ),
    "aware max": profile_text(
        threshold=', percentile_thresholds={cpu=0.9}, statistic="max", missing="mean", expiration_s=60.0,'
        ' pass_expired=true',
        head='debits=true',
        scores='{use="load_aware", statistic="p50", missing="mean", weights={cpu=2.0, nic=1.0}}',
    ),
    "percentiles": profile_text(
        threshold=', percentile_thresholds={cpu=0.8, memory=0.95}, statistic="p99"', head="debits=true", scores=_PLAIN
    ),
    "requests": profile_text(
        ', basis="requests"', head='credits="none"\nstale="requests"', scores='{use="most_allocated"}'
    ),
    "requests rounded": profile_text(
        ', basis="requests", default_cpu=0.1, default_memory=209715200.0',
        scores='{use="least_allocated", rounding=true, default_cpu=0.1, default_memory=209715200.0},'
        '{use="balanced_allocation", form="v1.21", rounding=true},'
        ' {use="balanced_allocation", form="v1.36", rounding=true}',
    ),
    "balanced": profile_text(
        scores='{use="balanced_allocation", weights={cpu=1,memory=1,nic=1}}, {use="balanced_allocation", form="v1.36"},'
        '{use="most_allocated", basis="used", rounding=true}, {use="least_allocated", basis="taken"}'
    ),
    "shape": profile_text(
        scores='{use="requested_to_capacity_ratio", shape=[[0,2],[40,10],[100,1]]},'
        '{use="requested_to_capacity_ratio", rounding=true, basis="taken"}'
    ),
    "ratios": profile_text(
        ', ratio={cpu=1.5}, ratio_where=[{selector="rack=r1", ratio={cpu=3.0}},'
        ' {selector="disk=ssd", ratio={memory=1.2}}]',
        scores=_PLAIN,
    ),
    "classes": profile_text(', classes={share={cpu=0.9, memory=0.9}}', scores=_PLAIN, head="debits=true"),
    "classes by request": profile_text(
        ', classes={share={cpu=0.8}, policy={cpu="max-usage-request"}, batch_share={cpu=0.5}, mid_unallocated=0.2,'
        ' peak_margin=0.2}, basis="requests"',
        scores='{use="most_allocated"}',
    ),
    "peak days": profile_text(
        more='{use="daily_peak", thresholds={cpu=0.7, memory=0.9}, days=["yesterday","today"],'
        ' time_zone="Europe/Berlin"},{use="fresh", age_s_max=30.0, intervals_max=1.0},'
        ' {use="warming", coverage_min=0.5}',
        head='debits=true\nlearned=true\nstale="refuse"',
        scores='{use="expected_overload", variation=0.5, variation_of="requests"}',
    ),
    "one of many models": profile_text(
        threshold=USUAL + ', window=900, credits="trimaran-60s"',
        scores='{use="load_variation_risk", window=300, credits="none"}, {use="expected_overload", learned=true}',
    ),
}  # fmt: skip


def profiles():
    every = {**built_in_profiles(), **{name: parse_profile(text, name) for name, text in TEXTS.items()}}
    return {name: as_recorded(profile) for name, profile in every.items()}


def as_recorded(profile):
    """Return the profile with the first group of usage thresholds alone, which was the only way there was."""
    filters = [
        replace(each, filter=replace(each.filter, instead=True)) if isinstance(each.filter, UsageThreshold) else each
        for each in profile.filters
    ]
    return replace(profile, filters=tuple(filters))


def world(machines, per_machine, seed):
    """Return a fleet with everything in it: odd machines, young, old and measured instances, leavers, learned use."""
    dice = random.Random(seed)
    listed = [_machine(number, dice) for number in range(machines)]
    instances, leavers = [], []
    for number in range(machines * per_machine):
        one = {**asked(dice), "id": f"i{number}", "machine": listed[dice.randrange(machines)]["name"]}
        for name in ("selector", "prefer", "data_labels", "tolerations", "affinity", "anti_affinity", "window_s"):
            one.pop(name, None)
        age_s = dice.choice((30.0, 300.0, 900.0, 2_000.0, 9_000.0, 100_000.0)) * dice.uniform(0.5, 1.5)
        one["placed_ago_s"] = age_s
        if dice.random() < 0.4:
            usage = {"cpu": 2 * dice.random() * one.get("cpu", 1.0), "memory": 1e9 * dice.random()}
            one |= {"usage": usage, "usage_since_s": 0.8 * age_s}
        if dice.random() < 0.12:
            ended_s = dice.uniform(0, 5_000)
            leavers.append({**one, "id": f"l{number}", "ended_ago_s": ended_s, "placed_ago_s": age_s + ended_s})
        else:
            if dice.random() < 0.15:
                one |= {"state": "reserved", "started": False}
            instances.append(one)
    found = read_fleet({"machines": listed, "instances": instances, "leavers": leavers, "now": NOW_S})
    learned = Learned(
        version=2,
        factors={"cpu": 0.4, "memory": 0.8},
        kinds={KINDS[0]: {"cpu": 0.2}, f"{KINDS[1]}\t21": {"cpu": 0.7, "memory": 0.9}, "\t20": {"nic": 0.5}},
        deviations={KINDS[0]: {"cpu": 0.3}, f"{KINDS[1]}\t21": {"cpu": 0.1, "memory": 0.05}},
    )
    snapshot = found.snapshot.with_use(learned if seed % 3 else None, found.snapshot.usages, found.snapshot.predicted)
    return FleetState(snapshot, found.ledger, found.now_s)


def _machine(number, dice):
    capacity = {name: dice.choice(of) for name, of in _CAPACITIES.items()}
    load = dice.betavariate(2, 3)
    usage = {
        name: {"mean": of * min(load * dice.uniform(0.5, 1.4), 0.98), "std": 0.2 * load * of,
               "p95": of * min(load * dice.uniform(0.8, 1.6), 0.99), "coverage": dice.choice((1.0, 1.0, 1.0, 0.3, 0.7))}
        for name, of in capacity.items()
    }  # fmt: skip
    one = {
        "name": f"m{(number * 7_919) % 100_003:06d}", "capacity": capacity, "usage": usage,
        "age_s": dice.uniform(0, 25), "labels": {"rack": f"r{number % 5}", "disk": dice.choice(("ssd", "hdd"))},
    }  # fmt: skip
    if dice.random() < 0.8:
        one["peak_today"] = {name: min(1.3 * each["mean"], capacity[name]) for name, each in usage.items()}
    if dice.random() < 0.7:
        one["peak_yesterday"] = {name: min(1.4 * each["mean"], capacity[name]) for name, each in usage.items()}
    if dice.random() < 0.3:
        one["labels"]["image-redis"] = dice.choice(("true", "false", "7"))
    if dice.random() < 0.5:
        one["peak_today_ago_s"] = {"memory": dice.uniform(0, 7_200), "cpu": dice.uniform(0, 7_200)}
    if dice.random() < 0.5:
        one["windows"] = {"300": {name: each | {"mean": 0.7 * each["mean"]} for name, each in usage.items()}}
    if dice.random() < 0.5:
        one |= {"system": {"cpu": 0.5, "memory": 2e9}, "classes": {"prod": {"cpu": 0.5 * usage["cpu"]["mean"]}}}
    operator = {}
    if dice.random() < 0.4:
        operator["power"] = {"k0": 100.0, "k1": dice.uniform(-20.0, -5.0), "k2": -0.01}
    _make_odd(dice.randrange(40), one, operator, dice)
    if operator:
        one["operator"] = operator
    return one


_ODD_BY_OPERATOR = {
    0: {"cordon": True},
    1: {"taints": [{"key": "gpu", "effect": "refuse"}]},
    2: {"taints": [{"key": "gpu", "effect": "avoid"}]},
    6: {"reserve": {"memory": 8e9}, "ratio": {"cpu": 2.0}, "share": {"cpu": 0.9}},
    8: {"thresholds": {"cpu": 0.5}},
    9: {"prod_thresholds": {"cpu": 0.4}},
    10: {"percentile_thresholds": {"memory": 0.6}},
}


def _make_odd(what, one, operator, dice):
    """Make one machine in four an odd one: by its operator, with old data, or with some that is missing."""
    operator |= _ODD_BY_OPERATOR.get(what, {})
    if what == 3:
        one["age_s"] = dice.uniform(50, 500)
    elif what == 4:
        del one["usage"][dice.choice(("cpu", "memory", "nic", "disk"))]
    elif what == 5:
        for name in ("usage", "peak_today", "peak_yesterday"):
            one.pop(name, None)
    elif what == 7:
        del one["capacity"][dice.choice(("cpu", "nic", "disk"))]


def asked(dice):
    """Return the parameters of a request, some with all that a filter or a score can look at."""
    one = {"cpu": dice.choice((0.25, 0.5, 1.0, 2.0, 4.0, 8.0)), "memory": 1e9 * dice.randrange(1, 32)}
    cluster = dice.choice(CLUSTERS)
    for chance, more in (
        (0.3, {"nic": 1e8 * dice.random()}), (0.1, {"disk": 0.2}), (0.5, {"kind": dice.choice(KINDS)}),
        (0.4, {"cluster": cluster}), (0.15, {"cluster": cluster, "role": "master", "cluster_masters": 3}),
        (0.2, {"ports": [dice.randrange(6_000, 6_010)]}), (0.3, {"labels": {"app": dice.choice("abc")}}),
        (0.5, {"priority_class": dice.choice(CLASSES)}), (0.15, {"maxmemory": 4e10 * dice.random()}),
        (0.15, {"expected": {"cpu": dice.random()}}), (0.15, {"limits": {"cpu": 9.0, "memory": 4e10}}),
        (0.1, {"selector": dice.choice(("disk=ssd", "rack in (r1, r2)", "rack!=r0,disk"))}),
        (0.1, {"prefer": [{"selector": "disk=ssd", "weight": 3}, {"selector": "rack=r1", "weight": 5}]}),
        (0.1, {"data_labels": ["image-redis", "disk=ssd"]}), (0.1, {"tolerations": [{"key": "gpu"}]}),
        (0.05, {"affinity": [{"instances": {"app": "a"}, "topology": "rack"}]}),
        (0.1, {"anti_affinity": [{"instances": {"app": dice.choice("abc")}}]}),
        (0.04, {"anti_affinity": [{"instances": {"cluster": cluster}, "topology": "rack"}], "cluster": cluster}),
        (0.02, {"cpu": 200.0}), (0.01, {"cpu": 0.0, "memory": 0.0}), (0.05, {"window_s": 300}),
    ):  # fmt: skip
        if dice.random() < chance:
            one |= more
    return one


def requests(dice, names):
    """Yield requests without end; a few name a machine of the fleet."""
    number = 0
    while True:
        number += 1
        params = {**asked(dice), "id": f"asked-{number}", "top": 10}
        if names and dice.random() < 0.02:
            params["machine"] = names[dice.randrange(len(names))]
        yield read_request(params)


def without_id(request):
    return msgspec.structs.replace(request, id="")
