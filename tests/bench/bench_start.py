"""What a command costs to start, beyond ``python -c pass``: pairs, one after the other, so that load hits both alike.

    python -m tests.bench.bench_start

``place`` and ``rank`` ask a port where nobody listens and give up after their timeout, which takes no CPU time. The CPU
time of the process and its children is what counts; importing redis-py alone is there to compare with.
"""

import os
import statistics
import subprocess
import sys

PAIRS = 12
NOBODY = ("--cpu", "2", "--timeout", "300ms", "--redis-url", "redis://127.0.0.1:1/0")
RUNS = {
    "import redis": ("-c", "import redis, redis.asyncio"),
    "--version": ("-m", "ops.cli.main", "--version"),
    "place": ("-m", "ops.cli.main", "place", *NOBODY),
    "rank": ("-m", "ops.cli.main", "rank", *NOBODY),
}


def cpu_s(arguments):
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def main():
    for name, arguments in RUNS.items():
        beyond = [cpu_s(arguments) - cpu_s(("-c", "pass")) for _ in range(PAIRS)]
        print(f"{name:12}  {1000 * statistics.median(beyond):4.0f} ms beyond pass, least {1000 * min(beyond):.0f}")


if __name__ == "__main__":
    main()
