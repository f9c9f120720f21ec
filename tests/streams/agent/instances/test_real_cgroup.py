"""A control group of this machine's own kernel: a process in it uses CPU, and the agent's reading says so."""

import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from streams.agent.instances.cgroup import find_root, read_cgroup
from streams.agent.instances.meter import Found, Meter

BUSY_S = 0.3
WORK = f"""
import sys, time
sys.stdin.readline()
begin = time.process_time()
held = bytearray(32 << 20)
held[::4096] = b"x" * len(held[::4096])
while time.process_time() < begin + {BUSY_S}:
    pass
print(time.process_time() - begin, flush=True)
sys.stdin.readline()
"""
"""Waits for a line, uses a known time of CPU and 32 MiB, says how much it was, and waits to be ended."""


def writable_root() -> Path | None:
    """Where a group can be made; None: nowhere."""
    root = find_root(Path("/"))
    return root if root is not None and os.access(root, os.W_OK) and os.geteuid() == 0 else None


pytestmark = pytest.mark.skipif(
    writable_root() is None, reason="NOT RUN: no control groups of version 2 in which this user may make one"
)


@pytest.fixture
def group() -> Iterator[Path]:
    """A new group, with the memory controller where this kernel's version 2 has it."""
    root = writable_root()
    assert root is not None
    if "memory" in (root / "cgroup.controllers").read_text().split():
        with suppress(OSError):  # a root that is not the machine's own may not pass it on
            (root / "cgroup.subtree_control").write_text("+memory")
    path = root / f"measured-{uuid.uuid4().hex[:12]}.service"
    path.mkdir()
    try:
        yield path
    finally:
        path.rmdir()


def test_what_a_process_in_a_group_uses_is_what_is_read(group: Path) -> None:
    """CPU time as the process itself counts it; memory where its controller is on; the id is the unit's name."""
    meter = Meter(Found(cgroup_root=group.parent), lambda _: (None, None), Counter())
    with subprocess.Popen(
        [sys.executable, "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        (group / "cgroup.procs").write_text(str(child.pid))
        before = meter.read(0.0)
        child.stdin.write("\n")
        child.stdin.flush()
        used_s = float(child.stdout.readline())
        counters, now = read_cgroup(group), meter.read(10.0)
        child.stdin.write("\n")
        child.stdin.close()
        assert child.wait(30) == 0
    own = now.instances[group.stem]
    assert own.cpu_s is not None
    cpu = meter.between(before, now, 10.0).entries[group.stem].cpu
    assert cpu == pytest.approx(used_s / 10.0, rel=0.25)  # the kernel counts what the interpreter does around it, too
    assert cpu >= BUSY_S / 10.0 * 0.95
    if (group / "memory.current").exists():
        assert counters.memory is not None
        assert counters.memory >= 32 << 20
    else:
        assert counters.memory is None
