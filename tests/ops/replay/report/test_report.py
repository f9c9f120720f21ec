"""The tables of worlds with batch."""

from ops.replay.report.comparison import CLASS_RATIOS, Result
from ops.replay.report.report import BY_CLASS, LOAD, markdown, tables


def result(policy: str, family: str, hosted: float, *, by_class: bool = True) -> Result:
    """One world of one policy."""
    figures = dict.fromkeys((*LOAD.formats, *BY_CLASS.formats) if by_class else LOAD.formats, 0.5)
    return Result(family, 1, policy, False, {"steady": figures | ({"hosted": hosted} if by_class else {})}, 0.0)


RESULTS = [result(policy, family, hosted) for policy, hosted in (("one", 0.8), ("two", 1.0)) for family in ("a", "b")]


def test_what_is_hosted_is_compared() -> None:
    """The baseline's row has its figures, the others ratios; each family is shown by itself."""
    found = tables(RESULTS, "one")
    assert [one.title.partition(":")[0] for one in found] == [
        "all 2 worlds, after the fill", "the figures themselves, means over the worlds", "a", "b",
    ]  # fmt: skip
    first = found[0]
    assert len(first.columns) == len(CLASS_RATIOS) + 3
    assert [line[:2] for line in first.lines] == [["one", "0.80"], ["two", "1.25 [1.25, 1.25]"]]
    assert "| two | 1.25 [1.25, 1.25] | 1.00 [1.00, 1.00] |" in markdown(RESULTS, "one")


def test_nothing_is_compared_where_all_policies_have_the_same_figures() -> None:
    """As with one instance. And the ratio of nothing to nothing is a dash in any table."""
    alike = [result(policy, "a", 0.0, by_class=False) for policy in ("one", "two")]
    first = tables(alike, "one")[0]
    assert "; too few instances to compare: every policy has the same figures" in first.title
    assert first.lines[1][:4] == ["two", "-", "-", "-"]
    figures = dict.fromkeys(LOAD.formats, 0.5) | {"hot90": 0.0}
    differing = [
        Result("a", 1, policy, False, {"steady": figures | {"std": std}})
        for policy, std in (("one", 1.0), ("two", 2.0))
    ]
    first = tables(differing, "one")[0]
    assert "too few" not in first.title
    assert first.lines[1][:4] == ["two", "2.00", "-", "1.00"]


def test_worlds_without_batch_have_the_tables_they_had() -> None:
    """Also where only some have."""
    mixed = [*RESULTS, result("one", "c", 0.0, by_class=False)]
    assert tables(mixed, "one")[0].title.startswith("all 3 worlds, after the fill: ratios to one")
    assert "instances on hot" in [column.title for column in tables(mixed, "one")[0].columns]
