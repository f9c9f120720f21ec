"""A Redis Cluster on loopback: primaries, and replicas of some; each node can be killed, frozen, moved from."""

import signal

import redis

from ops.stack.servers.process import free_port
from schemas.process.redis_cluster import SLOTS, slot_of
from tests.conftest import start_valkey
from tests.support.pages import eventually

NODE_TIMEOUT_MS = 1_000
QUICK = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")


class Processes:
    """Servers by port, each with a folder; the end kills them, also frozen ones."""

    def __init__(self, folder):
        self._folder = folder
        self._processes = {}

    def __exit__(self, *_):
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def signal(self, port, how):
        """Kill one, freeze it, or let a frozen one go on."""
        self._processes[port].send_signal(how)
        if how is signal.SIGKILL:
            self._processes[port].wait()

    def folder(self, port):
        folder = self._folder / str(port)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Cluster(Processes):
    """Nodes by port, started by ``with``; with ``users`` each has this file of users."""

    def __init__(self, folder, *, primaries=3, replicas=1, users=None):
        super().__init__(folder)
        self._users = users
        self._first = [free_port() for _ in range(primaries)]
        self._replicas = {free_port(): self._first[number] for number in range(replicas)}
        """The first primary of each."""
        self._bus = {port: free_port() for port in (*self._first, *self._replicas)}

    @property
    def ports(self):
        return list(self._bus)

    @property
    def url(self):
        return f"redis+cluster://127.0.0.1:{self._first[-1]},127.0.0.1:{self._first[0]}"

    @property
    def primaries(self):
        """The nodes that run and are primaries now."""
        return [port for port in self.ports if self._processes[port].poll() is None and self.is_primary(port)]

    def replica_of(self, primary):
        roles = {port: self._ask(port, "ROLE") for port in self.ports}
        return next(port for port, role in roles.items() if role[0] == "slave" and int(role[2]) == primary)

    def __enter__(self):
        try:
            for port in self.ports:
                self.start(port)
            first = self._first[0]
            for port in self.ports[1:]:
                self._ask(first, "CLUSTER", "MEET", "127.0.0.1", port, self._bus[port])
            share = -(-SLOTS // len(self._first))
            for number, port in enumerate(self._first):
                last = min((number + 1) * share, SLOTS) - 1
                self._ask(port, "CLUSTER", "ADDSLOTSRANGE", number * share, last)
            eventually(lambda: all(self._knows_all(port) for port in self.ports))
            for port, primary in self._replicas.items():
                eventually(lambda port=port, primary=primary: self._replicate(port, primary))
            eventually(self.is_whole)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, port):
        """Start a node with what it wrote of the cluster; its data are those of its primary, or none."""
        options = ("--cluster-enabled", "yes", "--cluster-port", str(self._bus[port]))
        options += ("--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--cluster-require-full-coverage", "no", *QUICK)
        options += ("--cluster-replica-validity-factor", "0")
        if self._users is not None:
            options += ("--aclfile", str(self._users))
        self._processes[port] = start_valkey(port, self.folder(port), *options)

    def node(self, port):
        return redis.Redis(port=port, socket_timeout=5, decode_responses=True)

    def _ask(self, port, *command):
        with self.node(port) as node:
            return node.execute_command(*command)

    def id(self, port):
        """Return the name by which the others know a node."""
        return str(self._ask(port, "CLUSTER", "MYID"))

    def _info(self, port):
        said = self._ask(port, "CLUSTER", "INFO")
        lines = (
            said if isinstance(said, dict) else dict(line.split(":", 1) for line in str(said).split() if ":" in line)
        )
        return {name: str(value) for name, value in lines.items()}

    def _knows_all(self, port):
        info = self._info(port)
        return (int(info["cluster_known_nodes"]), info["cluster_state"]) == (len(self.ports), "ok")

    def _replicate(self, port, primary):
        try:
            self._ask(port, "CLUSTER", "REPLICATE", self.id(primary))
        except redis.ResponseError:
            return False
        return True

    def is_whole(self):
        """Return whether each node that runs knows a whole cluster, and each replica follows."""
        for port in self.ports:
            if self._processes[port].poll() is None:
                info = self._ask(port, "INFO", "replication")
                if self._info(port)["cluster_state"] != "ok" or info.get("master_link_status", "up") != "up":
                    return False
        return True

    def is_primary(self, port):
        return bool(self._ask(port, "ROLE")[0] == "master")

    def has(self, key):
        """Return the port of the primary that has a key's slot, as the first node that answers knows."""
        for port in self.ports:
            try:
                ranges = self._ask(port, "CLUSTER", "SLOTS")
            except redis.RedisError:
                continue
            for first, last, node, *_ in ranges:
                if int(first) <= slot_of(key) <= int(last):
                    return int(node[1])
        raise AssertionError(f"no node has {key}")

    def open_slot(self, key, target):
        """Begin to move a key's slot: what is not at its node is asked of the target."""
        slot, source = slot_of(key), self.has(key)
        self._ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        self._ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(target))

    def move_keys(self, key, source, target, most=10_000):
        """Move so many keys of an open slot; return how many."""
        keys = self._ask(source, "CLUSTER", "GETKEYSINSLOT", slot_of(key), most)
        if keys:
            self._ask(source, "MIGRATE", "127.0.0.1", target, "", 0, 5_000, "REPLACE", "KEYS", *keys)
        return len(keys)

    def close_slot(self, key, source, target):
        for port in dict.fromkeys((target, source, *self.primaries)):
            self._ask(port, "CLUSTER", "SETSLOT", slot_of(key), "NODE", self.id(target))
