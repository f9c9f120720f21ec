"""Run a Nomad job on the machine that Windward chooses. It needs `windward_client`, and `nomad` on the PATH.

    export WINDWARD_REDIS_URL=redis://127.0.0.1:6379/0
    python place.py web.nomad.hcl web-1 --cpu 2 --memory 10G

The place is confirmed when `nomad job run` has seen the deployment succeed, and given back when it failed. The exit
code is Nomad's, or 3 when no machine fits and 4 when no scorer answers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from windward_client import Client, WindwardError


def main(argv: list[str]) -> int:
    """Place, run the job, confirm or give back."""
    parser = argparse.ArgumentParser(description="Run a Nomad job on the machine that Windward chooses.")
    parser.add_argument("job", help="job file with the variables `machine` and `instance`")
    parser.add_argument("instance", help="name of the instance")
    parser.add_argument("--cpu", required=True)
    parser.add_argument("--memory", required=True)
    asked = parser.parse_args(argv)
    url = os.environ.get("WINDWARD_REDIS_URL", "redis://127.0.0.1:6379/0")
    try:
        with (
            Client(url, os.environ.get("WINDWARD_PREFIX", "windward"), timeout_s=10) as scorer,
            scorer.placed(id=asked.instance, cpu=asked.cpu, memory=asked.memory) as placement,
        ):
            if placement.machine is None:
                print(f"no machine fits: {placement.reason}", file=sys.stderr)
                return 3
            variables = {"machine": placement.machine, "instance": asked.instance}
            words = [word for name, value in variables.items() for word in ("-var", f"{name}={value}")]
            subprocess.run(["nomad", "job", "run", *words, asked.job], check=True)
    except subprocess.CalledProcessError as error:  # the place has been given back
        return error.returncode
    except WindwardError as error:
        print(error, file=sys.stderr)
        return {"INVALID_ARGUMENT": 2, "DEADLINE_EXCEEDED": 4, "UNAVAILABLE": 4}.get(error.code, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
