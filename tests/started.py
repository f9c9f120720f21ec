"""Scorers for tests, started in a tenth of the time: forked from a process that has imported everything.

A start of Python with the scorer's imports takes 0.7 s of a core, and the tests start some sixty scorers. Here each
test process has a server that forks twice and ends the process between. Linux gives the orphan to the nearest process
above that asked for orphans (PR_SET_CHILD_SUBREAPER). So the scorer is a child of the test's own process, which signals
it and waits for it like any other. The tests of a whole stack start scorers as users do.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ops.stack.servers.process import wait_until

PR_SET_CHILD_SUBREAPER = 36


class Started:
    """A child of this process; what tests use of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code; raises TimeoutExpired."""
        until = time.monotonic() + (timeout if timeout is not None else 3600)
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("scorer", timeout or 3600)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def start_scorer(arguments: Sequence[str], environ: Mapping[str, str]) -> Started:
    """Start ``python -m scorer`` with these arguments and environment, and with the files of this process."""
    address, libc = _server(), ctypes.CDLL(None)
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(server, [b"f"], [1, 2])
            server.sendall(json.dumps([list(arguments), str(Path.cwd()), dict(environ)]).encode() + b"\n")
            with server.makefile("rb") as answer:
                pid = int(answer.readline())  # told once the process between has ended
        finally:
            libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    return Started(pid)


@cache
def _server() -> str:
    """Start this process's server; return its address."""
    folder = tempfile.TemporaryDirectory(prefix="windward-")
    address = f"{folder.name}/server"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.started", address], stdin=subprocess.PIPE, cwd=Path(__file__).parents[1]
    )
    wait_until(Path(address).exists, 60, "the server of scorers listens")

    def end() -> None:
        server.kill()
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    return address


def serve(address: str) -> None:
    """Fork for each connection, until the process that started this one has ended."""
    import scorer.__main__  # noqa: F401

    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of Ctrl-C: the test process ends this one
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address + ".new")
        server.listen()
        os.rename(address + ".new", address)  # noqa: PTH104
        while server in select.select([server, 0], [], [])[0]:
            asking, _ = server.accept()
            with asking:
                between = os.fork()
                if between == 0:
                    pid = os.fork()
                    if pid == 0:
                        server.close()
                        _run(asking)
                    os.write(asking.fileno(), f"{pid}".encode())
                    os._exit(0)
                os.waitpid(between, 0)
                asking.sendall(b"\n")


def _run(asking: socket.socket) -> None:
    """Be the scorer that is asked for, and end."""
    code = 1
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _, files, *_ = socket.recv_fds(asking, 1, 2)
        with asking, asking.makefile("rb") as asked:
            arguments, folder, environ = json.loads(asked.readline())
        for number, file in enumerate(files, 1):
            os.dup2(file, number)
            os.close(file)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = ["scorer", *arguments]
        from scorer.__main__ import main

        try:
            code = main(arguments, os.environ)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
