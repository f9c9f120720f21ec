"""The process of a planner, before it runs: nothing connects."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.process.settings import SettingsError
from scorer.planner.__main__ import process
from scorer.planner.settings import PlannerSettings
from scorer.rpc import parts


def test_profiles_that_the_rounds_refuse_are_not_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At SIGHUP all stays as it was, queries too: what is given for the rounds does not go with the new profile."""
    file = tmp_path / "mine.toml"
    made: list[parts.Current] = []

    class Current(parts.Current):
        def __post_init__(self) -> None:
            super().__post_init__()
            made.append(self)

    monkeypatch.setattr(parts, "Current", Current)
    text = '[[filters]]\nuse = "cordon"\n[[scores]]\nuse = "balanced_allocation"\n[rebalance]\nlow = {{ cpu = {} }}\n'
    file.write_text(text.format(20))
    found = process(PlannerSettings(profiles=(file,), profile="mine", high={"cpu": 50.0}), {})
    assert found.read_again is not None
    before = made[0].profiles
    found.read_again()
    assert made[0].profiles.digest == before.digest
    file.write_text(text.format(60))
    with pytest.raises(SettingsError, match=r"low.cpu: expected at most 50"):
        found.read_again()
    assert made[0].profiles.digest == before.digest
