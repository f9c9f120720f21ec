"""A command of ``windward`` run in the test's own process: a start of one takes half a second and more."""

import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from ops.cli import main as cli


def run_command(*words, environ):
    """Return exit code and output of a command under an environment."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, environ), redirect_stdout(out), redirect_stderr(err):
        try:
            code = cli.main(list(words))
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def refusal(command, *words):
    """Return the line, without the command's name, with which it refuses its settings and ends with 2."""
    done = run_command(command, *words, environ={})
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"windward {command}: ")
    return line.removeprefix(f"windward {command}: ")
