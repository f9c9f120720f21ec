"""A made-up machine: its /proc from files, its /sys/class/net written by the test."""

from pathlib import Path

import psutil
import pytest

PROC = Path(__file__).parents[2] / "proc"


@pytest.fixture
def use_proc(monkeypatch):
    """Return a function that makes psutil read one of the folders of tests/proc."""
    return lambda moment: monkeypatch.setattr(psutil, "PROCFS_PATH", str(PROC / moment))


class Sysfs:
    def __init__(self, folder):
        self.folder = folder

    def add(
        self, name, *, physical=True, speed="1000", state="up", master=None, bond=False, virtual_function=False, **more
    ):
        """Add one interface; its master must be there already. ``more``: further files, as the kernel writes them."""
        interface = self.folder / name
        interface.mkdir(parents=True)
        (interface / "operstate").write_text(state + "\n")
        if speed is not None:
            (interface / "speed").write_text(speed + "\n")
        if physical or virtual_function:
            (interface / "device").mkdir()
        if virtual_function:
            (interface / "device" / "physfn").mkdir()
        for file, content in more.items():
            if file == "subsystem":
                (self.folder.parent / "bus" / content).mkdir(parents=True, exist_ok=True)
                (interface / "device" / file).symlink_to(self.folder.parent / "bus" / content)
            else:
                (interface / ("device/sfnum" if file == "sfnum" else file)).write_text(content + "\n")
        if bond:
            (interface / "bonding").mkdir()
        if master:
            (interface / "master").symlink_to(self.folder / master)
        return self


@pytest.fixture
def sysfs(tmp_path):
    return Sysfs(tmp_path / "net")
