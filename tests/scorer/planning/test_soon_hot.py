"""Soon hot: which machine comes before which, and what the chance of load above the limit may be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.planning.soon_hot import FLOOR, LIMIT, SPREAD, chances, margins

share, spread = st.floats(0, 1.2), st.floats(0, 0.5)


def margin(recent, mean, std, limit=LIMIT):
    return margins(np.array([recent]), np.array([mean]), np.array([std]), limit)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param((0.6, 0.5, 0.1), (0.5, 0.5, 0.1), id="rising before steady"),
        pytest.param((0.5, 0.5, 0.1), (0.4, 0.5, 0.1), id="steady before falling"),
        pytest.param((0.6, 0.6, 0.1), (0.5, 0.5, 0.1), id="high before low"),
        pytest.param((0.5, 0.5, 0.2), (0.5, 0.5, 0.1), id="below the limit: restless before calm"),
        pytest.param((0.8, 0.8, 0.0), (0.8, 0.8, 0.2), id="above the limit: calm before restless"),
        pytest.param((0.9, 0.9, 0.0), (0.8, 0.8, 0.0), id="both certain: the higher one"),
        pytest.param((0.65, 0.65, 0.1), (0.9, 0.5, 0.02), id="level before a jump of the last minutes"),
    ],
)
def test_order(first, then):
    """The machine that is hot sooner has the lower margin, and at least the chance."""
    before, after = margin(*first), margin(*then)
    assert before < after
    assert chances(before) >= chances(after)


@pytest.mark.parametrize(
    ("recent", "mean", "std", "limit", "within_s", "chance"),
    [
        pytest.param(0.7, 0.7, 0.1, 0.7, 900.0, 0.5, id="at the limit, one look: even"),
        pytest.param(0.7, 0.7, 0.1, 0.7, 3600.0, 1 - 0.5**4, id="at the limit, four looks"),
        pytest.param(0.2, 0.2, 0.0, 0.7, 3600.0, 0.0, id="far below"),
        pytest.param(0.9, 0.9, 0.0, 0.7, 3600.0, 1.0, id="far above"),
        pytest.param(0.8, 0.6, 0.0, 0.65, 900.0, 0.5, id="a quarter of the trend counts"),
        pytest.param(0.5, 0.5, np.sqrt(0.04 - FLOOR**2) / SPREAD, 0.7, 900.0, 0.15866, id="one deviation away"),
    ],
)
def test_chance(recent, mean, std, limit, within_s, chance):
    assert chances(margin(recent, mean, std, limit), within_s).item() == pytest.approx(chance, abs=1e-4)


@given(share, share, spread, st.floats(0, 0.2), st.floats(1, 3_600), st.floats(0, 3_600))
def test_laws(recent, mean, std, more, within_s, longer_s):
    plain = chances(margin(recent, mean, std), within_s)
    assert 0 <= plain <= 1
    assert chances(margin(recent + more, mean, std), within_s) >= plain
    assert chances(margin(recent, mean + more, std), within_s) >= plain
    assert chances(margin(recent, mean, std, LIMIT - more), within_s) >= plain
    assert chances(margin(recent, mean, std), within_s + longer_s) >= plain


def test_unknown_load():
    found = chances(margins(np.array([np.nan, 0.9]), np.array([np.nan, 0.9]), np.array([np.nan, 0.0])))
    assert np.isnan(found[0])
    assert found[1] == 1
