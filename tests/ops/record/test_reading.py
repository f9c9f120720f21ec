"""A recording read from one moment to another."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from ops.record.figures import pack
from ops.record.folder import HOUR_S, Folder
from ops.record.frames import HEADER, RecordingError, frame
from ops.record.reading import LATE_S, extent, steps
from schemas.resources import RESOURCES
from tests.ops.record.entries import figures, first, later

HOUR = 480_000 * HOUR_S


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three hours: an entry at each quarter; a restart in the second."""
    folder = Folder(tmp_path, 2**24)
    folder.take()
    for quarter in range(12):
        at = HOUR + quarter * HOUR_S / 4
        if quarter == 6:
            folder.close()
        if folder.begins(at):
            folder.write(first(at, pairs=[f"m\tq{quarter}"], usage=pack(figures([0], [at], [quarter]))))
        else:
            folder.write(later(at))
    folder.release()
    return tmp_path


def test_reading_begins_with_the_whole_state_before_the_first_moment(recording: Path) -> None:
    """At the first file of its hour; it ends where nothing can come any more that is of the time asked for."""
    found = [step.entry.at for step in steps(recording, HOUR + 1.8 * HOUR_S, HOUR + 2 * HOUR_S)]
    assert found[0] == HOUR + HOUR_S
    assert found[-1] == HOUR + 2.75 * HOUR_S
    assert len(list(steps(recording, HOUR - 5, HOUR + 3 * HOUR_S))) == 12
    assert not list(steps(recording, HOUR - 2 * LATE_S, HOUR - 2 * LATE_S + 1))
    assert extent(recording) == (HOUR, HOUR + 2.75 * HOUR_S)


def test_names_are_those_of_the_file(recording: Path) -> None:
    """Row 0 is another pair in each of them."""
    names = [step.pairs[step.usage.row[0]] for step in steps(recording, 0, 1e11)]
    assert names == ["m\tq0"] * 4 + ["m\tq4"] * 2 + ["m\tq6"] * 2 + ["m\tq8"] * 4


def test_resources_go_by_name(tmp_path: Path) -> None:
    """Those of another release: one it did not know is not known, one that is gone is left out."""
    given = figures([0], [HOUR], np.arange(1, len(RESOURCES) + 1)[:, None])
    entry = msgspec.structs.replace(
        first(HOUR, pairs=["m\ta"], usage=pack(given)), resources=["gpu", *reversed(RESOURCES[1:])]
    )
    (tmp_path / "2024-10-04T00-0001.record").write_bytes(HEADER + frame(entry))
    (step,) = steps(tmp_path, 0, 1e11)
    assert np.isnan(step.usage.values[0, 0])
    assert step.usage.values[1:, 0].tolist() == list(range(len(RESOURCES), 1, -1))


@pytest.mark.parametrize(
    ("what", "entry"),
    [
        ("a row beyond the names", first(HOUR, usage=pack(figures([7], [HOUR], [1.0])))),
        ("no resources", msgspec.structs.replace(later(HOUR), pairs=["m\ta"])),
        ("no time", first(HOUR, pairs=["a"], usage=msgspec.structs.replace(later(HOUR).usage, origin_s=float("inf")))),
    ],
)
def test_figures_that_cannot_be_are_refused(tmp_path: Path, what: str, entry: object) -> None:
    """With file and place."""
    (tmp_path / "2024-10-04T00-0001.record").write_bytes(HEADER + frame(entry))  # type: ignore[arg-type]
    with pytest.raises(RecordingError, match=r"2024-10-04T00-0001\.record: the figures .* byte"):
        list(steps(tmp_path, 0, 1e11))


def test_no_recording_is_told(tmp_path: Path) -> None:
    """By the folder's name."""
    with pytest.raises(RecordingError, match="holds no recording"):
        extent(tmp_path)
