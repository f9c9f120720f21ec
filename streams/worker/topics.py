"""Creates and checks the topics. Shell: talks to Kafka.

A topic that Windward creates has the right settings. An existing topic keeps its own, so they are checked when a worker
starts. A setting that the broker does not return is not checked.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource
from kafka.errors import KafkaError, TopicAlreadyExistsError
from msgspec import Meta

from schemas.process.connections import KafkaSettings
from schemas.process.settings import setting

log = logging.getLogger("windward.topics")

RETENTION_MS = 3 * 3_600_000
"""Three hours: one for the ring, the others for the time that a worker may be down."""

SAMPLE_BYTES_MIN = 32_768
REJECT_BYTES_MIN = 80_000
"""The longest messages of either topic, with their headers."""


def wrong_settings(found: Mapping[str, str], *, samples: bool) -> list[str]:
    """Return one sentence for each setting that is wrong; ``samples`` is False for the rejects topic.

    >>> wrong_settings({"cleanup.policy": "compact"}, samples=True)
    ['cleanup.policy is compact: samples of a machine are deleted by the next one; set it to delete']
    """
    bytes_min = SAMPLE_BYTES_MIN if samples else REJECT_BYTES_MIN
    problems = []
    if samples and found.get("message.timestamp.type", "LogAppendTime") != "LogAppendTime":
        problems.append(
            f"message.timestamp.type is {found['message.timestamp.type']}: a record's time is its producer's;"
            " set it to LogAppendTime"
        )
    if samples and 0 <= _number(found, "retention.ms") < RETENTION_MS:
        problems.append(
            f"retention.ms is {found['retention.ms']}: windows that Redis loses cannot be read again;"
            f" set it to {RETENTION_MS} or more"
        )
    if samples and "compact" in found.get("cleanup.policy", "delete"):
        problems.append(
            f"cleanup.policy is {found['cleanup.policy']}: samples of a machine are deleted by the next one;"
            " set it to delete"
        )
    if 0 <= _number(found, "max.message.bytes") < bytes_min:
        problems.append(
            f"max.message.bytes is {found['max.message.bytes']}: the longest messages are refused by the broker;"
            f" set it to {bytes_min} or more"
        )
    return problems


def _number(found: Mapping[str, str], name: str) -> int:
    """Return a setting as a number; -1, Kafka's "no limit", when it is not returned."""
    try:
        return int(found.get(name, "-1"))
    except ValueError:
        return -1


REJECTS_RETENTION_MS = 7 * 86_400_000

LEADERS_DEADLINE_S = 30

BOOTSTRAP_MS = 3_000
"""The timeout of one request to the broker; it is repeated, so that a process can stop in between."""


@dataclass(frozen=True, kw_only=True)
class TopicSettings(KafkaSettings):
    partitions: Annotated[int, Meta(ge=1, le=1_000)] = setting(8, "partitions of a samples topic that has to be made")
    replication: Annotated[int, Meta(ge=1, le=100)] = setting(1, "replicas of a topic that has to be made")
    min_insync: Annotated[int, Meta(ge=1)] = setting(1, "in-sync replicas a write waits for, on a topic to be made")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_insync > self.replication:
            raise ValueError(f"min_insync: {self.min_insync} is more than replication, which is {self.replication}")


@contextmanager
def _admin(settings: KafkaSettings) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(**settings.kafka_python_arguments(), bootstrap_timeout_ms=BOOTSTRAP_MS)
    try:
        yield admin
    finally:
        admin.close()


def ensure_topics(settings: TopicSettings) -> int:
    """Create the samples and rejects topics where they are missing; return the samples topic's partitions.

    The samples topic is configured for the broker's own time stamps (LogAppendTime), against which clock skew is
    learned; a broker that ignores that leaves the producer's. Raises KafkaError when the broker cannot be reached.
    """
    names = settings.names
    with _admin(settings) as admin:
        existing = set(admin.list_topics())
        common = {"min.insync.replicas": str(settings.min_insync)}
        wanted = {
            names.samples_topic: {
                "num_partitions": settings.partitions,
                "replication_factor": settings.replication,
                "configs": common | {"retention.ms": str(RETENTION_MS), "message.timestamp.type": "LogAppendTime"},
            },
            names.rejects_topic: {
                "num_partitions": 1,
                "replication_factor": settings.replication,
                "configs": common | {"retention.ms": str(REJECTS_RETENTION_MS)},
            },
        }
        missing = {name: form for name, form in wanted.items() if name not in existing}
        if missing:
            try:
                admin.create_topics(missing)
                log.info("topics.created", extra={"values": {"topics": ",".join(missing)}})
            except TopicAlreadyExistsError:
                log.info("topics.already_created", extra={"values": {"topics": ",".join(missing)}})
        return _await_leaders(admin, names.samples_topic)


def _await_leaders(admin: KafkaAdminClient, topic: str) -> int:
    """Return the number of partitions once each has a leader, which may be after the topic was acknowledged."""
    until = time.monotonic() + LEADERS_DEADLINE_S
    while True:
        description = admin.describe_topics([topic])[0]
        partitions = description["partitions"]
        if partitions and not description.get("error_code") and all(p["leader_id"] >= 0 for p in partitions):
            return len(partitions)
        if time.monotonic() > until:
            raise KafkaError(f"topic {topic} has partitions without a leader after {LEADERS_DEADLINE_S} s")
        time.sleep(0.1)


def topic_id(settings: KafkaSettings) -> str:
    """Return the id of the samples topic: another id means another topic under the same name.

    Raises KafkaError when the broker cannot be reached or does not have the topic.
    """
    with _admin(settings) as admin:
        topic = admin.describe_topics([settings.names.samples_topic])[0]
        if topic.get("error_code"):
            raise KafkaError(f"topic {settings.names.samples_topic}: error {topic['error_code']}")
        return str(topic.get("topic_id") or "")


def check_topics(settings: KafkaSettings) -> list[str]:
    """Log every setting of the two topics that is wrong, and return the sentences.

    Raises KafkaError when the broker cannot be reached or does not return them.
    """
    names = settings.names
    with _admin(settings) as admin:
        told = admin.describe_configs(
            [ConfigResource("TOPIC", topic) for topic in (names.samples_topic, names.rejects_topic)],
            config_filter="all",
        ).get("topic", {})
    problems = []
    for topic, values in told.items():
        found = {name: str(each["value"]) for name, each in values.items() if each.get("value") is not None}
        for problem in wrong_settings(found, samples=topic == names.samples_topic):
            log.warning("topics.wrong_setting", extra={"values": {"topic": topic, "problem": problem}})
            problems.append(f"{topic}: {problem}")
    return problems
