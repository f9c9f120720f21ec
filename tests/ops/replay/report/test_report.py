"""The tables of worlds with batch."""

from __future__ import annotations

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


def test_worlds_without_batch_have_the_tables_they_had() -> None:
    """Also where only some have."""
    mixed = [*RESULTS, result("one", "c", 0.0, by_class=False)]
    assert tables(mixed, "one")[0].title.startswith("all 3 worlds, after the fill: ratios to one")
    assert "instances on hot" in [column.title for column in tables(mixed, "one")[0].columns]
