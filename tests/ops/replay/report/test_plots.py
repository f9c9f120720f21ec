"""The page of plots, as data of its panels and as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.simulation import Outcome, simulate
from ops.replay.report.plots import binned, save_page
from scorer.ranking.profiles.catalogue import load_profiles
from tests.ops.replay.small_worlds import world

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def outcome(minutes: int) -> Outcome:
    """One machine, and two instances of which one has no room."""
    small = world([4.0], [(3.0, 2.0, 0, minutes), (3.0, 1.0, 1, 60)], minutes)
    return simulate(small, ProfilePolicy(load_profiles(()).choose("windward")))


def panels(outcomes: list[Outcome], path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Axes]:
    """The panels of the page drawn of these."""
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    made = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), made(self, *a, **k)))
    save_page(outcomes, path)
    return drawn[0].axes


def test_a_short_workload_has_its_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One shorter than a bin is one bin."""
    bands, heatmap = panels([outcome(7)], tmp_path / "page.png", monkeypatch)[:2]
    assert bands.lines[0].get_xydata().tolist() == [[3.5 / 60, 0.5]]
    assert heatmap.images[0].get_array().tolist() == [[0.5]]
    assert binned(np.array([1.0, 3.0])).tolist() == [2.0]


def test_refusals_are_shown_from_the_first_hour_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where none was refused."""
    refusals = panels([outcome(120)], tmp_path / "page.png", monkeypatch)[-1]
    assert refusals.lines[0].get_xydata().tolist() == [[0.0, 0.0], [1 / 60, 1.0], [2.0, 1.0]]
    assert refusals.get_xlim() == (0.0, 2.0)
    assert refusals.get_ylim()[0] == 0.0


def test_an_interrupted_drawing_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before all is drawn."""
    page = tmp_path / "page.png"
    page.write_bytes(b"before")

    def interrupted(self: object, to: object, **settings: object) -> None:
        target = to.open("wb") if isinstance(to, Path) else to
        target.write(b"half")  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_page([outcome(7)], page)
    assert page.read_bytes() == b"before"
