"""Run tests on a library that finds its own faults: ``python -m tests.sanitized [arguments of pytest]``.

It is built with the sanitizers of addresses and of undefined behaviour, and ends the process with a report at the first
access beside an array, overflow of a whole number, or number that is cast to a type that cannot hold it. Their runtime
must be loaded before Python, so the process starts itself again. Exit code 3: the compiler has none.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ops.packages.compiler import has_cc
from tests.own_library import in_place_of_ours

SANITIZED = (
    "-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
)  # fmt: skip
"""Flags for a library that stops at the first access beside its arrays, and at undefined behaviour."""
NAMES = ("libasan.so", f"libclang_rt.asan-{platform.machine()}.so")
"""The runtime's name with gcc, and with clang."""
NONE = 3
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # Python frees little of what it has at its end
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",  # else small arrays lie side by side in the same allocation
}


def runtime():
    """Return where the runtime of the system's compiler is; "" without one."""
    for name in NAMES if has_cc() else ():
        command = [os.environ.get("CC", "cc"), f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if Path(path).is_absolute() and Path(path).exists():
            return path
    return ""


def main(arguments):
    found = runtime()
    if not found:
        sys.stderr.write("no C compiler with sanitizers here (Debian: apt-get install gcc libc6-dev)\n")
        return NONE
    if os.environ.get("LD_PRELOAD") != found:
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.sanitized", *arguments],
            {**os.environ, **OPTIONS, "LD_PRELOAD": found},
        )  # fmt: skip
    del os.environ["LD_PRELOAD"]  # not for the compiler
    with in_place_of_ours(*SANITIZED):
        return int(pytest.main(["--capture=sys", *arguments]))  # a report is written to the file of standard error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
