"""``windward`` started in a tenth of the time: forked from a process with its imports.

A start takes 0.4 s of a core, and the pages of documentation start some two hundred. Here the script on the PATH of a
test's shell, or `Forked` in a test, passes its words, folder, environment and files to a server over a Unix socket.
That forks: the child has them, answers with its process id, runs the command and answers with its exit code. So start
the scorers and planners of most tests; the others, and all other processes, start as users start them.
"""

import atexit
import gc
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path

from ops.cli.commands import COMMANDS
from ops.stack.servers.process import LocalProcess

SCRIPT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"f"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    server.recv(4)
    answer = server.recv(1)
sys.exit(answer[0] if answer else 70)
"""


@contextmanager
def forking(folder):
    """Put the script ``windward`` into a folder while the server behind it runs."""
    address = str(folder / "windward.socket")
    script = folder / "windward"
    script.write_text(SCRIPT.format(python=sys.executable, address=address))
    script.chmod(stat.S_IRWXU)
    with server_at(address, *COMMANDS):
        yield


def server_at(address, *commands):
    """Return the server that forks these commands; it ends with the thread that starts it."""
    words = [sys.executable, "-m", "tests.support.forked", address, *commands]
    return LocalProcess("commands", words, ready=Path(address).exists)


@cache
def _server():
    """Start the server that forks scorers and planners, for all tests of this process; return it and its address."""
    address = f"{tempfile.mkdtemp(prefix='windward-')}/windward.socket"
    process = server_at(address, "scorer", "planner").start()
    atexit.register(process.stop)
    return process, address


class Forked:
    """A scorer or a planner with the files of this process; what tests use of `subprocess.Popen`."""

    def __init__(self, words, environ):
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(_server()[1])
        socket.send_fds(self._server, [b"f"], [0, 1, 2])
        self._server.sendall(json.dumps([words, os.getcwd(), environ]).encode() + b"\n")  # noqa: PTH109
        self.pid = int.from_bytes(self._server.recv(4))
        self.returncode = None

    def wait(self, timeout=None):
        """Return the exit code: what it answers, -9 when it ended without an answer."""
        if self.returncode is None:
            self._server.settimeout(timeout)
            try:
                answer = self._server.recv(1)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("windward", timeout) from None
            self._server.close()
            self.returncode = answer[0] if answer else -signal.SIGKILL
        return self.returncode

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def serve(address, *commands):
    """Fork a child for each script that connects."""
    for command in commands:
        import_module(COMMANDS[command][0])
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address + ".new")
        server.listen()
        os.rename(address + ".new", address)  # noqa: PTH104
        while True:
            script, _ = server.accept()
            with script:
                if os.fork() == 0:
                    server.close()
                    _run(script)


def _run(script):
    """Be the process that the script asks for, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 70
    try:
        _, files, *_ = socket.recv_fds(script, 1, 3)
        with script.makefile("rb") as asked:
            words, folder, environ = json.loads(asked.readline())
        script.sendall(os.getpid().to_bytes(4))
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin, sys.stdout, sys.stderr = (open(n, "w" if n else "r", closefd=False) for n in range(3))  # noqa: SIM115
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = ["windward", *words]
        from ops.cli.main import main

        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        sys.stderr.flush()
        script.sendall(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    serve(*sys.argv[1:])
