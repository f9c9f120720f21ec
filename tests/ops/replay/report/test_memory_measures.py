"""Memory of the worlds: its figures, its columns, its load."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.simulation import simulate
from ops.replay.report.comparison import MEMORY_RATIOS, Result
from ops.replay.report.measures import measure
from ops.replay.report.memory_measures import memory_figures
from ops.replay.report.report import FORMATS, markdown
from ops.replay.traces.openb import Lives
from ops.replay.workload import Workload
from ops.replay.worlds.worlds import Shape, build_world
from schemas.resources import CPU, MEMORY
from scorer.ranking.profiles.catalogue import load_profiles
from tests.ops.replay.small_worlds import small_world, waves


def with_memory(load: float) -> Workload:
    """A world of three machines whose memory is used as its cores are, to this share."""
    lives = Lives(np.array([600.0, 1_200.0, 3_600.0]), np.array([1.0, 2.0, 4.0]), np.full(3, 2.0**32))
    shape = Shape(machines=3, days=1, per_machine=8, memory=True, memory_load=load)
    return build_world(replace(waves(), memory=waves().cpu), lives, shape, 1)


def test_figures() -> None:
    """Two machines of 10 and 20 bytes, four minutes, of which the first is not asked about."""
    load = np.array([[[9.0] * 4] * 2, [[99.0, 5.0, 9.5, 12.0], [99.0, 10.0, 10.0, 10.0]]])
    fleet = SimpleNamespace(
        measured=np.array([CPU, MEMORY]), load=load, capacity=np.array([[10.0, 10.0], [10.0, 20.0]])
    )
    found = memory_figures(SimpleNamespace(fleet=fleet), 1, 4)  # type: ignore[arg-type]
    assert found == pytest.approx({"mem_std": (0.0 + 0.225 + 0.25) / 3, "mem90": 2 / 6, "mem100": 1 / 6})
    assert tuple(found) == MEMORY_RATIOS


def test_a_world_without_memory_has_none() -> None:
    """And one with memory has them beside the others."""
    profile = load_profiles(()).choose("kubernetes")
    assert MEMORY_RATIOS[0] not in measure(simulate(small_world(machines=3), ProfilePolicy(profile)))["steady"]
    assert set(MEMORY_RATIOS) <= measure(simulate(with_memory(0.6), ProfilePolicy(profile)))["steady"].keys()


@pytest.mark.parametrize(("memory", "columns"), [(True, 1), (False, 0)])
def test_columns(memory: bool, columns: int) -> None:
    """The tables show memory where every result has it."""
    figures = dict.fromkeys(FORMATS, 0.1) | (dict.fromkeys(MEMORY_RATIOS, 0.25) if memory else {})
    results = [Result("f", 1, name, False, {"steady": figures}) for name in ("a", "b")]
    page = markdown(results, "a")
    assert page.count("memory above 90 %") == 2 * columns
    assert page.count("25.00%") == 6 * columns


def test_the_load_of_memory_is_that_of_the_shape() -> None:
    """Twice the load is twice the use of every instance that is not cut."""
    low, high = with_memory(0.2), with_memory(0.4)
    ratio = np.median(high.usage.scale[MEMORY] / low.usage.scale[MEMORY])
    assert ratio == pytest.approx(2.0, rel=0.05)
