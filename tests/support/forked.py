"""``windward`` on the PATH of a test's shell, started in a tenth of the time: forked from a process with its imports.

A start takes 0.4 s of a core, and the pages of documentation start some two hundred. Here the script on the PATH passes
its words, folder, environment and files to a server over a Unix socket. That forks: the child has the command line and
the open files of the script, runs the command and answers with its exit code. Other tests start commands as users do.
"""

import gc
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from ops.cli.commands import COMMANDS
from ops.stack.servers.process import wait_until

SCRIPT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"f"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
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
    server = subprocess.Popen([sys.executable, "-m", "tests.support.forked", address], cwd=Path(__file__).parents[2])
    try:
        wait_until(Path(address).exists, 30, "the server of commands listens")
        yield
    finally:
        server.kill()
        server.wait()


def serve(address):
    """Fork a child for each script that connects."""
    for module, _ in COMMANDS.values():
        import_module(module)
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
    serve(sys.argv[1])
