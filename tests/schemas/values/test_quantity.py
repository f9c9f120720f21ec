"""Amounts with suffixes."""

import contextlib
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.values.numbers import parse_duration
from schemas.values.quantity import parse_quantity

SUFFIXES = {
    "m": 1e-3,
    "K": 1e3,
    **{suffix: 10 ** (3 * power) for power, suffix in enumerate(("", *"kMGTP"))},
    **{f"{suffix}i": 2 ** (10 * power) for power, suffix in enumerate("KMGTP", 1)},
}

GOOD = [
    (0, 0.0),
    (2, 2.0),
    (0.25, 0.25),
    ("0", 0.0),
    ("2", 2.0),
    ("2.5", 2.5),
    (".5", 0.5),
    ("500m", 0.5),
    ("1500m", 1.5),
    ("10k", 10_000.0),
    ("10K", 10_000.0),
    ("10G", 1e10),
    ("10Gi", 10 * 2.0**30),
    ("1.5Gi", 1.5 * 2**30),
    ("1Pi", 2.0**50),
    ("2Ei", 2.0**61),
    ("2E", 2e18),
    ("500u", 500 * 1e-6),
    ("100n", 100 * 1e-9),
    ("1e3", 1000.0),
    ("+2", 2.0),
    ("1.", 1.0),
    ("1.G", 1e9),
    (".0001k", 0.1),
    ("00", 0.0),
    ("0n", 0.0),
    ("0Ki", 0.0),
    ("3m", 0.003),
    ("4u", 4e-6),
    ("1E", 1e18),
    ("1E6", 1e6),
    ("1E-3", 0.001),
    ("1.3E+6", 1.3e6),
    ("0.5e-1", 0.05),
    ("1.01E", 1.01e18),
    ("100.035Ki", 102_435.84),
    ("0.025Ti", 0.025 * 2**40),
    ("6.987654321G", 6_987_654_321.0),
    ("80e-3", 0.08),
]


@pytest.mark.parametrize(("value", "wanted"), GOOD, ids=[repr(value) for value, _ in GOOD])
def test_amounts_are_in_base_units(value, wanted):
    """Decimal suffixes are powers of ten, those with ``i`` powers of two, ``m`` is a thousandth.

    Sources: ``TestQuantityParse`` of quantity_test.go (k8s.io/apimachinery); ``K`` and numbers are Windward's own.
    """
    assert parse_quantity(value) == wanted


WORDS = """
G Gi i two 2Q 2g 2GB 2gib 2iG 2mm 2Gm 2,5 1G1 0x10 -1 -1m nan inf -inf infi 1e400 1e308P 1_000 1_0m 1e3Ki
1e3m 1E3G 1e-3G 1.1.M 1+1.0M 0.1mi 0.1am .5i 1i 3.01e- 1e 1e3e3 1EE 1ki 1Mb 1e3.5 ++1 1- . .m 1,000 1'000
0b1 1k5 infinity
"""
BAD = [
    *WORDS.split(),
    *[
        "",
        " ",
        "1 Gi",
        "2 G",
        "1\tGi",
        "1\xa0Gi",
        " 1",
        "1 ",
        "1\n",
        "\uff11\uff12",
        "\u0661\u0662\u0663m",
        "1\uff11Gi",
    ],
    *(-1, -1e-09, math.nan, math.inf),
]
"""Among them what Python's ``float`` reads and Kubernetes refuses, and the tables of ``resource.ParseQuantity``
(k8s.io/apimachinery, ``quantity_test.go``)."""


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_what_is_no_amount_is_refused_by_value(value):
    with pytest.raises(ValueError, match="is not a") as error:
        parse_quantity(value)
    assert repr(value) in str(error.value)


@given(number=st.floats(0, 1e12), suffix=st.sampled_from(sorted(SUFFIXES)))
def test_a_suffix_multiplies(number, suffix):
    """Any number with any suffix is that number times what the suffix stands for."""
    assert parse_quantity(f"{Decimal(number):f}{suffix}") == pytest.approx(number * SUFFIXES[suffix], rel=1e-15)


@given(text=st.text(max_size=12))
def test_any_text_is_an_amount_or_refused(text):
    try:
        amount = parse_quantity(text)
    except ValueError as error:
        assert repr(text) in str(error)
    else:
        assert math.isfinite(amount)
        assert amount >= 0


@given(text=st.text(alphabet="0123456789.kKMGTPmi -+eE", max_size=8))
def test_text_that_looks_like_an_amount_is_one_or_refused(text):
    with contextlib.suppress(ValueError):
        assert parse_quantity(text) >= 0


@pytest.mark.parametrize(
    "text", ["1_0", "1_0s", "\uff15m", "\uff15", "\u0661s", "inf", "nan", "1e", "1e3s", "1 h", "1h 30m", ""]
)
def test_a_duration_has_plain_digits(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    "value, seconds", [(1e-05, 1e-05), ("1e3", 1000.0), (".5", 0.5), ("2.", 2.0), (1e16, 1e16), ("-3", -3.0)]
)
def test_a_bare_number_is_seconds(value, seconds):
    assert parse_duration(value) == seconds
