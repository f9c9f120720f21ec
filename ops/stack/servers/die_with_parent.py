"""Execute another program that the kernel kills as soon as the process that started it has ended.

``python -I -S die_with_parent.py PARENT_PID PROGRAM ARGUMENT...``

A launcher rather than ``preexec_fn``: that one runs Python between fork and exec, which can deadlock in a process
with threads. SIGKILL rather than SIGTERM: no process would be left to repeat it. The kernel watches the *thread* that
forked, so a local process must be started by a thread that lives as long as the process should. Where there is no
``prctl`` (macOS) the program is started all the same, and only an orderly exit stops it.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Request the signal, check that the parent still runs, and exec."""
    parent, program, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit(1)
    os.execv(program, [program, *arguments])  # noqa: S606


if __name__ == "__main__":
    main()
