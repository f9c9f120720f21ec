"""Has an instance run once, whatever a deployer before this one died of. It needs `windward_client`.

    python deploy_once.py ./host orders-8 --cpu 2 --memory 10G

``./host runs MACHINE ID`` exits with 0 where the instance runs there, ``./host start MACHINE ID`` starts it. It is for
one deployer of an id at a time: run it again until it exits with 0.
"""

import argparse
import os
import subprocess
import sys

from windward_client import Client, WindwardError

TTL_S = float(os.environ.get("DEPLOY_TTL_S", "1800"))
"""How long a machine is held: longer than the slowest start, so that a reservation never ends during one."""


def deploy(scorer: Client, host: str, name: str, request: dict[str, object]) -> str:
    """Return the machine that the instance runs on, once it is confirmed there."""
    found = scorer.instances(id=name).instances  # by its id an instance is found for a day after its end, too
    known = found[0] if found else None
    if known and known.state == "confirmed":
        return known.machine
    reserved = known is not None and known.state == "reserved"
    if known and subprocess.run([host, "runs", known.machine, name], check=False).returncode == 0:
        # a deployer died after the start: the instance stays where it runs
        held = known if reserved else scorer.place(id=name, machine=known.machine, ttl_s=TTL_S, **request)
        if not held.machine:
            sys.exit(f"{name} runs on {known.machine}, which has no room for it now: stop it there, then deploy again")
    else:
        if reserved:  # a deployer died before the start: what is left of its time may be too short
            scorer.release(name, generation=known.generation)
        held = scorer.place(id=name, ttl_s=TTL_S, **request)
        if not held.machine:
            sys.exit(f"{name}: no machine fits: {held.reason}")
        subprocess.run([host, "start", held.machine, name], check=True)
    scorer.confirm(name, generation=held.generation)
    return held.machine


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for word in ("host", "id", "--cpu", "--memory"):
        parser.add_argument(word, required=True) if word.startswith("-") else parser.add_argument(word)
    given = parser.parse_args()
    url, prefix = os.environ["WINDWARD_REDIS_URL"], os.environ.get("WINDWARD_PREFIX", "windward")
    with Client(url, prefix, timeout_s=10) as client:
        try:
            print(deploy(client, given.host, given.id, {"cpu": float(given.cpu), "memory": given.memory}))
        except WindwardError as error:
            sys.exit(f"{given.id}: {error}; run it again")
