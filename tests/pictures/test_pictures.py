"""The drawings: the table of each, in sight; and as they are in docs/pictures."""

from __future__ import annotations

from matplotlib.figure import Figure

from tests.pictures import class_pictures, concept_pictures, planning_pictures
from tests.pictures.__main__ import FOLDER


def test_each_drawing_is_in_git_and_no_other() -> None:
    """``python -m tests.pictures`` writes them."""
    found = concept_pictures.PICTURES | planning_pictures.PICTURES | class_pictures.PICTURES
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(found)


def test_the_picture_of_over_commit_shows_every_row() -> None:
    """Each profile of the results is a point in sight, with its share beside it."""
    axes = Figure().subplots()
    class_pictures.over_commit(axes)
    low, high = axes.get_ylim()
    assert low < 1.05 < high
    shown = [text.get_text() for text in axes.texts]
    assert {"0.6", "0.7", "0.8", "0.9", "windward"} <= set(shown)
    assert all(low < text.xy[1] < high for text in axes.texts if hasattr(text, "xy"))


def test_the_picture_of_the_profiles_shows_each_policy_by_family() -> None:
    """Each has a mark in sight in the column of all worlds."""
    axes = Figure().subplots()
    class_pictures.which_profile(axes)
    low, high = axes.get_ylim()
    marks = [line for line in axes.lines if line.get_marker() not in {"", "None", None} and len(line.get_xdata())]
    assert all(low <= float(line.get_ydata()[0]) <= high for line in marks)
    at = [name for name, *_ in class_pictures.SHOWN].index("all")
    inside = {line.get_marker() for line in marks if abs(float(line.get_xdata()[0]) - at) < 0.5}
    assert inside == {marker for *_, marker in class_pictures.COMPARED}
