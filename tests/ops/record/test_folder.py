"""Files by hour: closed, cut, bounded, written by one process only; a recording read from one moment to another."""

import os
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest

from ops.record.entry import HEADER, Entry, Position, RecordingError, frame, pack, read_frames
from ops.record.folder import HOUR_S, LATE_S, OPEN, Folder, extent, files, hour_of, is_recording, steps
from schemas.resources import RESOURCES
from tests.ops.record.entries import figures, first, later

HOUR = 480_000 * HOUR_S


@contextmanager
def taken(path, bytes_max=2**24):
    """A folder that is ours; at the end it is left as by a process that was killed."""
    folder = Folder(path, bytes_max)
    folder.take()
    try:
        yield folder
    finally:
        for handle in (folder._file, folder._lock):
            if handle is not None:
                handle.close()


def noise(at, size):
    return Entry(at=at, operator={"m": os.urandom(size)})


def entries(folder):
    return [read.entry for path in files(folder) for read in read_frames(path.read_bytes(), path.name)]


def test_an_hour_is_a_file_that_is_complete_when_it_is_over(tmp_path):
    folder = Folder(tmp_path, 2**24)
    assert folder.take() is None
    written = [first(HOUR), later(HOUR + 60), first(HOUR + HOUR_S)]
    for entry in written:
        assert folder.begins(entry.at) == entry.full
        folder.write(entry)
    assert [path.name.endswith(OPEN) for path in files(tmp_path)] == [False, True]
    assert [hour_of(path) for path in files(tmp_path)] == [HOUR, HOUR + HOUR_S]
    folder.release()
    assert not [path for path in files(tmp_path) if path.name.endswith(OPEN)]
    assert entries(tmp_path) == written
    assert is_recording(tmp_path)


@pytest.mark.parametrize("cut", [0, 1, 20, 10**6])
def test_a_killed_process_loses_the_end_of_its_open_file_at_most(tmp_path, cut):
    """The next one cuts the file behind its last whole entry, and goes on from its position in a file of its own."""
    position = Position("t", {"0": 5}, "e", 9, "1-1")
    whole = [first(HOUR), Entry(at=HOUR + 1, position=position)]
    with taken(tmp_path) as killed:
        for entry in whole:
            killed.write(entry)
    (path,) = files(tmp_path)
    with path.open("ab") as file:
        file.write(frame(later(HOUR + 2))[: -1 - cut] if cut else b"")
    following = Folder(tmp_path, 2**24)
    assert following.take().position == position
    assert following.begins(HOUR + 3)
    following.write(first(HOUR + 3))
    following.release()
    assert entries(tmp_path) == [*whole, first(HOUR + 3)]
    assert [path.name[14:18] for path in files(tmp_path)] == ["0001", "0002"]
    assert files(tmp_path)[0].read_bytes() == HEADER + b"".join(map(frame, whole))


def test_the_oldest_files_make_room(tmp_path):
    """All together are never more than the bound; a file is complete when it has a quarter of it."""
    with taken(tmp_path, 100_000) as folder:
        for number in range(60):
            folder.write(noise(HOUR + 600 * number, 9_000))
            assert folder.size() <= 100_000
        assert folder.removed > 0
    kept = [entry.at for entry in entries(tmp_path)]
    assert kept == sorted(kept)
    assert kept[-1] == HOUR + 600 * 59
    assert len(kept) >= 6


def test_an_entry_that_is_too_large_is_refused_by_name(tmp_path):
    """The setting is named, and nothing is removed for it."""
    with taken(tmp_path, 50_000) as folder:
        folder.write(noise(HOUR, 5_000))
        with pytest.raises(RecordingError, match="record_bytes"):
            folder.write(noise(HOUR + 1, 40_000))
    assert len(entries(tmp_path)) == 1


def test_after_an_error_the_same_entry_is_written_again(tmp_path):
    """Behind what was whole: a half written frame is cut off."""
    with taken(tmp_path) as folder:
        folder.write(first(HOUR))
        folder._file.write(b"half of a frame" * 1_000)
        folder.write(later(HOUR + 1))
    assert files(tmp_path)[0].read_bytes() == HEADER + frame(first(HOUR)) + frame(later(HOUR + 1))


def test_only_one_process_writes(tmp_path):
    with taken(tmp_path), pytest.raises(RecordingError, match="record_dir"):
        Folder(tmp_path, 2**24).take()
    with taken(tmp_path):
        pass


def test_a_damaged_file_does_not_keep_a_recorder_from_starting(tmp_path):
    """It goes on from the newest entry that can be read."""
    (tmp_path / "2026-11-22T09-0001.record").write_bytes(HEADER + frame(first(1.0)))
    (tmp_path / "2026-11-22T10-0001.record").write_bytes(b"rubbish")
    (tmp_path / "notes.txt").write_text("not ours")
    folder = Folder(tmp_path, 2**24)
    last = folder.take()
    folder.release()
    assert last.at == 1.0


def test_a_folder_that_cannot_be_used_is_told(tmp_path):
    with pytest.raises(RecordingError, match="holds no recording"):
        extent(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="record_dir"):
        Folder(tmp_path / "file", 2**24).take()
    with pytest.raises(RecordingError, match="cannot be read"):
        files(tmp_path / "nowhere")


@pytest.fixture
def recording(tmp_path):
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


def test_reading_begins_with_the_whole_state_before_the_first_moment(recording):
    """At the first file of its hour; it ends where nothing can come any more that is of the time asked for."""
    found = [step.entry.at for step in steps(recording, HOUR + 1.8 * HOUR_S, HOUR + 2 * HOUR_S)]
    assert found[0] == HOUR + HOUR_S
    assert found[-1] == HOUR + 2.75 * HOUR_S
    assert len(list(steps(recording, HOUR - 5, HOUR + 3 * HOUR_S))) == 12
    assert not list(steps(recording, HOUR - 2 * LATE_S, HOUR - 2 * LATE_S + 1))
    assert extent(recording) == (HOUR, HOUR + 2.75 * HOUR_S)


def test_names_are_those_of_the_file(recording):
    names = [step.pairs[step.usage.row[0]] for step in steps(recording, 0, 1e11)]
    assert names == ["m\tq0"] * 4 + ["m\tq4"] * 2 + ["m\tq6"] * 2 + ["m\tq8"] * 4


def test_resources_go_by_name(tmp_path):
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
def test_figures_that_cannot_be_are_refused(tmp_path, what, entry):
    (tmp_path / "2024-10-04T00-0001.record").write_bytes(HEADER + frame(entry))
    with pytest.raises(RecordingError, match=r"2024-10-04T00-0001\.record: the figures .* byte"):
        list(steps(tmp_path, 0, 1e11))
