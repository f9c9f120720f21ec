"""Results of earlier runs: what is read, and what a wrong file is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from ops.replay.report.comparison import read_results
from ops.replay.workload import WorkloadError
from tests.rows import each_row

FIGURES = dict.fromkeys(("std", "hot80", "hot90", "hot100", "lost", "on_hot", "refused_first"), 0.5)
WORLD = {"family": "a", "seed": 1, "policy": "p", "reference": False, "steady": FIGURES}
EXPECTED = "; expected what `windward replay --json` prints"


def test_the_worlds_of_a_file_are_read(tmp_path: Path) -> None:
    """With their stages, the fill first; figures that are new are kept."""
    world = {**WORLD, "steady": {**FIGURES, "new": 2}, "fill": FIGURES, "resolution": 0.25, "note": "x"}
    (tmp_path / "r.json").write_text(json.dumps({"worlds": [world], "missing": []}))
    (found,) = read_results(tmp_path / "r.json")
    assert (found.family, found.seed, found.policy, found.reference, found.resolution) == ("a", 1, "p", False, 0.25)
    assert list(found.stages) == ["fill", "steady"]
    assert found.stages["steady"]["new"] == 2.0


@each_row(
    ("changed", "message"),
    [
        ({"seed": "x"}, "worlds[0].seed: expected a whole number, got text" + EXPECTED),
        ({"steady": [1]}, "worlds[0].steady: expected an object, got a list" + EXPECTED),
        ({"steady": {**FIGURES, "std": -1}}, "worlds[0].steady[...]: expected a number of 0 or more" + EXPECTED),
        ({"steady": {"std": 1.0}}, "worlds[0].steady: has no hot80"),
        ({"fill": {}}, "worlds[0].fill: has no std"),
        ({"resolution": 0}, "worlds[0].resolution: expected a number above 0" + EXPECTED),
        ({"resolution": float("nan")}, "JSON is malformed: invalid character (byte 205)" + EXPECTED),
    ],
)
def test_a_wrong_world_is_told_where(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    """By file, world and field."""
    (tmp_path / "r.json").write_text(json.dumps({"worlds": [{**WORLD, **changed}]}))
    with pytest.raises(WorkloadError) as caught:
        read_results(tmp_path / "r.json")
    assert str(caught.value) == f"r.json: {message}"


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b'{"worlds": null}', b'{"worlds": ' + b"[" * 100_000])
def test_another_file_is_refused(tmp_path: Path, raw: bytes) -> None:
    """In one line."""
    (tmp_path / "r.json").write_bytes(raw)
    with pytest.raises(WorkloadError, match=r"^r.json: .*; expected what `windward replay --json` prints$"):
        read_results(tmp_path / "r.json")
