"""Fuzzing, at a size for every run; ``python -m tests.streams.fuzz_decoder`` does a million."""

import random

import pytest

from tests.effort import effort
from tests.rows import each_row
from tests.streams.fuzz_decoder import MUTATIONS, REASONS, fuzz, good_message


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_every_mutated_message_is_counted_once_and_nothing_breaks(seed: int) -> None:
    """No crash; each message is accepted, duplicate, late, facts or rejected with a reason; all reasons occur."""
    messages = effort(10_000, 500_000)
    result = fuzz(messages, seed)
    assert result["counted"] == result["messages"] == messages
    seen = {name.partition(":")[2] for name in result["counts"] if name.startswith("rejected")}
    assert seen == REASONS
    assert min(result["counts"][name] for name in ("accepted", "duplicate", "late", "facts")) > 100


@each_row("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_every_mutation_changes_messages(mutation: object) -> None:
    """A mutation that does nothing would test nothing."""
    rng = random.Random(1)
    changed = 0
    for _ in range(50):
        raw = good_message(rng, 1e9)
        changed += mutation(rng, raw) != raw  # type: ignore[operator]
    assert changed >= 10
