"""The plot of an answer."""

from __future__ import annotations

from typing import Any

from scorer.commands.placing.plot import save_plot
from scorer.commands.shared.in_words import answer_of
from tests.scorer.fleets import fleet, machine
from tests.scorer.ranking.rankings import mixed, ranked


def test_a_plot_is_a_png(tmp_path: Any) -> None:
    """The candidates are drawn into a PNG file, and so is an answer without any."""
    for name, offline in (("some", fleet(machine("m", usage={"cpu": 1, "memory": 1}))), ("none", mixed())):
        path = tmp_path / f"{name}.png"
        save_plot(answer_of(ranked(offline, cpu=1)), path)
        assert path.read_bytes().startswith(b"\x89PNG")
