"""Apache Kafka as local processes: KRaft, one broker or three, durable, on loopback.

Each process is broker and controller at once. Three keep a topic with three replicas and two in sync through the loss
of any one. Needs Java; the archives come from `tests.kafka.archives`. For a laptop and for recovery tests:
heaps are small, failures are noticed sooner than by default, and nothing is encrypted.
"""

import base64
import contextlib
import shutil
import subprocess
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from ops.stack.servers.local import answers_kafka
from ops.stack.servers.process import LOOPBACK, LocalError, LocalProcess, StartedByWith, free_port, wait_until
from tests.kafka.archives import fetch_archives

JAVA = ("-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Starts quickly with few threads; maximum speed is lower."""

HEAP_MAX_MB = 384
LOG_SETTINGS = Path(__file__).with_name("kafka") / "log4j2.properties"


class Ports(NamedTuple):
    """The ports of one process: for clients, for the other processes, for those who come as one of the users."""

    broker: int
    controller: int
    users: int


class KafkaServer(LocalProcess):
    """One of the processes: a broker that is also a controller."""

    def __init__(self, node, port, classpath, settings, log):
        self.node = node
        self.port = port
        self.settings = settings
        self._java = ["java", f"-Xmx{HEAP_MAX_MB}m", *JAVA, f"-Dlog4j2.configurationFile={LOG_SETTINGS}"]
        self._java += ["-cp", classpath]
        super().__init__(
            f"kafka-{node}",
            ["/usr/bin/env", *self._java, "kafka.Kafka", str(settings)],
            log=log,
            ready=lambda: answers_kafka(port) and node in _registered_brokers(port),
            ready_deadline_s=90,
            stop_deadline_s=20,
        )

    @property
    def address(self):
        return f"{LOOPBACK}:{self.port}"

    def sees(self, nodes):
        """Return whether this broker has exactly these brokers registered."""
        return _registered_brokers(self.port) == nodes

    @property
    def _meta(self):
        """What is written last into a data folder that is prepared."""
        return self.settings.with_name("data") / "meta.properties"

    def format(self, cluster_id):
        """Prepare an empty data folder; does nothing to one that is prepared."""
        if self._meta.exists():
            return
        command = [*self._java, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        done = subprocess.run(
            [*command, "--cluster-id", cluster_id, "--config", str(self.settings)],
            capture_output=True,
            text=True,
            check=False,
            timeout=self.ready_deadline_s,
        )
        if done.returncode != 0:
            raise LocalError(f"{self.name} cannot prepare its folder: {(done.stdout + done.stderr)[-1000:]}")

    def format_like(self, other):
        """Prepare an empty data folder from another broker's: Java takes 1.8 s of a core for the same two files."""
        if self._meta.exists():
            return
        self._meta.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(other._meta.with_name("bootstrap.checkpoint"), self._meta.parent)
        own = {"node.id": str(self.node), "directory.id": new_cluster_id()}
        lines = [line.partition("=") for line in other._meta.read_text().splitlines() if "=" in line]
        self._meta.write_text("".join(f"{name}={own.get(name, value)}\n" for name, _, value in lines))


class ApacheKafka(StartedByWith):
    """A cluster of `brokers`; used like `ops.stack.servers.local.LocalBroker`.

    ``directory`` keeps topics, offsets and ids; the same folder continues the same cluster. One broker of the cluster
    is killed and started again by ``cluster.brokers[1].kill()`` and ``.start()``.

    ``users`` are names and passwords for a second listener, ``users_address`` (SASL, PLAIN), where only Kafka's ACLs
    allow anything; a client of ``address`` may do all.
    """

    keeps_topics = True
    """Whether topics survive ``restart``."""

    def __init__(self, *, brokers=1, port=None, directory=None, users=None):
        self.directory = directory or Path(tempfile.mkdtemp(prefix="windward-kafka-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        all_ports = [Ports(port + n if port else free_port(), free_port(), free_port()) for n in range(brokers)]
        voters = ",".join(f"{node}@{LOOPBACK}:{ports.controller}" for node, ports in enumerate(all_ports, 1))
        self._user_ports = [ports.users for ports in all_ports if users]
        classpath = f"{fetch_archives()}/*"
        self.brokers = []
        for node, ports in enumerate(all_ports, 1):
            folder = self.directory / f"kafka-{node}"
            folder.mkdir(parents=True, exist_ok=True)
            settings = folder / "server.properties"
            text = _server_properties(node, brokers, ports, voters, folder / "data")
            if users:
                text += users_properties(users, ports)
            settings.write_text(text)
            log = self.directory / f"kafka-{node}.log"
            self.brokers.append(KafkaServer(node, ports.broker, classpath, settings, log))

    @property
    def address(self):
        return ",".join(broker.address for broker in self.brokers)

    @property
    def users_address(self):
        """The bootstrap list for those who come as one of the users."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self._user_ports)

    @property
    def replication(self):
        return len(self.brokers)

    @property
    def min_insync(self):
        """In-sync replicas a write should wait for here: the loss of one broker of three stops nothing."""
        return replicas_in_sync(len(self.brokers))

    @property
    def running(self):
        return all(broker.running for broker in self.brokers)

    @property
    def ready(self):
        """Whether every broker is alive and registered."""
        return all(broker.ready for broker in self.brokers)

    def start(self):
        """Start all brokers and wait until each sees all of them."""
        cluster_id = self._cluster_id()
        try:
            self.brokers[0].format(cluster_id)
            for broker in self.brokers[1:]:
                broker.format_like(self.brokers[0])
            for broker in self.brokers:
                broker.spawn()
            for broker in self.brokers:
                broker.wait_ready()
            everyone = {broker.node for broker in self.brokers}
            for broker in self.brokers:
                wait_until(partial(broker.sees, everyone), 30, f"{broker.name} sees all")
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self):
        for broker in self.brokers:
            broker.kill()

    def stop(self):
        """End all brokers: SIGTERM to all at once, SIGKILL after the deadline.

        The last two have no quorum without the others, so an orderly end of all takes until the deadline. Their data
        are safe in both cases.
        """
        for broker in self.brokers:
            broker.ask_to_stop()
        for broker in self.brokers:
            broker.stop()

    def restart(self):
        """Kill all brokers and start them again at the same addresses, with their data."""
        self.kill()
        return self.start()

    def _cluster_id(self):
        """Return the id of the cluster whose data are here, or a new one."""
        with contextlib.suppress(OSError):
            meta = (self.directory / "kafka-1" / "data" / "meta.properties").read_text()
            return next(line.partition("=")[2] for line in meta.splitlines() if line.startswith("cluster.id="))
        return new_cluster_id()


def new_cluster_id():
    """Return a random id in Kafka's form: 16 bytes in URL-safe base64, not starting with a dash.

    >>> len(new_cluster_id())
    22
    """
    while True:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id


def _registered_brokers(port):
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=f"{LOOPBACK}:{port}", bootstrap_timeout_ms=2000, request_timeout_ms=2000
        )
    except (KafkaError, OSError):
        return set()
    try:
        return {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
    except (KafkaError, OSError):
        return set()
    finally:
        admin.close()


def replicas_in_sync(brokers):
    """Return how many replicas a write waits for among so many brokers: all but one, at least one.

    >>> [replicas_in_sync(n) for n in (1, 2, 3)]
    [1, 1, 2]
    """
    return max(1, brokers - 1)


def _server_properties(node, brokers, ports, voters, data):
    replicas, in_sync = brokers, replicas_in_sync(brokers)
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{ports.broker},CONTROLLER://{LOOPBACK}:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{ports.broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": data.resolve(),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        "broker.session.timeout.ms": 6000,
        "broker.heartbeat.interval.ms": 1000,
        "replica.lag.time.max.ms": 6000,
        "log.cleaner.dedupe.buffer.size": 4 << 20,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def users_properties(users, ports):
    """Return the further settings of a process with a listener for users; of two equal settings the later counts."""
    listeners = f"PLAINTEXT://{LOOPBACK}:{ports.broker},SASL_PLAINTEXT://{LOOPBACK}:{ports.users}"
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    settings = {
        "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{ports.controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:ANONYMOUS",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
