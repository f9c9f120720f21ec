"""The settings files of Apache Kafka's local processes: durable, small, with short timeouts for a lost broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ops.stack.servers.process import LOOPBACK


def replicas_in_sync(brokers: int) -> int:
    """Return how many replicas a write waits for among so many brokers: all but one, at least one.

    >>> [replicas_in_sync(n) for n in (1, 2, 3)]
    [1, 1, 2]
    """
    return max(1, brokers - 1)


def server_properties(node: int, brokers: int, port: int, controller_port: int, voters: str, data: Path) -> str:
    """Return the settings of one process."""
    replicas, in_sync = brokers, replicas_in_sync(brokers)
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
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


def users_properties(users: Mapping[str, str], port: int, controller_port: int, user_port: int) -> str:
    """Return the further settings of a process with a listener for users; of two equal settings the later counts."""
    listeners = f"PLAINTEXT://{LOOPBACK}:{port},SASL_PLAINTEXT://{LOOPBACK}:{user_port}"
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    settings = {
        "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{controller_port}",
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
