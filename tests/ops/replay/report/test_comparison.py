"""Ratios to the baseline, with intervals over the worlds; the tables of worlds with batch; results of earlier runs."""

import json
import math

import pytest
from msgspec.structs import replace

from ops.replay.report.comparison import CLASS_RATIOS, Result, as_json, compare, once, ratio_of, read_results
from ops.replay.report.report import BY_CLASS, LOAD, markdown, ratios, tables
from ops.replay.workload import WorkloadError

FIGURES = {"std": 1.0, "hot80": 0.0, "hot90": 0.0, "hot100": 0.0, "lost": 0.0, "on_hot": 0.0, "refused_first": 0.0}


def result(policy, seed, std, family="a"):
    return Result(family, seed, policy, False, {**FIGURES, "std": std})


def test_the_interval_is_students_on_logs():
    """Worlds of ratio 0.5 and 2: the mean is 1, t of one degree of freedom makes the interval wide; one has none."""
    found = ratio_of([(1.0, 2.0), (2.0, 1.0)], 0.0)
    assert found.ratio == pytest.approx(1.0)
    assert found.high == pytest.approx(math.exp(12.706 * math.log(2)), rel=1e-3)
    assert found.low == pytest.approx(1 / found.high)
    assert str(ratio_of([(1.0, 2.0)], 0.0)) == "0.50"


def test_worlds_are_paired():
    """A policy twice as good in each world has exactly that ratio, however different the worlds are."""
    results = [
        result(policy, seed, std * seed) for seed in (1, 2, 3) for policy, std in (("base", 2.0), ("better", 1.0))
    ]
    rows = {row.policy: row for row in compare(results, "base")}
    assert str(rows["better"].ratios["std"]) == "0.50 [0.50, 0.50]"
    assert rows["better"].figures["std"] == 2.0


def test_families_are_judged_one_by_one():
    """A gain in one family does not hide a loss in another."""
    values = {"a": 0.5, "b": 2.0}
    results = [result("base", 1, 1.0, family) for family in values]
    results += [result("new", 1, std, family) for family, std in values.items()]
    found = as_json(results, "base")["comparison"]["steady"]
    assert [found[family][1]["ratios"]["std"]["ratio"] for family in ("a", "b", "all")] == pytest.approx(
        [0.5, 2.0, 1.0]
    )


def test_no_hot_minute_at_all_is_a_ratio_of_one():
    rows = compare([result("base", 1, 1.0), result("new", 1, 1.0)], "base")
    assert rows[1].ratios["hot90"].ratio == pytest.approx(1.0)


def test_a_policy_counts_once_in_a_world_and_references_come_last():
    """Runs in parts have the references twice; a policy that met fewer worlds says how many."""
    reference = Result("a", 1, "chance", True, FIGURES)
    results = [result("base", 1, 1.0), reference, result("base", 2, 1.0), result("new", 1, 0.5), reference]
    rows = compare(once([*results, result("base", 1, 9.0)]), "base")
    assert [(row.policy, row.worlds) for row in rows] == [("base", 2), ("new", 1), ("chance", 1)]
    assert rows[0].figures["std"] == 1.0


def test_a_figure_that_some_worlds_lack_has_no_mean():
    results = [result("base", 1, 1.0), Result("a", 2, "base", False, {**FIGURES, "mem_std": 0.5})]
    (row,) = compare(results, "base")
    assert row.figures.keys() == FIGURES.keys()


def mixed_result(policy, family, hosted, *, by_class=True):
    figures = dict.fromkeys((*LOAD.formats, *BY_CLASS.formats) if by_class else LOAD.formats, 0.5)
    return Result(family, 1, policy, False, figures | ({"hosted": hosted} if by_class else {}), resolution=0.0)


RESULTS = [
    mixed_result(policy, family, hosted) for policy, hosted in (("one", 0.8), ("two", 1.0)) for family in ("a", "b")
]


def test_what_is_hosted_is_compared():
    """The baseline's row has its figures, the others ratios; each family is shown by itself."""
    found = tables(RESULTS, "one")
    assert [one.title.partition(":")[0] for one in found] == [
        "all 2 worlds, after the fill", "the figures themselves, means over the worlds", "a", "b",
    ]  # fmt: skip
    first = found[0]
    assert len(first.columns) == len(CLASS_RATIOS) + 3
    assert [line[:2] for line in first.lines] == [["one", "0.80"], ["two", "1.25 [1.25, 1.25]"]]
    assert "| two | 1.25 [1.25, 1.25] | 1.00 [1.00, 1.00] |" in markdown(RESULTS, "one")


def test_nothing_is_compared_where_all_policies_have_the_same_figures():
    """As with one instance. And the ratio of nothing to nothing is a dash in any table."""
    alike = [mixed_result(policy, "a", 0.0, by_class=False) for policy in ("one", "two")]
    first = tables(alike, "one")[0]
    assert "; too few instances to compare: every policy has the same figures" in first.title
    assert first.lines[1][:4] == ["two", "-", "-", "-"]
    figures = dict.fromkeys(LOAD.formats, 0.5) | {"hot90": 0.0}
    differing = [Result("a", 1, policy, False, figures | {"std": std}) for policy, std in (("one", 1.0), ("two", 2.0))]
    first = tables(differing, "one")[0]
    assert "too few" not in first.title
    assert first.lines[1][:4] == ["two", "~2.00", "-", "~1.00"]


@pytest.mark.parametrize(
    ("stds", "cell", "title"),
    [
        ([0.5], "~0.50", "ratios to base; lower is better; ~: too little to tell, one world has no interval"),
        ([0.5, 0.5], "0.50 [0.50, 0.50]", "ratios to base, 95 % intervals; lower is better"),
        (
            [0.5, 0.6, 1.5], "~0.77 [0.18, 3.31]",
            "ratios to base, 95 % intervals; lower is better; ~: too little to tell, the interval has 1 in it",
        ),
    ],
)  # fmt: skip
def test_what_is_too_little_to_tell_is_said(stds, cell, title):
    """One world has no interval; an interval with 1 in it tells neither better nor worse."""
    worlds = list(enumerate(stds))
    results = [result("base", seed, 1.0) for seed, _ in worlds] + [result("new", seed, std) for seed, std in worlds]
    shown = LOAD._replace(formats={"std": ".3f", "refused_first": ".2%"}, compared=("std",))
    found = ratios(compare(results, "base"), "base", "worlds", shown)
    assert (found.lines[1][1], found.title.removeprefix("worlds: ")) == (cell, title)


def test_why_instances_were_refused_is_a_table():
    """By policy over all worlds, the three most frequent reasons; without a refusal there is no such table."""
    some = [replace(one, refusals={"stale": 2, "taint": 1, "a": 3, "b": 4}) if one.policy == "one" else one
            for one in RESULTS]  # fmt: skip
    found = tables(some, "one")[2]
    assert found.title.startswith("why instances were refused first")
    assert found.lines == [["one", "8 b, 6 a, 4 stale"], ["two", "none"]]
    assert not any("why" in one.title for one in tables(RESULTS, "one"))


def test_worlds_without_batch_have_the_tables_they_had():
    mixed = [*RESULTS, mixed_result("one", "c", 0.0, by_class=False)]
    assert tables(mixed, "one")[0].title.startswith("all 3 worlds, after the fill: ratios to one")
    assert "instances on hot" in [column.title for column in tables(mixed, "one")[0].columns]


OF_FILE = dict.fromkeys(("std", "hot80", "hot90", "hot100", "lost", "on_hot", "refused_first"), 0.5)
WORLD = {"family": "a", "seed": 1, "policy": "p", "reference": False, "steady": OF_FILE}
EXPECTED = "; expected what `windward replay --json` prints"


def test_the_worlds_of_a_file_are_read(tmp_path):
    world = {**WORLD, "steady": {**OF_FILE, "new": 2}, "fill": OF_FILE, "resolution": 0.25, "note": "x"}
    world["refusals"] = {"stale": 2}
    (tmp_path / "r.json").write_text(json.dumps({"worlds": [world], "missing": []}))
    (found,) = read_results(tmp_path / "r.json")
    assert (found.family, found.seed, found.policy, found.reference, found.resolution) == ("a", 1, "p", False, 0.25)
    assert list(found.stages) == ["fill", "steady"]
    assert found.refusals == {"stale": 2}
    assert found.stages["steady"]["new"] == 2.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": "x"}, "worlds[0].seed: expected a whole number, got text" + EXPECTED),
        ({"steady": [1]}, "worlds[0].steady: expected an object, got a list" + EXPECTED),
        ({"steady": {**OF_FILE, "std": -1}}, "worlds[0].steady[...]: expected a number of 0 or more" + EXPECTED),
        ({"steady": {"std": 1.0}}, "worlds[0].steady: has no hot80"),
        ({"fill": {}}, "worlds[0].fill: has no std"),
        ({"resolution": 0}, "worlds[0].resolution: expected a number above 0" + EXPECTED),
        ({"resolution": float("nan")}, "JSON is malformed: invalid character (byte 205)" + EXPECTED),
    ],
)
def test_a_wrong_world_is_told_where(tmp_path, changed, message):
    (tmp_path / "r.json").write_text(json.dumps({"worlds": [{**WORLD, **changed}]}))
    with pytest.raises(WorkloadError) as caught:
        read_results(tmp_path / "r.json")
    assert str(caught.value) == f"r.json: {message}"


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b'{"worlds": null}', b'{"worlds": ' + b"[" * 100_000])
def test_another_file_is_refused(tmp_path, raw):
    (tmp_path / "r.json").write_bytes(raw)
    with pytest.raises(WorkloadError, match=r"^r.json: .*; expected what `windward replay --json` prints$"):
        read_results(tmp_path / "r.json")
