"""Figures packed and unpacked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ops.record.figures import Figures, pack, rounded, unpack
from tests.ops.record.entries import figures

counts = st.integers(0, 30)


@given(data=st.data(), count=counts, resources=st.integers(1, 5))
def test_what_is_packed_is_unpacked_equal(data: st.DataObject, count: int, resources: int) -> None:
    """Rows as they are, times to a thousandth of a second, values to 11 binary digits, unknown ones unknown."""
    values = data.draw(
        arrays(np.float32, (resources, count), elements=st.floats(0, 2.0**53, width=32) | st.just(np.nan))
    )
    given = Figures(
        data.draw(arrays(np.int64, count, elements=st.integers(0, 2**31))),
        1.7e9 + data.draw(arrays(np.float64, count, elements=st.floats(0, 1e5))),
        data.draw(arrays(np.float64, count, elements=st.floats(0, 7200))),
        values,
    )
    found = unpack(pack(given), resources)
    np.testing.assert_array_equal(found.row, given.row)
    np.testing.assert_allclose(found.until_s, given.until_s, rtol=0, atol=0.001)
    np.testing.assert_allclose(found.seconds, given.seconds, rtol=0, atol=0.001)
    np.testing.assert_array_equal(found.values, rounded(values))
    np.testing.assert_allclose(found.values, values, rtol=2**-11, atol=1e-37)


def test_rounding_is_done_once() -> None:
    """What was read from a recording may be recorded again without a change."""
    values = rounded(np.random.default_rng(1).uniform(0, 1e9, 1000).astype(np.float32))
    np.testing.assert_array_equal(rounded(values), values)


def test_columns_that_do_not_fit_are_refused() -> None:
    """A value error, whatever the bytes are."""
    packed = pack(figures([0, 1], [5.0, 6.0], [2.0, 3.0]))
    with pytest.raises(ValueError, match="2 rows"):
        unpack(packed, 3)
    with pytest.raises(ValueError, match="whole number"):
        unpack(type(packed)(0.0, packed.row[:-1], packed.until, packed.seconds, packed.values), 4)
