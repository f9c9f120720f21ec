"""How Kafka and Redis are reached: what each setting means for the client libraries, and what is refused."""

from __future__ import annotations

import inspect
import ssl
from pathlib import Path
from typing import Any

import pytest
import redis
from kafka import KafkaAdminClient, KafkaProducer

from schemas.process.connections import KafkaSettings, PipelineSettings, RedisSettings, WindowsSettings
from schemas.process.settings import SettingsError, load_settings
from tests.rows import each_row

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

WRONG: list[tuple[str, type[Any], dict[str, str], str]] = [
    ("no port", KafkaSettings, {"kafka": "broker"}, "kafka: expected HOST:PORT, got 'broker'"),
    ("no host", KafkaSettings, {"kafka": ":9092"}, "kafka: expected HOST:PORT, got ':9092'"),
    ("port is text", KafkaSettings, {"kafka": "a:b"}, "kafka: expected HOST:PORT, got 'a:b'"),
    ("port zero", KafkaSettings, {"kafka": "a:0"}, "kafka: expected HOST:PORT, got 'a:0'"),
    ("port too large", KafkaSettings, {"kafka": "a:99999"}, "kafka: expected HOST:PORT, got 'a:99999'"),
    ("one of several", KafkaSettings, {"kafka": "a:1, b"}, "kafka: expected HOST:PORT, got ' b'"),
    ("empty", KafkaSettings, {"kafka": ""}, "kafka: expected HOST:PORT, got ''"),
    ("unknown protocol", KafkaSettings, {"kafka_security": "TLS"}, "kafka_security: expected PLAINTEXT, SSL, SASL"),
    (
        "SASL without a user",
        KafkaSettings,
        {"kafka_security": "SASL_SSL"},
        "kafka_sasl_username and kafka_sasl_password",
    ),
    ("SASL without a password", KafkaSettings, SASL | {"kafka_sasl_password": ""}, "are required with"),
    (
        "unknown mechanism",
        KafkaSettings,
        SASL | {"kafka_sasl_mechanism": "MD5"},
        "kafka_sasl_mechanism: expected PLAIN,",
    ),
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
    (
        "cluster",
        RedisSettings,
        {"redis_url": "redis+cluster://h:7000"},
        "a cluster can have the windows alone (windows_url)",
    ),
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


@each_row(("name", "cls", "given", "wanted"), WRONG, ids=[row[0] for row in WRONG])
def test_a_wrong_connection_is_refused_at_start(name: str, cls: type[Any], given: dict[str, str], wanted: str) -> None:
    """One line with the setting; no password in it."""
    environ = {f"WINDWARD_{key.upper()}": value for key, value in given.items()}
    with pytest.raises(SettingsError) as error:
        load_settings(cls, "x", [], environ)
    assert wanted in str(error.value), name
    assert "hush" not in str(error.value)
    assert "\n" not in str(error.value)


def test_plain_kafka() -> None:
    """The bootstrap list, and no TLS."""
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
def test_kafka_security(security: Any, tls: bool, sasl: bool) -> None:
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


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    """Whichever of the files it is."""
    bad = tmp_path / "bad.pem"
    bad.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    with pytest.raises(SettingsError, match=r"^kafka_tls_ca_file: .*bad\.pem cannot be used: "):
        KafkaSettings(kafka_security="SSL", kafka_tls_ca_file=str(bad)).kafka_ssl_context()
    with pytest.raises(SettingsError, match=r"^kafka_tls_cert_file: .*bad\.pem cannot be used: "):
        KafkaSettings(kafka_security="SSL", kafka_tls_cert_file=str(bad)).kafka_ssl_context()
    with pytest.raises(SettingsError, match=r"^redis_tls_ca_file: .*bad\.pem cannot be used: "):
        RedisSettings(redis_url="rediss://h", redis_tls_ca_file=str(bad)).redis_arguments()


def test_redis_arguments(tmp_path: Path) -> None:
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


def test_the_prefix_names_every_key_and_topic() -> None:
    """Two fleets on one broker and one Redis differ by it alone."""
    names = PipelineSettings(prefix="blue").names
    assert names.samples_topic == "blue.samples.v1"
    assert names.windows(0) == "blue:v1:windows:{0}"
