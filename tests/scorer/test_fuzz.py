"""Fuzzing of what callers and operators write, at a size for every run; `WINDWARD_TEST_LONG=1` does more."""

import pytest

from tests.effort import effort, examples
from tests.scorer import fuzz_files, fuzz_usage
from tests.scorer.rpc import fuzz_queries


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_every_mutated_query_is_answered_in_words(seed):
    """No crash and no slow one; queries of every method are answered, and refused."""
    queries = effort(1_000, 100_000)
    counts = fuzz_queries.fuzz(queries, seed)["counts"]
    assert sum(counts.values()) == queries
    for outcome in ("answered:place", "answered:rank", "answered:instances", "refused:INVALID_ARGUMENT"):
        assert counts[outcome] > queries // 500, outcome


@pytest.mark.long
def test_every_mutated_profile_and_fleet_file_is_read_or_refused():
    files = examples(300, 20_000)
    counts = fuzz_files.fuzz(files)
    assert counts.total() == 3 * files
    outcomes = [f"{what} {how}" for what in ("profile", "fleet", "wanted") for how in ("read", "refused")]
    assert min(counts[name] for name in outcomes) > files // 50


@pytest.mark.long
def test_every_mutated_table_of_usage_is_read_or_refused():
    tables = examples(300, 20_000)
    counts = fuzz_usage.fuzz(tables)
    assert counts.total() == tables
    assert min(counts["read"], counts["refused"]) > tables // 20
