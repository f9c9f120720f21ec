"""Exchanges roles in a Redis Cluster, and tells Windward about failovers. It needs `windward_client`.

    MOVER_HAND_OVER="python redis_roles.py" python mover.py ./move-instance
    python redis_roles.py --watch cart             # tells the ledger which members of cart are masters now, once

The first runs ``redis_roles.py INSTANCE OTHER`` for each proposal of kind role: the replica of the two becomes the
master by CLUSTER FAILOVER, which waits until it has every write. Run the second every few seconds, so that failovers
that Redis made itself are seen. Each instance has the label ``address=HOST:PORT``, and ``shard`` the same for a master
and its replicas: only these exchange roles.
"""

import os
import sys
import time

import redis
from windward_client import Client

FAILOVER_S = 60
"""How long a failover may take."""


def node(address: str) -> redis.Redis:
    host, _, port = address.rpartition(":")
    return redis.Redis(host, int(port), decode_responses=True, socket_timeout=5)


def hand_over(one: str, other: str) -> None:
    """Let the replica of two addresses become the master of the other; an error where it is not its replica."""
    roles = {address: node(address).execute_command("ROLE") for address in (one, other)}
    replica = one if roles[one][0] == "slave" else other
    master = other if replica == one else one
    if roles[replica][0] != "slave" or roles[replica][1:3] != [
        master.rpartition(":")[0],
        int(master.rpartition(":")[2]),
    ]:
        sys.exit(f"{replica} is no replica of {master}")
    node(replica).execute_command("CLUSTER FAILOVER")
    until = time.monotonic() + FAILOVER_S
    while node(replica).execute_command("ROLE")[0] != "master" or node(master).execute_command("ROLE")[0] != "slave":
        if time.monotonic() > until:
            sys.exit(f"{replica} was not made the master")
        time.sleep(0.05)


def watch(scorer: Client, cluster: str) -> None:
    """Tell the ledger the roles: a master is a node that has slots, as the first node that answers knows."""
    members = [one for one in scorer.instances(cluster=cluster).instances if "address" in one.labels]
    for one in members:
        try:
            lines = node(one.labels["address"]).execute_command("CLUSTER NODES")
        except redis.RedisError:
            continue
        masters = {address for address, about in lines.items() if about["slots"]}
        break
    else:
        sys.exit("no node answers")
    for one in members:
        role = "master" if one.labels["address"] in masters else "replica"
        if role != one.role:
            scorer.update(one.id, role=role)
            print(one.id, role, flush=True)


def main(words: list[str]) -> None:
    url = os.environ.get("WINDWARD_REDIS_URL", "redis://127.0.0.1:6379/0")
    with Client(url, os.environ.get("WINDWARD_PREFIX", "windward")) as scorer:
        if words[0] == "--watch":
            watch(scorer, words[1])
        else:
            hand_over(*(scorer.instances(id=name).instances[0].labels["address"] for name in words))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1:])
