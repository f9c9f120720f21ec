"""Processes as ``/proc`` shows them; an instance's main process: by pid file, command line, environment or port."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streams.agent.instance_settings import InstanceSettings
from streams.agent.instances.finders import Command, Environment, PidFile, Port, listening, main_processes
from streams.agent.instances.processes import (
    PAGE_BYTES,
    TICKS_HZ,
    Process,
    counters_of,
    groups_of,
    read_processes,
    with_children,
)


def mains(tree, *finders):
    return main_processes(tree.root, read_processes(tree.root), finders)


def test_pid_files(tree):
    """One by name, several by a star; a file of a process that is gone, or of no number, is none."""
    folder = tree.root / "run/redis"
    folder.mkdir(parents=True)
    for name, text in (("7001", "10\n"), ("7002", "11"), ("7003", "99"), ("7004", "soon")):
        (folder / f"redis-{name}.pid").write_text(text)
    for pid in (10, 11):
        tree.process(pid)
    assert mains(tree, PidFile("/run/redis/redis-*.pid")) == {10: "7001", 11: "7002"}
    assert mains(tree, PidFile("/run/redis/redis-7001.pid", "db-1")) == {10: "db-1"}
    assert mains(tree, PidFile("/run/nowhere/*.pid")) == {}


def test_command_lines(tree):
    """Words joined by spaces; an id that cannot be one is left out."""
    tree.process(10, command="/usr/bin/redis-server 0.0.0.0:7001")
    tree.process(11, command="/usr/bin/redis-server 0.0.0.0:7002")
    tree.process(12, command="vi redis.conf")
    assert mains(tree, Command(re.compile(r"redis-server .*:(\d+)"))) == {10: "7001", 11: "7002"}
    assert mains(tree, Command(re.compile("vi( ).*"))) == {}


def test_environments(tree):
    """The variable itself, not one whose name ends like it."""
    tree.process(10, environ="PATH=/bin INSTANCE=redis-1")
    tree.process(11, environ="MY_INSTANCE=redis-2")
    assert mains(tree, Environment("INSTANCE")) == {10: "redis-1"}


def test_a_pid_file_comes_first(tree):
    (tree.root / "a.pid").write_text("10")
    tree.process(10, command="redis-server :1", environ="I=second")
    tree.process(11, command="redis-server :2", environ="I=third")
    given = InstanceSettings(instance_command=(r":(\d)",), instance_environ="I", instance_pid_file=("first=/a.pid",))
    assert mains(tree, *given.found.finders) == {10: "first", 11: "2"}


def test_sockets_that_listen():
    text = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1B59 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0
   1: 0100007F:1B5A 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1
"""
    assert listening(text) == {"4242": 7001}


def test_a_real_process_is_found_by_command_environment_and_port():
    """On the real ``/proc``: a process of our own user, so that no privilege is asked for."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        code = "import sys; print(1, flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", code, f"--instance=db-{port}"]
        environ = {**os.environ, "WINDWARD_TEST_INSTANCE": f"env-{port}"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, env=environ, pass_fds=[server.fileno()], **pipes) as child:
            child.stdout.readline()
            processes = read_processes(Path("/"))
            alone = {child.pid: processes[child.pid]}
            found = [
                main_processes(Path("/"), alone, [finder])
                for finder in (
                    Command(re.compile(r"--instance=(\S+)")), Environment("WINDWARD_TEST_INSTANCE"), Port("p-{port}"),
                )
            ]  # fmt: skip
            child.stdin.close()
    assert found == [{child.pid: f"db-{port}"}, {child.pid: f"env-{port}"}, {child.pid: f"p-{port}"}]


@pytest.mark.parametrize("path", ["/proc/net/tcp", "/proc/net/tcp6"])
def test_the_real_table_of_sockets_is_read(path):
    if Path(path).exists():
        assert all(0 < port < 65_536 for port in listening(Path(path).read_text()).values())


def test_a_process_with_a_hard_name_is_read(tree):
    """Brackets and spaces in it; a process that is half gone is left out."""
    tree.process(7, parent=3, cpu_ticks=5 * TICKS_HZ, pages=4, start=99)
    (tree.root / "proc/8").mkdir()
    assert read_processes(tree.root) == {7: Process(7, 3, 99, 5.0, 4 * PAGE_BYTES)}


def test_children_belong_to_the_instance_that_started_them(tree):
    for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 10), (21, 20), (30, 1)):
        tree.process(pid, parent)
    found = with_children({10: "a", 20: "b", 99: "gone"}, read_processes(tree.root))
    assert {name: sorted(one.pid for one in members) for name, members in found.items()} == {
        "a": [10, 11, 12], "b": [20, 21],
    }  # fmt: skip


def test_processes_count_together_and_once():
    a, b = Process(1, 0, 5, 2.0, 100), Process(2, 1, 6, 3.0, 50)
    counters = counters_of([a, b, a])
    assert (counters.cpu_s, counters.memory) == ({(1, 5): 2.0, (2, 6): 3.0}, 150.0)


def test_control_groups_of_processes(tree):
    tree.process(7, group="system.slice/redis.service")
    tree.process(8, group="../../system.slice/a.service/")
    assert groups_of(tree.root, [7, 8, 9]) == {"system.slice/redis.service", "system.slice/a.service"}


def test_this_process_is_read_as_it_is():
    """On the real ``/proc``: parent, CPU time and memory of the process that runs this test."""
    spent = time.process_time()
    found = read_processes(Path("/"))[os.getpid()]
    assert found.parent == os.getppid()
    assert abs(found.cpu_s - spent) < 1.0
    assert found.memory > 5e6
