"""A primary with its replicas, watched by sentinels, on loopback; each can be killed or frozen."""

import subprocess
import time

import redis
from redis.sentinel import Sentinel

from ops.stack.servers.process import free_port
from tests.conftest import start_valkey, valkey_binary
from tests.support.clusters import QUICK, Processes
from tests.support.pages import eventually

NAME, PASSWORD, SENTINEL_PASSWORD = "main", "of the server", "of the sentinels"
_QUICK = (*QUICK, "--enable-debug-command", "yes")


class Watched(Processes):
    """Servers and sentinels by port, started by ``with``; a sentinel counts a server as down after ``down_s``.

    With ``links`` each has an address, and is reached by a port of theirs, under which it is known everywhere.
    """

    def __init__(self, folder, *, replicas=1, sentinels=1, down_s=1.5, links=None):
        super().__init__(folder)
        self._down_s = down_s
        self.addresses = {}
        """By port, with ``links``."""
        self._own = {}
        self.ports = [self._reached(links, f"127.0.1.{number + 1}") for number in range(1 + replicas)]
        self.sentinel_ports = [self._reached(links, f"127.0.2.{number + 1}") for number in range(sentinels)]

    def _reached(self, links, address):
        """Return the port by which a new server is reached; note the one that it listens on."""
        own = free_port()
        port = own if links is None else links.to(address, own)
        self._own[port] = own
        if links is not None:
            self.addresses[port] = address
        return port

    def _announced(self, port, kind):
        """Return the settings by which others know a server, or a sentinel."""
        if port not in self.addresses:
            return []
        known = [(f"{kind}-ip", "127.0.0.1"), (f"{kind}-port", str(port))]
        return [*known, ("bind-source-addr", self.addresses[port])]

    @property
    def url(self):
        """The URL of the primary, without passwords."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        return f"redis+sentinel://{hosts}/{NAME}/0"

    @property
    def arguments(self):
        return {"url": self.url, "password": PASSWORD, "sentinel_password": SENTINEL_PASSWORD}

    @property
    def environ(self):
        """The variables of a process that uses it."""
        return {
            "WINDWARD_REDIS_URL": self.url, "WINDWARD_REDIS_PASSWORD": PASSWORD,
            "WINDWARD_REDIS_SENTINEL_PASSWORD": SENTINEL_PASSWORD,
        }  # fmt: skip

    def __enter__(self):
        try:
            for port in self.ports:
                self.start(port, self.ports[0])
            eventually(self._all_follow)
            for port in self.sentinel_ports:
                self._watch(port)
            eventually(self._all_known)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, port, primary):
        """Start a server, empty; another than the primary becomes its replica."""
        of = () if port == primary else ("--replicaof", f"127.0.0.1 {primary}")
        options = ["--requirepass", PASSWORD, "--masterauth", PASSWORD]
        for name, value in self._announced(port, "replica-announce"):
            options += [f"--{name}", value]
        self._processes[port] = process = start_valkey(self._own[port], self.folder(port), *_QUICK, *options, *of)
        with self.server(port) as server:
            info = server.info("server")
        assert info["process_id"] == process.pid, "another test has taken the port"

    def _watch(self, port):
        folder = self.folder(port)
        lines = [
            f"port {self._own[port]}", "bind 127.0.0.1", f"dir {folder}", f'requirepass "{SENTINEL_PASSWORD}"',
            *(" ".join(pair) for pair in self._announced(port, "sentinel announce")),
            f'sentinel sentinel-pass "{SENTINEL_PASSWORD}"',
            f"sentinel monitor {NAME} 127.0.0.1 {self.ports[0]} {len(self.sentinel_ports) // 2 + 1}",
            f'sentinel auth-pass {NAME} "{PASSWORD}"',
            f"sentinel down-after-milliseconds {NAME} {round(self._down_s * 1e3)}",
            f"sentinel failover-timeout {NAME} 6000", f"sentinel parallel-syncs {NAME} {len(self.ports)}",
        ]  # fmt: skip
        (folder / "sentinel.conf").write_text("\n".join(lines) + "\n")
        with (folder / "sentinel.log").open("ab") as log:
            command = [valkey_binary(), str(folder / "sentinel.conf"), "--sentinel"]
            self._processes[port] = subprocess.Popen(command, stdout=log, stderr=log)

    def _all_known(self):
        """Return whether each sentinel knows the others and all replicas."""
        others = len(self.sentinel_ports) - 1
        states = [self._state(port) for port in self.sentinel_ports]
        return all(
            (state.get("num-slaves"), state.get("num-other-sentinels")) == (len(self.ports) - 1, others)
            for state in states
        )

    def _state(self, port):
        """Return what a sentinel knows of the primary; nothing when it does not answer."""
        with self.sentinel(port) as sentinel:
            try:
                return dict(sentinel.sentinel_master(NAME))
            except redis.RedisError:
                return {}

    def server(self, port):
        return redis.Redis(port=self._own[port], password=PASSWORD, socket_timeout=5)

    def sentinel(self, port):
        return redis.Redis(port=self._own[port], password=SENTINEL_PASSWORD, socket_timeout=1)

    def _all_follow(self):
        """Return whether each other server has loaded the primary's data and follows it."""
        primary = self.primary() if self._processes.keys() & {*self.sentinel_ports} else self.ports[0]
        return all(self._follows(port, primary) for port in self.ports if port != primary)

    def _follows(self, port, primary):
        with self.server(port) as server:
            info = server.info("replication")
        return (info.get("master_port"), info.get("master_link_status")) == (primary, "up")

    def primary(self):
        """Return the port of the primary, as clients are told; 0 while there is none."""
        hosts = [("127.0.0.1", self._own[port]) for port in self.sentinel_ports]
        with Sentinel(hosts, sentinel_kwargs={"password": SENTINEL_PASSWORD, "socket_timeout": 1}) as sentinels:
            try:
                return int(sentinels.discover_master(NAME)[1])
            except redis.RedisError:
                return 0

    def fail(self, how):
        """Kill or freeze the primary; return its port, and when (monotonic) the sentinels named another."""
        old = self.primary()
        self.signal(old, how)
        return old, self.decided(old)

    def decided(self, old):
        """Return when (monotonic) the sentinels have named another primary."""
        eventually(lambda: self.primary() not in (0, old))
        return time.monotonic()

    def rejoin(self, port):
        """Have a server that failed as a replica again: a killed one is started, empty. Wait until all follow."""
        if self._processes[port].poll() is not None:
            self.start(port, self.primary())
        eventually(self._all_follow)
        eventually(self._all_known)
