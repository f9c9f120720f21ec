"""A table that is one test."""

import pytest

from tests.rows import each_row

SEEN = []


@each_row("left", [1, 2])
@each_row(("right", "total"), [(1, 2), pytest.param(2, 3, id="two")])
def test_each_row_of_each_table_is_tried(left, right, total, tmp_path):
    assert tmp_path
    SEEN.append((left, right))
    assert SEEN[-1] == [(1, 1), (1, 2), (2, 1), (2, 2)][len(SEEN) - 1]
    assert total == right + 1


def test_every_row_that_fails_is_named():

    @each_row("number", range(4), ids=["none", "assertion", "zero", "silent"])
    def check(number):
        assert number != 1
        if number == 3:
            with pytest.raises(ValueError, match="x"):
                pass
        assert 1 / (number - 2)

    with pytest.raises(BaseExceptionGroup, match="3 of 4 rows failed") as failed:
        check()
    notes = [error.__notes__ for error in failed.value.exceptions]
    assert notes == [["row: assertion"], ["row: zero"], ["row: silent"]]


def test_a_row_that_is_skipped_skips_no_other():
    tried = []

    @each_row("number", [1, 2, 3])
    def check(number):
        tried.append(number)
        if number == 2:
            pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception, match=r"1 of 3 rows: .*: not here"):
        check()
    assert tried == [1, 2, 3]


def test_a_table_without_rows_is_refused():
    with pytest.raises(ValueError, match="has rows"):
        each_row("number", [])
