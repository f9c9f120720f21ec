"""Ratios to the baseline, with intervals over the worlds."""

import math

import pytest

from ops.replay.report.comparison import Result, as_json, compare, once, ratio_of

FIGURES = {"std": 1.0, "hot80": 0.0, "hot90": 0.0, "hot100": 0.0, "lost": 0.0, "on_hot": 0.0, "refused_first": 0.0}


def result(policy: str, seed: int, std: float, family: str = "a") -> Result:
    """One world of one policy."""
    return Result(family, seed, policy, False, {"steady": {**FIGURES, "std": std}})


def test_the_interval_is_students_on_logs() -> None:
    """Two worlds of ratio 0.5 and 2: the mean is 1 and t of one degree of freedom makes the interval wide."""
    found = ratio_of([(1.0, 2.0), (2.0, 1.0)], 0.0)
    assert found.ratio == pytest.approx(1.0)
    assert found.high == pytest.approx(math.exp(12.706 * math.log(2)), rel=1e-3)
    assert found.low == pytest.approx(1 / found.high)


def test_a_single_world_has_no_interval() -> None:
    """Nothing is claimed of the spread."""
    assert str(ratio_of([(1.0, 2.0)], 0.0)) == "0.50"


def test_worlds_are_paired() -> None:
    """A policy twice as good in each world has exactly that ratio, however different the worlds are."""
    results = [
        result(policy, seed, std * seed) for seed in (1, 2, 3) for policy, std in (("base", 2.0), ("better", 1.0))
    ]
    rows = {row.policy: row for row in compare(results, "base")}
    assert str(rows["better"].ratios["std"]) == "0.50 [0.50, 0.50]"
    assert rows["better"].figures["std"] == 2.0


def test_families_are_judged_one_by_one() -> None:
    """A gain in one family does not hide a loss in another."""
    values = {"a": 0.5, "b": 2.0}
    results = [result("base", 1, 1.0, family) for family in values]
    results += [result("new", 1, std, family) for family, std in values.items()]
    found = as_json(results, "base")["comparison"]["steady"]
    assert [found[family][1]["ratios"]["std"]["ratio"] for family in ("a", "b", "all")] == pytest.approx(
        [0.5, 2.0, 1.0]
    )


def test_no_hot_minute_at_all_is_a_ratio_of_one() -> None:
    """Both have none."""
    rows = compare([result("base", 1, 1.0), result("new", 1, 1.0)], "base")
    assert rows[1].ratios["hot90"].ratio == pytest.approx(1.0)


def test_a_policy_counts_once_in_a_world_and_references_come_last() -> None:
    """Runs in parts have the references twice; a policy that met fewer worlds says how many."""
    reference = Result("a", 1, "chance", True, {"steady": FIGURES})
    results = [result("base", 1, 1.0), reference, result("base", 2, 1.0), result("new", 1, 0.5), reference]
    rows = compare(once([*results, result("base", 1, 9.0)]), "base")
    assert [(row.policy, row.worlds) for row in rows] == [("base", 2), ("new", 1), ("chance", 1)]
    assert rows[0].figures["std"] == 1.0


def test_a_figure_that_some_worlds_lack_has_no_mean() -> None:
    """Where a world has no memory, the mean of the others is not that of all."""
    results = [result("base", 1, 1.0), Result("a", 2, "base", False, {"steady": {**FIGURES, "mem_std": 0.5}})]
    (row,) = compare(results, "base")
    assert row.figures.keys() == FIGURES.keys()
