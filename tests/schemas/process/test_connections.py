"""How Kafka and Redis are reached: what each setting means for the client libraries, and what is refused."""

import inspect
import ssl

import pytest
import redis
import redis.asyncio
from kafka import KafkaAdminClient, KafkaProducer
from redis.crc import key_slot

from schemas.names import Names
from schemas.process.connections import KafkaSettings, PipelineSettings, RedisSettings, WindowsSettings
from schemas.process.redis_cluster import LOOK_S, RETRY_S, SLOTS, NoNode, Topology, nodes_in, slot_of
from schemas.process.redis_url import connected, in_words, sentinels_in
from schemas.process.settings import SettingsError, load_settings

SASL = {"kafka_security": "SASL_SSL", "kafka_sasl_username": "u", "kafka_sasl_password": "p"}

AUTHORITY = """
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUGIKcU+XAx88fDZihGrFEbV8PN7kwCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXV2luZHdhcmQgdGVzdCBhdXRob3JpdHkwIBcNMjYxMTIxMTUy
MjUzWhgPMjEyNjEwMjgxNTIyNTNaMCIxIDAeBgNVBAMMF1dpbmR3YXJkIHRlc3Qg
YXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEuDMWTFgI9glHP6Ir
YJuD93f6R6XljYwptXL8NH/eJ9HZzSjkQCMBeOZstFOIBwss1eQGCOknwVfpYC45
t5YLX6NTMFEwHQYDVR0OBBYEFOuZlbG0tuY2p0Fj0mr1FAtJgOzTMB8GA1UdIwQY
MBaAFOuZlbG0tuY2p0Fj0mr1FAtJgOzTMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZI
zj0EAwIDSAAwRQIgYj7y7luRItT8esrmiImclAXF6EtjRQoLoG5uqbmf1eYCIQCw
jA8l7vckm26cTiXn65I+7YQVOsZMTGS0KFNAoQFqdQ==
-----END CERTIFICATE-----
"""

WRONG = [
    ("no port", KafkaSettings, {"kafka": "broker"}, "kafka: expected HOST:PORT, got 'broker'"),
    ("no host", KafkaSettings, {"kafka": ":9092"}, "kafka: expected HOST:PORT, got ':9092'"),
    ("port is text", KafkaSettings, {"kafka": "a:b"}, "kafka: expected HOST:PORT, got 'a:b'"),
    ("port zero", KafkaSettings, {"kafka": "a:0"}, "kafka: expected HOST:PORT, got 'a:0'"),
    ("port too large", KafkaSettings, {"kafka": "a:99999"}, "kafka: expected HOST:PORT, got 'a:99999'"),
    ("one of several", KafkaSettings, {"kafka": "a:1, b"}, "kafka: expected HOST:PORT, got ' b'"),
    ("empty", KafkaSettings, {"kafka": ""}, "kafka: expected HOST:PORT, got ''"),
    ("unknown protocol", KafkaSettings, {"kafka_security": "TLS"}, "kafka_security: expected PLAINTEXT, SSL, SASL"),
    ("SASL without a user", KafkaSettings, {"kafka_security": "SASL_SSL"}, "kafka_sasl_username and kafka_sasl_passwo"),
    ("SASL without a password", KafkaSettings, SASL | {"kafka_sasl_password": ""}, "are required with"),
    ("unknown mechanism", KafkaSettings, SASL | {"kafka_sasl_mechanism": "MD5"}, "kafka_sasl_mechanism: expected PLAI"),
    ("no CA file", KafkaSettings, {"kafka_tls_ca_file": "/no.pem"}, "kafka_tls_ca_file: there is no file '/no.pem'"),
    ("no key file", KafkaSettings, {"kafka_tls_key_file": "/no.pem"}, "kafka_tls_key_file: there is no file '/no.pem'"),
    (
        "HTTP",
        RedisSettings,
        {"redis_url": "http://u:hush@h"},
        "redis_url: expected a redis://, rediss://, unix:// or redis+sentinel:// URL",
    ),
    ("no scheme", RedisSettings, {"redis_url": "localhost:6379"}, "redis_url: expected a redis://"),
    ("two servers", RedisSettings, {"redis_url": "redis://a:1,b:2"}, "redis_url: not a URL that can be parsed"),
    ("cluster", RedisSettings, {"redis_url": "redis+cluster://h:7000"}, "a cluster can have the windows alone (window"),
    ("sentinels without a name", RedisSettings, {"redis_url": "redis+sentinel://h:1"}, "redis+sentinel://HOST:PORT,H"),
    ("no name but a database", RedisSettings, {"redis_url": "redis+sentinel://h:1//0"}, "redis+sentinel://HOST:PORT"),
    ("no sentinels", RedisSettings, {"redis_url": "redis+sentinel:///main/0"}, "redis+sentinel://HOST:PORT,H"),
    ("one is empty", RedisSettings, {"redis_url": "redis+sentinel://a,,b/main"}, "redis+sentinel://HOST:PORT,H"),
    ("port of a sentinel", RedisSettings, {"redis_url": "redis+sentinel://a:hush/main"}, "redis+sentinel://HOST:PORT"),
    ("database behind", RedisSettings, {"redis_url": "redis+sentinel://a/m/x"}, "expected a database number"),
    ("password behind", RedisSettings, {"redis_url": "redis+sentinel://u:hush@a/m"}, "holds a password"),
    ("sentinels' password", RedisSettings, {"redis_url": "redis+sentinel://a/m/0?sentinel_password=hush"}, "holds a p"),
    ("database is text", RedisSettings, {"redis_url": "redis://h/one"}, "expected a database number after the server"),
    ("password as an option", RedisSettings, {"redis_url": "redis://h?password=hush"}, "redis_url: holds a password"),
    ("empty prefix", RedisSettings, {"prefix": ""}, "prefix: expected text matching regex"),
    ("prefix with a space", KafkaSettings, {"prefix": "a b"}, "prefix: expected text matching regex"),
    ("prefix with a hash tag", KafkaSettings, {"prefix": "{a}"}, "prefix: expected text matching regex"),
    ("broken", RedisSettings, {"redis_url": "redis://[::1"}, "redis_url: not a URL that can be parsed"),
    ("password in it", RedisSettings, {"redis_url": "redis://:hush@h"}, "redis_url: holds a password; give it as WIND"),
    ("no certificate", RedisSettings, {"redis_tls_cert_file": "/no.pem"}, "redis_tls_cert_file: there is no file"),
    ("a key alone", RedisSettings, {"redis_tls_key_file": __file__}, "redis_tls_key_file: redis_tls_cert_file is requ"),
    ("either end: Kafka", PipelineSettings, {"kafka": "x"}, "kafka: expected HOST:PORT"),
    ("either end: Redis", PipelineSettings, {"redis_url": "x"}, "redis_url: expected"),
    ("no node", WindowsSettings, {"windows_url": "redis+cluster://"}, "expected redis+cluster://HOST:PORT,HOST:PORT"),
    ("a cluster's database", WindowsSettings, {"windows_url": "redis+cluster://h/1"}, "expected redis+cluster://HOST"),
    ("its password", WindowsSettings, {"windows_url": "redis+cluster://u:hush@h:1"}, "windows_url: holds a password"),
    ("kinds of windows", WindowsSettings, {"windows_url": "http://h"}, "redis+sentinel:// or redis+cluster:// URL"),
    ("the windows", PipelineSettings, {"windows_url": "redis://:hush@h"}, "windows_url: holds a password"),
]


@pytest.mark.parametrize(("name", "cls", "given", "wanted"), WRONG, ids=[row[0] for row in WRONG])
def test_a_wrong_connection_is_refused_at_start(name, cls, given, wanted):
    environ = {f"WINDWARD_{key.upper()}": value for key, value in given.items()}
    with pytest.raises(SettingsError) as error:
        load_settings(cls, "x", [], environ)
    assert wanted in str(error.value), name
    assert "hush" not in str(error.value)
    assert "\n" not in str(error.value)


def test_plain_kafka():
    settings = KafkaSettings(kafka="a:1, [::1]:2 ,b.example.org:3")
    assert settings.kafka_brokers == ["a:1", "[::1]:2", "b.example.org:3"]
    assert settings.kafka_ssl_context() is None
    assert settings.kafka_python_arguments() == {
        "bootstrap_servers": ["a:1", "[::1]:2", "b.example.org:3"],
        "security_protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    ("security", "tls", "sasl"),
    [("PLAINTEXT", False, False), ("SSL", True, False), ("SASL_PLAINTEXT", False, True), ("SASL_SSL", True, True)],
)
def test_kafka_security(security, tls, sasl):
    """What each protocol needs is given to kafka-python, under names it knows."""
    settings = KafkaSettings(kafka_security=security, kafka_sasl_username="u", kafka_sasl_password="hush")
    arguments = settings.kafka_python_arguments()
    assert ("ssl_context" in arguments) == tls
    if tls:
        assert arguments["ssl_context"].verify_mode == ssl.CERT_REQUIRED
        assert arguments["ssl_context"].check_hostname
    wanted = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "u", "sasl_plain_password": "hush"}
    assert {key: value for key, value in arguments.items() if key.startswith("sasl")} == (wanted if sasl else {})
    for client in (KafkaProducer, KafkaAdminClient):
        assert arguments.keys() <= client.DEFAULT_CONFIG.keys()


def test_a_file_that_is_no_certificate_is_named(tmp_path):
    bad = tmp_path / "bad.pem"
    bad.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    with pytest.raises(SettingsError, match=r"^kafka_tls_ca_file: .*bad\.pem cannot be used: "):
        KafkaSettings(kafka_security="SSL", kafka_tls_ca_file=str(bad)).kafka_ssl_context()
    with pytest.raises(SettingsError, match=r"^kafka_tls_cert_file: .*bad\.pem cannot be used: "):
        KafkaSettings(kafka_security="SSL", kafka_tls_cert_file=str(bad)).kafka_ssl_context()
    with pytest.raises(SettingsError, match=r"^redis_tls_ca_file: .*bad\.pem cannot be used: "):
        RedisSettings(redis_url="rediss://h", redis_tls_ca_file=str(bad)).redis_arguments()


def test_redis_arguments(tmp_path):
    """What ``redis.Redis.from_url`` takes; TLS files only with rediss://."""
    pem = tmp_path / "ca.pem"
    pem.write_text(AUTHORITY)
    plain = RedisSettings(redis_url="redis://h:1/2", redis_password="hush", redis_tls_ca_file=str(pem))
    assert plain.redis_arguments() == {"url": "redis://h:1/2", "password": "hush"}
    tls = RedisSettings(redis_url="rediss://h:1/2", redis_username="u", redis_tls_ca_file=str(pem))
    assert tls.redis_arguments() == {"url": "rediss://h:1/2", "username": "u", "ssl_ca_certs": str(pem)}
    assert plain.redis_arguments("rediss://other") == {
        "url": "rediss://other",
        "password": "hush",
        "ssl_ca_certs": str(pem),
    }
    assert tls.redis_arguments("redis://other") == {"url": "redis://other", "username": "u"}
    known = inspect.signature(redis.SSLConnection.__init__).parameters.keys()
    assert {key for key in tls.redis_arguments() if key.startswith("ssl")} <= known
    with redis.Redis.from_url(**tls.redis_arguments()) as client:
        assert client.connection_pool.connection_kwargs["username"] == "u"
    assert RedisSettings(redis_url="unix:///run/redis.sock?db=1").redis_arguments() == {
        "url": "unix:///run/redis.sock?db=1"
    }


def test_the_prefix_names_every_key_and_topic():
    """Two fleets on one broker and one Redis differ by it alone."""
    names = PipelineSettings(prefix="blue").names
    assert names.samples_topic == "blue.samples.v1"
    assert names.windows(0) == "blue:v1:windows:{0}"


FORMS = [
    ("redis+sentinel://a:1/main", [("a", 1)], "main", "redis://localhost/"),
    ("redis+sentinel://a,b:2,c/main/3", [("a", 26379), ("b", 2), ("c", 26379)], "main", "redis://localhost/3"),
    ("rediss+sentinel://u@a/my%2Fmain/0", [("a", 26379)], "my/main", "rediss://u@localhost/0"),
    ("redis+sentinel://[::1]:1,[::2]/m/0", [("::1", 1), ("::2", 26379)], "m", "redis://localhost/0"),
    ("redis+sentinel://u:p%40w@a,b/m/1?protocol=3", [("a", 26379), ("b", 26379)], "m",
     "redis://u:p%40w@localhost/1?protocol=3"),
]  # fmt: skip
WRONG_SENTINELS = [
    "redis+sentinel://", "redis+sentinel://a", "redis+sentinel://a:1/", "redis+sentinel://a:1//0",
    "redis+sentinel:///main", "redis+sentinel://a,,b/main", "redis+sentinel://a:x/main", "redis+sentinel://[::1/main",
    "redis+sentinel://a?b=1/main", "redis+sentinel://a#b/main", "unix+sentinel://a/main", "redis+sentinel://a:0x1/m",
    "redis+sentinel://a/m#b",
]  # fmt: skip


@pytest.mark.parametrize(("url", "hosts", "name", "server"), FORMS)
def test_what_a_url_says_of_sentinels(url, hosts, name, server):
    """Each sentinel with its port, the name, and what is the server's own."""
    assert sentinels_in(url) == (hosts, name, server)


@pytest.mark.parametrize("url", WRONG_SENTINELS)
def test_a_url_that_names_no_sentinels_is_refused(url):
    with pytest.raises(ValueError):
        sentinels_in(url)


@pytest.mark.parametrize("url", ["redis://a:1/2", "rediss://a", "unix:///run/s"])
def test_one_server_is_that_of_redis_py(url):
    mine, theirs = connected(redis.Redis, url, username="u"), redis.Redis.from_url(url, username="u")
    assert mine.connection_pool.connection_class is theirs.connection_pool.connection_class
    assert mine.connection_pool.connection_kwargs["username"] == "u"
    assert type(mine.connection_pool) is type(theirs.connection_pool)


@pytest.mark.parametrize("kind", [redis.Redis, redis.asyncio.Redis])
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("in_url", [False, True])
def test_each_end_has_its_own_user(kind, tls, in_url):
    """The server's and the sentinels', in the URL or beside it; TLS goes to both."""
    more = {"ssl_ca_certs": "ca.pem"} if tls else {}
    theirs = {"sentinel_username": "su", "sentinel_password": "sp"}
    options = "?sentinel_username=su&sentinel_password=sp" if in_url else ""
    scheme = "rediss" if tls else "redis"
    url = f"{scheme}+sentinel://u:p@a:1,b/main/2{options}"
    found = connected(kind, url, socket_timeout=7.0, **more, **({} if in_url else theirs))
    pool = found.connection_pool
    assert pool.service_name == "main"
    server = pool.connection_kwargs
    assert (server["username"], server["password"], server["db"], server["socket_timeout"]) == ("u", "p", 2, 7.0)
    assert issubclass(pool.connection_class, redis.asyncio.SSLConnection | redis.SSLConnection) == tls
    assert type(found) is kind
    for sentinel, address in zip(pool.sentinel_manager.sentinels, [("a", 1), ("b", 26379)], strict=True):
        of = sentinel.connection_pool.connection_kwargs
        assert (of["host"], of["port"]) == address
        assert (of["username"], of["password"], of["socket_timeout"]) == ("su", "sp", 0.5)
        assert of.get("db", 0) == 0
        assert (
            issubclass(sentinel.connection_pool.connection_class, redis.asyncio.SSLConnection | redis.SSLConnection)
            == tls
        )
        assert of.get("ssl_ca_certs") == ("ca.pem" if tls else None)


def test_an_error_names_each_sentinel_shortly():
    with (
        connected(redis.Redis, "redis+sentinel://127.0.0.1:1,localhost:2/m") as server,
        pytest.raises(redis.ConnectionError) as error,
    ):
        server.ping()
    said = in_words(error.value)
    assert said.startswith("No master found for 'm' : 127.0.0.1:1 - ")
    assert ", localhost:2 - " in said
    assert len(said) < 120


def test_sentinels_have_no_password_of_the_server():
    pool = connected(redis.Redis, "redis+sentinel://u:p@a/main").connection_pool
    assert pool.sentinel_manager.sentinels[0].connection_pool.connection_kwargs["password"] is None


CLUSTERS = [
    ("redis+cluster://a:1", [("a", 1)], "redis://n:9/0"),
    ("redis+cluster://a,b:2,c/0", [("a", 6379), ("b", 2), ("c", 6379)], "redis://n:9/0"),
    ("rediss+cluster://u@a/", [("a", 6379)], "rediss://u@n:9/0"),
    ("redis+cluster://[::1]:1,[::2]?protocol=2", [("::1", 1), ("::2", 6379)], "redis://n:9/0?protocol=2"),
    ("redis+cluster://u%7B:p%40w@a?client_name={x}", [("a", 6379)], "redis://u%7B:p%40w@n:9/0?client_name={x}"),
]
WRONG_NODES = [
    "redis+cluster://", "redis+cluster:///0", "redis+cluster://a/1", "redis+cluster://a,,b", "redis+cluster://a:x",
    "redis+cluster://[::1", "redis+cluster://a#b", "unix+cluster://a", "redis+cluster://a/main/0",
]  # fmt: skip


@pytest.mark.parametrize(("url", "hosts", "node"), CLUSTERS)
def test_what_a_url_says_of_a_cluster(url, hosts, node):
    found = nodes_in(url)
    assert (found.hosts, found.url(("n", 9))) == (hosts, node)


@pytest.mark.parametrize("url", WRONG_NODES)
def test_a_url_that_names_no_nodes_is_refused(url):
    with pytest.raises(ValueError):
        nodes_in(url)


@pytest.mark.parametrize("url", ["redis://a:1/2", "unix:///run/s", "redis+sentinel://a/main"])
def test_another_url_is_no_cluster(url):
    assert nodes_in(url) is None


@pytest.mark.parametrize("key", ["", "a", "{a}b", "x{}y", "{a", "a}{b}", "{{a}}", "p:v1:windows:{12}:changes"])
def test_the_slot_of_a_key_is_that_of_redis(key):
    assert slot_of(key) == slot_of(key.encode()) == key_slot(key.encode())


@pytest.mark.parametrize("prefix", ["windward", "a.b-c_D"])
def test_all_keys_of_a_partition_share_a_slot(prefix):
    names = Names(prefix)
    for number in (0, 7, 123):
        keys = [
            names.windows(number), names.window_changes(number), names.instance_usage(number), names.facts(number),
            names.state(number), names.slots(number, 359), names.peaks(number, 49), names.vitals(number),
        ]  # fmt: skip
        assert {slot_of(key) for key in keys} == {slot_of(f"{{{number}}}")}


def topology(*ranges, now_s=0.0):
    """Nodes whose first and last slot and port are given; the host is h, the node that was asked a:1."""
    found = Topology(nodes_in("redis+cluster://a:1,b:2"))
    found.learn([[first, last, [b"h", port, b"id"]] for first, last, port in ranges], ("a", 1), now_s)
    return found


KEY = "{0}"
SLOT = slot_of(KEY)


def test_which_node_has_a_key():
    found = topology((0, SLOT - 1, 1), (SLOT, SLOT, 2), (SLOT + 2, SLOTS - 1, 3))
    assert found.at(KEY) == ("h", 2)
    assert found.primaries == [("h", 1), ("h", 2), ("h", 3)]
    assert found.uncovered == 1
    assert not found.due(2 * LOOK_S)
    with pytest.raises(NoNode, match=str(SLOT)):
        topology((0, SLOT - 1, 1), (SLOT + 1, SLOTS - 1, 3)).at(KEY)
    lost = topology((SLOT + 1, SLOTS - 1, 3))
    with pytest.raises(NoNode):
        lost.at(KEY)
    assert lost.due(LOOK_S)


@pytest.mark.parametrize("host", [b"", None, "?"])
def test_a_node_that_does_not_know_its_name_is_the_one_asked(host):
    found = topology((0, 1, 1))
    found.learn([[0, SLOTS - 1, [host, 7]]], ("a", 1), 0.0)
    assert found.at(KEY) == ("a", 7)


def test_a_slot_that_moved_is_another_node_s_at_once():
    """Before the next look, which is then due; a message without a host means the host that sent it."""
    found = topology((0, SLOTS - 1, 1))
    assert found.moved(SLOT, "", 5, ("h", 1)) == found.at(KEY) == ("h", 5)
    assert found.at("{1}") == ("h", 1)
    assert not found.due(LOOK_S / 2)
    assert found.due(LOOK_S)
    found.learn([[0, SLOTS - 1, [b"h", 6]]], ("h", 1), LOOK_S)
    assert found.at(KEY) == ("h", 6)


def test_a_node_that_is_away_is_tried_once_a_second_and_asked_last():
    """The others are looked at until it answers, or has no slots any more."""
    found = topology((0, 99, 1), (100, SLOTS - 1, 2))
    found.failed(("h", 1), 10.0)
    assert found.is_away(("h", 1))
    assert not found.may_try(("h", 1), 10.0 + RETRY_S / 2)
    assert found.may_try(("h", 1), 10.0 + RETRY_S)
    assert found.may_try(("h", 2), 10.0)
    assert found.hosts()[-1] == ("h", 1)
    assert {("a", 1), ("b", 2)} <= set(found.hosts())
    assert found.due(10.0)
    found.learn([[0, 99, [b"h", 1]], [100, SLOTS - 1, [b"h", 2]]], ("h", 2), 10.0)
    assert found.is_away(("h", 1))
    assert found.due(10.0 + 2 * LOOK_S)
    found.learn([[0, 99, [b"h", 3], [b"h", 1]], [100, SLOTS - 1, [b"h", 2]]], ("h", 2), 10.0)
    assert not found.is_away(("h", 1))
    assert ("h", 1) in found.hosts()
    found.failed(("h", 2), 10.0)
    found.answered(("h", 2))
    assert not found.due(10.0 + 2 * LOOK_S)


def test_nothing_is_known_at_first():
    """It is looked for at once, and again as often as it is asked."""
    found = Topology(nodes_in("redis+cluster://a:1,b:2"))
    assert found.due(0.0)
    found.missed(0.0)
    assert found.due(0.0)
    assert found.hosts() == [("a", 1), ("b", 2)]
