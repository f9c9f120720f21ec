"""Who leaves when higher classes come back: the lowest class first, no more than is needed, and where to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.planning.drain.evicting import evicting
from scorer.ranking.inputs import class_sums
from scorer.ranking.profiles.profile_file import parse_profile
from tests.effort import examples
from tests.scorer.classes.test_by_class import one
from tests.scorer.fleets import fleet, machine

PROFILE = parse_profile('[[filters]]\nuse = "fits"\nclasses = { share = { cpu = 0.5 } }', "by_class")
"""Of 10 cores batch and free get 5, less what higher classes use."""


STAYS = {"labels": {"movable": "false"}}


def came(name, ago_s, of="batch"):
    return one(name, 1, 0, of, placed_ago_s=ago_s)


def advice(*instances, machines=(), **more):
    used = sum(each.get("usage", {}).get("cpu", 0) for each in instances if each["machine"] == "m")
    there = machine("m", **({"usage": {"cpu": used, "memory": 0}} | more))
    return evicting(fleet(there, *machines, instances=list(instances)).inputs(PROFILE))


@pytest.mark.parametrize(
    ("name", "instances", "expected"),
    [
        ("all fit", [one("p", 8, 2), one("b", 3, 1, "batch")], ""),
        ("free leaves before batch", [one("p", 8, 2), one("b", 3, 1, "batch"), one("f", 1, 1, "free")], "f"),
        ("batch, when free is not enough", [one("p", 8, 4), one("b", 3, 1, "batch"), came("f", 9, "free")], "f b"),
        ("the one that just covers it", [one("p", 8, 3), *(one(f"b{n}", n, 0, "batch") for n in (1, 2, 3))], "b3 b1"),
        ("of equals the newest", [one("p", 9, 3.5), came("old", 90), came("new", 9)], "new"),
        ("one that may not be moved stays", [one("p", 9, 4), one("b", 2, 0, "batch", **STAYS), came("c", 9)], "c"),
        ("prod is never advised", [one("p", 12, 9)], ""),
        ("mid, when prod may use what it asked for", [one("p", 8, 7), one("m", 2, 0, "mid")], "m"),
        ("batch before mid", [one("p", 8, 7), one("m", 2, 0, "mid"), one("b", 1, 0, "batch")], "b m"),
    ],
)  # fmt: skip
def test_who_leaves(name, instances, expected):
    assert " ".join(each.instance.id for each in advice(*instances).evicted) == expected


def test_why_and_where_to():
    """The sum, by how much it is above, and the machine that the profile would take; one that is full is not."""
    found = advice(
        one("p", 8, 4), one("b", 3, 1, "batch"),
        machines=[machine("full", usage={"cpu": 5, "memory": 0}), machine("roomy", usage={"cpu": 0, "memory": 0})],
    )  # fmt: skip
    (left,) = found.evicted
    assert (left.target, left.counted, left.resource) == ("roomy", ("batch", "free"), "cpu")
    assert left.excess == pytest.approx(2.0)
    assert (found.above, found.stay, found.unknown) == (("m",), (), 0)


def test_what_cannot_be_relieved_is_named():
    found = advice(one("p", 8, 5), one("b", 3, 1, "batch", **STAYS))
    assert (found.evicted, found.above, found.stay) == ((), ("m",), ("m",))


def test_old_data_advises_nothing():
    """Nothing is sold there, and nothing that runs is sent away: nobody knows whether higher classes came back."""
    found = advice(one("p", 8, 5), one("b", 3, 1, "batch"), age_s=1000)
    assert (found.evicted, found.above, found.unknown) == ((), (), 1)


def test_a_profile_with_one_sum_has_no_advice():
    offline = fleet(machine("m"))
    plain = parse_profile('[[filters]]\nuse = "fits"', "plain")
    assert evicting(offline.inputs(plain)) is None


INSTANCE = st.tuples(st.sampled_from(("prod", "mid", "batch", "free")), st.integers(1, 6), st.integers(0, 6))


@settings(max_examples=examples(40, 40), deadline=None)
@given(st.lists(INSTANCE, max_size=12), st.integers(0, 4))
def test_what_stays_fits_and_each_that_leaves_is_needed(placed, system):
    """Without those advised every sum of a lower class holds; the advised are of that class, or a lower one."""
    instances = [one(f"i{n}", cpu, use, of) for n, (of, cpu, use) in enumerate(placed)]
    usage = {"cpu": system + sum(use for _, _, use in placed), "memory": 0}
    offline = fleet(machine("m", cpu=20, usage=usage, system={"cpu": system}), instances=instances)
    found = evicting(offline.inputs(PROFILE))
    gone = {each.instance.id for each in found.evicted}
    sums = class_sums(offline.inputs(PROFILE))
    for of, counted in (("free", ("batch", "free")), ("mid", ("mid",))):
        code = ("prod", "mid", "batch", "free").index(of)
        rest = sum(cpu for n, (cls, cpu, _) in enumerate(placed) if cls in counted and f"i{n}" not in gone)
        most = float(sums.most[code, 0, 0])
        assert rest <= most + 1e-6
        if not any(cls in counted for n, (cls, _, _) in enumerate(placed) if f"i{n}" in gone):
            continue
        last = next(each for each in reversed(found.evicted) if each.instance.priority_class in counted)
        assert rest + last.instance.amounts[0] > most or last.instance.priority_class != counted[0]
    assert np.isfinite([each.excess for each in found.evicted]).all()
