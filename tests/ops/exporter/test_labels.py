"""Label keys become valid label names; what would hide another is refused."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.exporter.selection import label_name, label_names


@settings(deadline=None)
@given(st.text())
def test_every_key_becomes_a_valid_name(key: str) -> None:
    """Prometheus takes it, and does not drop it as one of its own."""
    name = label_name(key)
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name)
    assert not name.startswith("__")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        pytest.param(("a.b", "a-b"), "'a.b' and 'a-b' would both be the label a_b", id="two-alike"),
        pytest.param(("zone", "zone"), "'zone' and 'zone' would both", id="twice"),
        pytest.param(("machine",), "'machine' would be the label machine, which is taken", id="ours"),
        pytest.param(("fleet",), "which is taken", id="the-fleet"),
        pytest.param(("instance",), "which is taken", id="prometheus"),
    ],
)
def test_collisions_are_refused(keys: tuple[str, ...], said: str) -> None:
    """The message names the setting and both keys."""
    with pytest.raises(ValueError, match=r"^labels: ") as error:
        label_names(keys)
    assert said in str(error.value)


def test_names_are_kept_by_key() -> None:
    """A valid key stays as it is."""
    assert label_names(("zone", "topology.kubernetes.io/region")) == {
        "zone": "zone",
        "topology.kubernetes.io/region": "topology_kubernetes_io_region",
    }
