"""Each Kafka user does its own work and nothing else, with the ACLs of docs/security.md: on Apache Kafka.

Skipped unless ``make test-kafka`` runs it; the local broker has no authorizer.
"""

import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ConfigResource, ResourcePattern, ResourceType
from kafka.errors import AuthorizationError, KafkaError

from ops.stack.servers.local import LocalValkey
from ops.stack.servers.process import LocalProcess
from schemas.names import Names
from schemas.process.connections import KafkaSettings
from streams.worker.topics import TopicSettings, ensure_topics
from tests.kafka.apache_kafka import ApacheKafka
from tests.support.pipeline import await_condition

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        os.environ.get("WINDWARD_TEST_KAFKA") != "apache", reason="`make test-kafka` runs this: it needs Java and Maven"
    ),
]

SECURITY = Path(__file__).parents[3] / "docs" / "security.md"
NAMES = Names("windward")
USERS = {name: f"secret-of-{name}" for name in ("agent", "stream", "doctor", "topics", "stranger")}
OPERATIONS = {"Read": "READ", "Write": "WRITE", "Create": "CREATE", "Describe": "DESCRIBE"} | {
    "DescribeConfigs": "DESCRIBE_CONFIGS"
}


def documented():
    """The ACLs that the commands of docs/security.md make."""
    found = []
    for line in SECURITY.read_text().splitlines():
        if not line.startswith("$acls "):
            continue
        words = line.split()[1:]
        pairs = list(zip(words[::2], words[1::2], strict=True))
        given = {option: [v for o, v in pairs if o == option] for option, _ in pairs}
        for kind, names in ((ResourceType.TOPIC, given.get("--topic")), (ResourceType.GROUP, given.get("--group"))):
            for name in names or []:
                for operation in given["--operation"]:
                    found.append(
                        ACL(
                            principal=given["--allow-principal"][0],
                            host="*",
                            operation=ACLOperation[OPERATIONS[operation]],
                            permission_type=ACLPermissionType.ALLOW,
                            resource_pattern=ResourcePattern(kind, name),
                        )
                    )
    return found


class Cluster(NamedTuple):
    """Kafka with the documented ACLs, and a Valkey."""

    kafka: ApacheKafka
    redis_url: str

    def settings(self, user):
        return {
            "kafka": self.kafka.users_address,
            "kafka_security": "SASL_PLAINTEXT",
            "kafka_sasl_mechanism": "PLAIN",
            "kafka_sasl_username": user,
            "kafka_sasl_password": USERS[user],
        }

    def arguments(self, user):
        return KafkaSettings(**self.settings(user)).kafka_python_arguments()

    def process(self, command, user, folder, *more):
        environ = {f"WINDWARD_{name.upper()}": value for name, value in self.settings(user).items()}
        environ["WINDWARD_REDIS_URL"] = self.redis_url
        if command == "agent":
            del environ["WINDWARD_REDIS_URL"]
        return LocalProcess(
            command,
            [sys.executable, "-m", "ops.cli.main", command, "--log-format", "json", *more],
            log=folder / f"{command}-{user}.log",
            environ=dict(os.environ) | environ,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One broker for the file: rights are the same on three. The topics are made by their own user."""
    folder = tmp_path_factory.mktemp("users")
    kafka = ApacheKafka(directory=folder / "kafka", users=USERS).start()
    with LocalValkey(directory=folder / "valkey") as valkey:
        one = Cluster(kafka, valkey.url)
        admin = KafkaAdminClient(bootstrap_servers=kafka.address)
        assert not admin.create_acls(documented())["failed"]
        admin.close()
        await_condition(lambda: makes_topics(one), "the broker knows the ACLs", 20)
        yield one
    kafka.kill()


def makes_topics(cluster):
    """Whether the user of the topics could make them."""
    try:
        return ensure_topics(TopicSettings(**cluster.settings("topics"), partitions=2)) == 2
    except KafkaError:
        return False


def test_agent_and_stream_do_their_work(cluster, tmp_path):
    """A sample goes from the agent into the windows, junk to the rejects; the settings of the topics are seen."""
    with cluster.process("agent", "agent", tmp_path, "--once", "--machine", "of-the-agent") as agent:
        assert agent.wait(60) == 0, agent.output_end(20)
    with KafkaProducer(**cluster.arguments("agent"), enable_idempotence=False, acks=1) as producer:
        producer.send(NAMES.samples_topic, key=b"x", value=b"junk").get(20)
    with cluster.process("stream", "stream", tmp_path, "--session-timeout-s", "6") as worker:
        with LocalValkeyReader(cluster.redis_url) as store:
            await_condition(lambda: store.holds(b"of-the-agent"), "the window of the agent's machine", 60)
        rejects = KafkaConsumer(
            NAMES.rejects_topic,
            bootstrap_servers=cluster.kafka.address,
            auto_offset_reset="earliest",
            consumer_timeout_ms=20_000,
        )
        assert dict(next(rejects).headers)["reason"] == b"malformed"
        rejects.close()
        assert "topic-settings-unknown" not in worker.log.read_text()
        await_condition(lambda: committed(cluster), "the worker commits what it has written", 30)


class LocalValkeyReader:
    def __init__(self, url):
        import redis

        self._redis = redis.Redis.from_url(url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._redis.close()

    def holds(self, machine):
        return any(machine in (self._redis.get(NAMES.windows(partition)) or b"") for partition in (0, 1))


def committed(cluster):
    """Whether the doctor sees an offset of the worker's group."""
    admin = KafkaAdminClient(**cluster.arguments("doctor"))
    try:
        offsets = admin.list_group_offsets("windward-stream")
    finally:
        admin.close()
    return "offset=1" in str(offsets) or "offset=2" in str(offsets)


def write(topic):
    def attempt(cluster, user):
        producer = KafkaProducer(
            **cluster.arguments(user), enable_idempotence=False, acks=1, max_block_ms=5_000, retries=0
        )
        try:
            return producer.send(topic, key=b"x", value=b"junk").get(10)
        finally:
            producer.close(timeout=0)

    return attempt


def read(topic, group=None, partitions=2):
    def attempt(cluster, user):
        consumer = KafkaConsumer(
            **cluster.arguments(user), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
            metadata_max_age_ms=1_000,  # one that joins before it knows the topic has no partition until then
        )  # fmt: skip
        until_s = time.monotonic() + 20
        try:
            if group:
                consumer.subscribe([topic])
            else:
                consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
            while time.monotonic() < until_s:
                if found := consumer.poll(200):
                    return found
                if topic in consumer._cluster.unauthorized_topics:  # poll only logs it and asks again
                    raise AuthorizationError(topic)
            raise AssertionError(f"{user} got no answer")
        finally:
            consumer.close(autocommit=False)

    return attempt


def administer(act):
    """Ask the broker as an administrator would; an error of one topic is an error."""

    def attempt(cluster, user):
        admin = KafkaAdminClient(**cluster.arguments(user), request_timeout_ms=10_000)
        try:
            return act(admin)
        finally:
            admin.close()

    return attempt


def read_settings(admin):
    """Return the settings of both topics; an error of one is raised."""
    told = admin.describe_configs([ConfigResource("TOPIC", topic) for topic in (S, J)], config_filter="all")
    if not all(told["topic"][topic] for topic in (S, J)):
        raise AuthorizationError("the client leaves the broker's refusal out: no setting is told")
    return told


def make_topic(admin):
    return admin.create_topics({"of-my-own": {"num_partitions": 1, "replication_factor": 1}})


def delete_topic(admin):
    return admin.delete_topics([NAMES.samples_topic])


def shorten_retention(admin):
    told = admin.alter_configs([ConfigResource("TOPIC", S, configs={"retention.ms": "1"})], raise_on_unknown=False)
    if "uthoriz" in str(told):
        raise AuthorizationError(str(told))
    return told


S, J = NAMES.samples_topic, NAMES.rejects_topic
ATTEMPTS = {
    "write samples": (write(S), {"agent"}),
    "write rejects": (write(J), {"stream"}),
    "read samples": (read(S), {"stream"}),
    "read samples in the group": (read(S, "windward-stream"), {"stream"}),
    "read samples in another group": (read(S, "another"), set()),
    "read rejects": (read(J, partitions=1), set()),
    "read the settings of the topics": (administer(read_settings), {"stream", "doctor", "topics"}),
    "make a topic of another name": (administer(make_topic), set()),
    "delete the samples": (administer(delete_topic), set()),
    "shorten the retention": (administer(shorten_retention), set()),
}


@pytest.mark.parametrize("what", ATTEMPTS)
@pytest.mark.parametrize("user", USERS)
def test_each_user_may_do_this_and_no_more(cluster, user, what):
    """What is not its work is refused by the broker as not authorized."""
    attempt, allowed = ATTEMPTS[what]
    if user in allowed:
        if what.startswith("read"):
            write(S)(cluster, "agent")
        attempt(cluster, user)
        return
    with pytest.raises(AuthorizationError):
        attempt(cluster, user)
