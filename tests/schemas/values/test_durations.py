"""Durations as people write them."""

from __future__ import annotations

import pytest

from schemas.values.durations import parse_duration
from tests.rows import each_row


@each_row("text", ["1_0", "1_0s", "\uff15m", "\uff15", "\u0661s", "inf", "nan", "1e", "1e3s", "1 h", "1h 30m", ""])
def test_a_duration_has_plain_digits(text: str) -> None:
    """What Python's numbers read besides is no duration."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@each_row("value, seconds", [(1e-05, 1e-05), ("1e3", 1000.0), (".5", 0.5), ("2.", 2.0), (1e16, 1e16), ("-3", -3.0)])
def test_a_bare_number_is_seconds(value: float | str, seconds: float) -> None:
    """Also with an exponent, as a number is printed."""
    assert parse_duration(value) == seconds
