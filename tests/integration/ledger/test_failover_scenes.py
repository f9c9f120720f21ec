"""What was acknowledged is kept while servers behind sentinels are killed, frozen and cut off."""

from pathlib import Path

import pytest

from schemas.names import Names
from tests.support.scenes import CUT_ALONE, CUT_WITH_ONE, FREEZE, KILL, Scene

AGAIN_S = 3.0
"""After the sentinels' decision, or when as many replicas follow as answers wait for, every client has placed."""


@pytest.mark.parametrize(
    ("acknowledged_by", "failures"),
    [
        pytest.param(2, (KILL, FREEZE) * 3, id="all", marks=pytest.mark.slow),
        pytest.param(2, (CUT_ALONE, CUT_WITH_ONE) * 2, id="all-cut", marks=pytest.mark.slow),
        pytest.param(1, (KILL, FREEZE) * 3, id="one", marks=pytest.mark.slow),
    ],
)
def test_what_was_acknowledged_is_kept(
    tmp_path: Path, names: Names, acknowledged_by: int, failures: tuple[str, ...]
) -> None:
    """Nothing is lost or doubled, no limit is broken, the sums are right; placing goes on within 3 s."""
    with Scene(tmp_path, names, acknowledged_by) as scene:
        for how in failures:
            scene.fail(how)
        verdict = scene.end()
    assert verdict.faults == []
    assert max(scene.again_s) < AGAIN_S, scene.again_s


@pytest.mark.slow
@pytest.mark.parametrize(("acknowledged_by", "how"), [(0, CUT_ALONE), (1, CUT_WITH_ONE)], ids=["none", "one"])
def test_what_a_cut_loses_is_named(tmp_path: Path, names: Names, acknowledged_by: int, how: str) -> None:
    """A primary that keeps as many replicas as answers wait for goes on beside the next one: what it did is lost."""
    with Scene(tmp_path, names, acknowledged_by) as scene:
        scene.fail(how)
        verdict = scene.end()
    assert verdict.lost
    assert not (verdict.doubled or verdict.over or verdict.wrong), verdict.faults
    assert max(scene.again_s) < AGAIN_S, scene.again_s
