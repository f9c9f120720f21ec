"""Windows and state go from release to release and back: what either wrote, the other reads right or not at all.

The other side is the previous release itself, which knows cpu, memory and nic by position and looks at no name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.resources import RESOURCES
from schemas.sample import Moments, Usage, encode
from schemas.window_table import WindowTable, decode_table
from scorer.snapshot.builder import build_snapshot
from tests.previous_release import PreviousRelease, previous_release
from tests.streams import resume_state as worker
from tests.streams.batches import sample

LATER = RESOURCES[3:]
SNAPSHOT = """
import sys
from pathlib import Path
import numpy as np
from schemas.window_table import decode_table
from scorer.snapshot import build_snapshot
folder = Path(sys.stdin.read())
snapshot = build_snapshot([decode_table((folder / "table").read_bytes())], {}, {})
view = snapshot.view()
np.savez(folder / "seen.npz", names=np.array(snapshot.names), capacity=snapshot.capacity, mean=view.mean, std=view.std,
    filled=view.filled, coverage=view.coverage, percentile=snapshot.picked("percentile", view),
    today=snapshot.column("peak_today"))
"""


@pytest.fixture(scope="module")
def release() -> PreviousRelease:
    """The previous release."""
    return previous_release()


def lines(machine: str, slots: range, *, later: bool) -> list[str]:
    """Messages of one machine: cpu, memory and nic, and the resources of today if ``later``."""
    found = []
    for slot in slots:
        more = {name: Moments(10, 0.1 + slot % 5 / 10, 0.2, 0.9, 1.0) for name in (LATER if later else ())}
        usage = {"prod": Usage(**dict.fromkeys((*RESOURCES[:3], *(LATER if later else ())), 0.25))}
        found.append(encode(sample(machine, slot, nic=Moments(9, 5.0, 1.0, 7.0, 1e9), classes=usage, **more)).decode())
    return found


def resume_old(release: PreviousRelease, folder: Path, more: list[str]) -> WindowTable:
    """Let a worker of the previous release go on; return its table."""
    release.python(Path(worker.__file__).read_text(), json.dumps({"folder": str(folder), "lines": more}))
    return decode_table((folder / "table").read_bytes())


def seen_by_old(release: PreviousRelease, folder: Path) -> dict[str, NDArray[Any]]:
    """What a scorer of the previous release makes of the table there."""
    release.python(SNAPSHOT, str(folder))
    with np.load(folder / "seen.npz") as seen:
        return dict(seen)


def seen_by_new(folder: Path) -> dict[str, NDArray[Any]]:
    """The same of this release."""
    snapshot = build_snapshot([decode_table((folder / "table").read_bytes())], {}, {})
    view = snapshot.windows()
    return {
        "names": np.array(snapshot.names), "capacity": snapshot.capacity, "mean": view.mean, "std": view.std,
        "filled": view.filled, "coverage": view.coverage, "percentile": snapshot.picked("percentile", view),
        "today": snapshot.column("peak_today"),
    }  # fmt: skip


def assert_same(old: Mapping[str, NDArray[Any]], new: Mapping[str, NDArray[Any]]) -> None:
    """The previous release sees what this one sees of cpu, memory and nic."""
    assert old["names"].tolist() == new["names"].tolist()
    for name, values in old.items():
        wanted = new[name] if new[name].ndim == 1 else new[name][:3]
        np.testing.assert_array_equal(values, wanted, err_msg=name)


def test_an_old_scorer_reads_its_resources_from_a_new_table(release: PreviousRelease, tmp_path: Path) -> None:
    """Every figure of cpu, memory and nic is the one this release sees, also where a machine is warming in disk."""
    everything = lines("a", range(400), later=True) + lines("b", range(380), later=False)
    worker.resume_state(tmp_path, everything + lines("b", range(380, 400), later=True))
    new = seen_by_new(tmp_path)
    assert new["mean"].shape == (len(RESOURCES), 2)
    assert np.isfinite(new["mean"]).all()
    assert_same(seen_by_old(release, tmp_path), new)


def test_an_old_worker_goes_on_from_new_state_and_a_new_one_from_its(release: PreviousRelease, tmp_path: Path) -> None:
    """Upgrade, rollback, upgrade: cpu, memory and nic as if one worker had run; disk begins anew, never made up."""
    first, second, third = (
        lines("a", part, later=True) + lines("b", part, later=False)
        for part in (range(200), range(200, 300), range(300, 340))
    )
    whole, turns = tmp_path / "whole", tmp_path / "turns"
    whole.mkdir()
    turns.mkdir()
    worker.resume_state(turns, first)
    old = resume_old(release, turns, second)
    assert "further_mean" not in old.columns
    assert_same(seen_by_old(release, turns), seen_by_new(turns))
    worker.resume_state(turns, third)
    worker.resume_state(whole, first + second + third)
    expected, got = seen_by_new(whole), seen_by_new(turns)
    for name, values in got.items():
        cut = np.s_[:] if values.ndim == 1 else np.s_[:3]
        np.testing.assert_array_equal(values[cut], expected[name][cut], err_msg=name)
    assert (got["filled"][3:] == [40, 0]).all()
    np.testing.assert_array_equal(np.isnan(got["mean"][3:]), [[False, True]] * len(LATER))


def test_a_new_worker_goes_on_from_old_state(release: PreviousRelease, tmp_path: Path) -> None:
    """What was measured before the upgrade counts on; the new resource begins with it and makes no machine warming."""
    resume_old(release, tmp_path, lines("a", range(380), later=False))
    before = seen_by_new(tmp_path)
    assert np.isnan(before["mean"][3:]).all()
    worker.resume_state(tmp_path, lines("a", range(380, 390), later=True))
    after = seen_by_new(tmp_path)
    assert after["filled"][:, 0].tolist() == [360, 360, 360, *[10] * len(LATER)]
    assert after["coverage"].tolist() == [1.0]
    np.testing.assert_allclose(after["mean"][3:, 0], np.mean([0.1 + s % 5 / 10 for s in range(380, 390)]))


def test_an_old_workers_table_stands_beside_a_new_ones(release: PreviousRelease, tmp_path: Path) -> None:
    """One snapshot of both: each machine has what its worker measured."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    tables = [resume_old(release, old, lines("a", range(60), later=True))]
    worker.resume_state(new, lines("b", range(60), later=True))
    tables.append(decode_table((new / "table").read_bytes()))
    for order in (tables, tables[::-1]):
        snapshot = build_snapshot(order, {}, {})
        a, b = snapshot.roster.index["a"], snapshot.roster.index["b"]
        mean = snapshot.windows().mean
        np.testing.assert_array_equal(mean[:3, a], mean[:3, b])
        assert np.isnan(mean[3:, a]).all()
        np.testing.assert_allclose(mean[3:, b], 0.3)
        np.testing.assert_array_equal(snapshot.column("class_mean")[0, 0, :3, a], 0.25)


def test_an_old_worker_takes_a_new_agents_sample(release: PreviousRelease) -> None:
    """The resources it does not know are passed over."""
    (line,) = lines("a", range(1), later=True)
    code = "import sys; from schemas.sample import decode, encode; "
    code += "print(encode(decode(sys.stdin.read().encode())).decode())"
    got = msgspec.json.decode(release.python(code, line))
    wanted = msgspec.json.decode(line)
    assert got == {name: value for name, value in wanted.items() if name not in LATER} | {
        "classes": {"prod": dict.fromkeys(RESOURCES[:3], 0.25)}
    }


def test_an_old_worker_passes_over_a_report_of_instances(release: PreviousRelease) -> None:
    """A sample with a part of a report is the sample without it: nothing of a new agent is refused."""
    (line,) = lines("a", range(1), later=False)
    report = {"at": json.loads(line)["at"], "interval_s": 60.0, "entries": {"redis-1": {"cpu": 0.5, "memory": 1e9}}}
    code = "import sys; from schemas.sample import decode, encode; "
    code += "print(encode(decode(sys.stdin.read().encode())).decode())"
    with_report = json.dumps(json.loads(line) | {"instance_report": report})
    assert release.python(code, with_report) == release.python(code, line)
