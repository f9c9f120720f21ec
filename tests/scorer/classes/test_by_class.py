"""Fits by class: each class is counted against what is there for it, and never together with another."""

import numpy as np
import pytest

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.classes.class_usage import class_usage, measured_usage, prod_and_system
from scorer.classes.prediction import Peaks
from scorer.classes.strategy import Reclaim
from scorer.ledger.record.limits import total
from scorer.ledger.view.residents import Residents
from scorer.placement.choosing.trial import Trial
from scorer.ranking.filters.fits import Fits
from tests.scorer.classes.test_prediction import learned
from tests.scorer.fleets import alone, fleet, machine, passes, request, see, verdicts, why

CPU = RESOURCES.index("cpu")
HALF = Fits(classes=Reclaim(share={"cpu": 0.5}))
"""On 10 cores batch gets 5, less what higher classes and the system use."""


ABOVE = "cpu of {} above what is reclaimable"


def one(name, cpu, use=None, of="prod", on="m", **more):
    usage = {} if use is None else {"usage": {"cpu": use}}
    return {"id": name, "machine": on, "cpu": cpu, "priority_class": of, **usage, **more}


def limit(plugin, of, *instances, **machine_has):
    offline = fleet(machine("m", **({"usage": {"cpu": 3, "memory": 0}} | machine_has)), instances=list(instances))
    asked = request(cpu=1, priority_class=of)
    (found,) = plugin.limit(asked, see(offline, asked, profile=alone(plugin, kind="filter")))
    assert found.measure == total("cpu", *(("batch", "free") if of == "free" else (of,)))
    return round(float(found.most[0]), 9)


@pytest.mark.parametrize(
    ("name", "instances", "machine_has", "expected"),
    [
        ("all that is measured is the system's", [], {}, 2.0),
        ("prod uses less than it asks", [one("p", 8, 2)], {}, 2.0),
        ("prod that is not measured counts as it asks", [one("p", 4)], {}, 1.0),
        ("mid counts as prod does", [one("p", 4, 1, "mid")], {}, 2.0),
        ("what batch uses is not taken off", [one("b", 2, 2, "batch")], {}, 4.0),
        ("what batch is measured by nobody is the system's", [one("b", 2, None, "batch")], {}, 2.0),
        ("what operators keep back", [], {"usage": {"cpu": 1, "memory": 0}, "operator": {"reserve": {"cpu": 3}}}, 2.0),
        ("the system, where its agent says more", [one("p", 1, 1)], {"system": {"cpu": 4}}, 0.0),
        ("the system, where its agent says less", [one("p", 1, 1)], {"system": {"cpu": 1}}, 3.0),
        ("one that keeps its cpu counts as it asks", [one("p", 2, 1, labels={"keeps": "cpu"})], {}, 1.0),
        ("nothing is left", [one("p", 9, 9)], {"usage": {"cpu": 9, "memory": 0}}, 0.0),
        ("no data", [], {"usage": {}}, 0.0),
        ("data as old as may be", [], {"age_s": 900}, 2.0),
        ("data too old", [], {"age_s": 901}, 0.0),
    ],
)
def test_what_batch_may_have(name, instances, machine_has, expected):
    assert limit(HALF, "batch", *instances, **machine_has) == expected
    assert limit(HALF, "free", *instances, **machine_has) == expected


@pytest.mark.parametrize(
    ("name", "instances", "machine_has", "expected"),
    [
        ("prod asks for nothing", [], {}, 0.0),
        ("what prod does not use at its peak, and a tenth more", [one("p", 8, 3)], {}, 4.7),
        ("the day's peak counts", [one("p", 8, 3)], {"peak_today": {"cpu": 5}}, 2.5),
        ("batch has no part in the peak", [one("p", 8, 1), one("b", 2, 2, "batch")], {}, 6.9),
        ("nor has mid itself", [one("p", 8, 1), one("m", 2, 2, "mid")], {}, 6.9),
        ("no more than nobody uses", [one("p", 30, 3)], {"operator": {"ratio": {"cpu": 3}}}, 6.7),
        ("data too old", [one("p", 8, 3)], {"age_s": 901}, 0.0),
    ],
)
def test_what_mid_may_have(name, instances, machine_has, expected):
    assert limit(HALF, "mid", *instances, **machine_has) == expected


def test_mid_goes_by_the_predicted_peaks():
    """8 cores asked less a tenth more than the peaks of prod (0.41 of 10 cores) and of the system (0.1)."""
    histograms, learned_s = learned(1.0, prod=4.0)
    offline = fleet(machine("m", usage={"cpu": 3, "memory": 0}), instances=[one("p", 8, 3)], now=learned_s)
    asked = request(cpu=1, priority_class="mid")
    offline.snapshot.predicted = histograms.peaks()
    (found,) = HALF.limit(asked, see(offline, asked, profile=alone(HALF, kind="filter")))
    peaks = Peaks(offline.snapshot.predicted).of(offline.snapshot.roster, np.array([learned_s]))
    assert float(found.most[0]) == pytest.approx(8 - 1.1 * 10 * peaks[:, CPU, 0].sum(), abs=0.002)
    assert 2.1 < float(found.most[0]) < 2.5


@pytest.mark.parametrize(
    ("asked", "instances", "plugin", "expected"),
    [
        ({"priority_class": "batch", "cpu": 2}, [one("b", 2, 2, "batch")], HALF, []),
        ({"priority_class": "batch", "cpu": 3}, [one("b", 2, 2, "batch")], HALF, [ABOVE.format("batch")]),
        ({"priority_class": "free", "cpu": 3}, [one("b", 2, 2, "batch")], HALF, [ABOVE.format("batch and free")]),
        ({"priority_class": "batch", "cpu": 1}, [one("f", 9, 0, "free")], HALF, []),
        ({"priority_class": "mid", "cpu": 5}, [one("p", 8, 3)], HALF, [ABOVE.format("mid")]),
        ({"priority_class": "mid", "cpu": 1}, [], HALF, ["no cpu to reclaim for mid"]),
        ({"priority_class": "batch", "cpu": 1}, [one("p", 8)], HALF, ["no cpu to reclaim for batch"]),
        ({"cpu": 2}, [one("p", 8, 3)], HALF, []),
        ({"cpu": 2}, [one("p", 8, 3), one("b", 9, 0, "batch")], HALF, []),
        ({"cpu": 3}, [one("p", 8, 3)], HALF, ["too much cpu of prod"]),
        ({"cpu": 3}, [one("p", 8, 3)], Fits(classes=HALF.classes, ratio={"cpu": 1.5}), []),
        ({"cpu": 8}, [one("b", 1, 1, "batch")], HALF, []),
        ({"cpu": 9}, [one("b", 1, 1, "batch")], HALF, ["too much cpu of prod"]),
        ({"cpu": 9}, [], Fits(classes=HALF.classes, basis="requests"), []),
        ({"priority_class": "batch", "memory": 60}, [one("p", 0, memory=50)], HALF, ["too much memory promised"]),
        ({"priority_class": "batch", "cpu": 1, "nic": 1}, [], HALF, ["nic capacity unknown"]),
        ({"cpu": 3}, [one("b", 8, 0, "batch")], Fits(), ["too much cpu promised"]),
    ],
)  # fmt: skip
def test_who_is_refused_by_which_sum(asked, instances, plugin, expected):
    """Usage is 3 of 10 cores; without the setting all classes are one sum."""
    there = machine("m", usage={"cpu": 3, "memory": 0})
    assert why(plugin, there, instances=instances, **asked) == expected


def test_what_lower_classes_use_is_taken_off_each_resource():
    """9 of 10 cores are used, 6 of them by batch, and 60 of 100 bytes, 50 of them by batch: prod's are 3 and 10."""
    busy = machine("m", usage={"cpu": 9, "memory": 60})
    batch = {**one("b", 9, of="batch"), "memory": 50, "usage": {"cpu": 6, "memory": 50}}
    both = Fits(classes=Reclaim(share={"cpu": 0.5, "memory": 0.5}))
    assert why(both, busy, instances=[batch], cpu=7, memory=90) == []
    assert why(both, busy, instances=[batch], cpu=8, memory=90) == ["too much cpu of prod"]
    assert why(both, busy, instances=[batch], cpu=7, memory=91) == ["too much memory of prod"]


def test_old_data_is_named():
    old = machine("m", usage={"cpu": 3, "memory": 0}, age_s=1000)
    assert why(HALF, old, cpu=1, priority_class="batch") == ["nothing to reclaim for batch: data too old"]
    assert passes(HALF, old, cpu=1) == "m"


def test_copies_in_a_batch_fill_the_sum_of_their_class():
    """Two fit on the machine with data and a third nowhere, each copy proposed as the ledger would have it."""
    asked = request(cpu=1, priority_class="batch")
    offline = fleet(machine("m", usage={"cpu": 3, "memory": 0}), machine("n"))
    trial, found = Trial(offline.inputs(alone(HALF, kind="filter"))), []
    for number in range(3):
        found.append(trial.allowed(asked).tolist())
        trial.propose(asked, "m", f"b{number}")
    assert found == [[True, False], [True, False], [False, False]]
    one_by_one = Trial(offline.inputs(alone(HALF, kind="filter")))
    assert one_by_one.together([(asked, 3)]) is None, "sums by class are made anew for each"


def test_it_is_switched_on_in_a_profile_file_and_explained():
    offline = fleet(
        machine("m", usage={"cpu": 3, "memory": 0}), instances=[one("b", 1, 1, "batch"), one("f", 1, 0, "free")]
    )
    found = verdicts(offline, {"use": "fits", "classes": {}}, request(cpu=1, priority_class="free"))["m"]
    assert found["allowed"]
    compared = found["compared"]
    assert (compared["class"], compared["counted"]) == ("free", ["batch", "free"])
    assert (compared["promised"]["cpu"], compared["limit"]["cpu"]) == (2.0, 4.0)
    made_of = {what: compared[what]["cpu"] for what in ("margin", "system", "higher")}
    assert made_of == {"margin": 4.0, "system": 2.0, "higher": 0.0}
    assert "nic" not in compared["margin"]


def test_what_the_limit_of_mid_is_made_of_is_explained():
    """What prod asks for, and the peak that is taken off it: the predicted one with the system's, else the day's."""
    histograms, learned_s = learned(1.0, prod=4.0)
    offline = fleet(machine("m", usage={"cpu": 3, "memory": 0}), instances=[one("p", 8, 3)], now=learned_s)
    asked = request(cpu=1, priority_class="mid")
    by_class = HALF.by_class(see(offline, asked, profile=alone(HALF, kind="filter")))
    told = by_class.detail(0)
    assert (told["prod_asks"]["cpu"], told["peak_of_day"]["cpu"]) == (8.0, 3.0)
    assert "predicted_peak" not in told
    offline.snapshot.predicted = histograms.peaks()
    by_class = HALF.by_class(see(offline, asked, profile=alone(HALF, kind="filter")))
    told = by_class.detail(0)
    assert told["predicted_peak"]["cpu"] == pytest.approx(5.1, abs=0.3)
    assert "peak_of_day" not in told


def test_usage_by_class():
    offline = fleet(
        machine("a", usage={"cpu": 9}, system={"cpu": 1}),
        machine("silent", usage={"cpu": 9}),
        instances=[
            {"id": "one", "machine": "a", "cpu": 4, "usage": {"cpu": 3}},
            {"id": "two", "machine": "a", "cpu": 4, "usage": {"cpu": 2}},
            {"id": "low", "machine": "a", "cpu": 5, "priority_class": "batch", "usage": {"cpu": 2.5, "memory": 7}},
            {"id": "new", "machine": "a", "cpu": 6, "priority_class": "batch"},
            {"id": "old", "machine": "a", "cpu": 7, "priority_class": "mid", "usage": {"cpu": 7}, "usage_age_s": 601},
            {"id": "far", "machine": "silent", "cpu": 1},
        ],
        leavers=[{"id": "gone", "machine": "a", "cpu": 8, "usage": {"cpu": 8}}],
    )
    found = class_usage(offline.snapshot, offline.ledger)
    by_name = dict(zip(PRIORITY_CLASSES, found.used[:, CPU, 0].tolist(), strict=True))
    assert by_name == {"prod": 5.0, "mid": 0.0, "batch": 2.5, "free": 0.0}
    unmeasured = dict(zip(PRIORITY_CLASSES, found.unmeasured[:, CPU, 0].tolist(), strict=True))
    assert unmeasured == {"prod": 0.0, "mid": 7.0, "batch": 6.0, "free": 0.0}
    assert found.system[CPU].tolist()[0] == 1.0
    assert found.measured == 3
    placed = Residents(offline.ledger, offline.snapshot.roster).placed()
    np.testing.assert_equal(measured_usage(offline.snapshot, placed)[CPU], [3, 2, 2.5, np.nan, np.nan, np.nan])
    assert np.isnan(found.used[:, :, 1]).all()
    assert np.isnan(found.system[:, 1]).all()
    assert found.unmeasured[0, CPU].tolist() == [0.0, 1.0]
    np.testing.assert_equal(prod_and_system(found)[:, CPU], [[5.0, np.nan], [1.0, np.nan]])
    assert found.used[PRIORITY_CLASSES.index("batch"), RESOURCES.index("memory"), 0] == 7.0


def test_a_fleet_without_reports_has_no_usage_by_class():
    offline = fleet(machine("a", usage={"cpu": 9}))
    assert np.isnan(class_usage(offline.snapshot, offline.ledger).used).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": {}}, "share: expected at least one resource"),
        ({"share": {"gpu": 0.5}}, "share: no resource 'gpu'"),
        ({"policy": {"nic": "usage"}}, "policy.nic: share names no nic"),
        ({"share": {"cpu": 11.0}}, "share.cpu: expected 0 to 10, got 11.0"),
        ({"mid_share": {"cpu": float("nan")}}, "mid_share.cpu: expected 0 to 10"),
        ({"mid_unallocated": 1.5}, "mid_unallocated: expected 0 to 1"),
        ({"degrade_s": 0}, "degrade_s: expected more than 0"),
        ({"degrade_s": float("inf")}, "degrade_s: expected more than 0"),
        ({"peak_margin": -0.1}, "peak_margin: expected 0 to 10"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        Reclaim(**settings)


def test_only_what_is_named_is_sold_by_class():
    assert Reclaim().rows == [0, 1]
    assert Reclaim(share={"nic": 0.5}).rows == [2]
