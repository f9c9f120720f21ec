"""The bodies, with the keys that kube-scheduler 1.34 sends and reads."""

import msgspec
import pytest

from schemas.process.settings import SettingsError, load_settings
from scorer.kubernetes.extender.__main__ import ExtenderSettings
from scorer.kubernetes.extender.protocol import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    HostPriority,
    encode,
    read_args,
    read_binding,
)

ARGS = (
    b'{"Pod":{"metadata":{"name":"p","namespace":"shop","uid":"u-1","resourceVersion":"5","managedFields":[{"manager":"x"}]},'
    b'"spec":{"schedulerName":"windward","containers":[{"name":"c","resources":{"requests":{"cpu":"500m"}}}]},'
    b'"status":{"phase":"Pending","qosClass":"Burstable"}},"Nodes":null,"NodeNames":["n1","n2"]}'
)
ANSWERS = [
    ("scores", [HostPriority("n1", 97), HostPriority("n2", 1)], b'[{"Host":"n1","Score":97},{"Host":"n2","Score":1}]'),
    ("no scores", [], b"[]"),
    ("all kept", ExtenderFilterResult(["n1"]), b'{"NodeNames":["n1"]}'),
    ("none kept", ExtenderFilterResult([], {"n1": "full"}), b'{"NodeNames":[],"FailedNodes":{"n1":"full"}}'),
    ("not cured by eviction", ExtenderFilterResult([], {}, {"n1": "stale"}),
     b'{"NodeNames":[],"FailedAndUnresolvableNodes":{"n1":"stale"}}'),
    ("an error", ExtenderFilterResult(error="no"), b'{"Error":"no"}'),
    ("bound", ExtenderBindingResult(), b"{}"),
    ("not bound", ExtenderBindingResult("full"), b'{"Error":"full"}'),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "body"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_an_answer_has_the_keys_of_go(answer, body):
    assert encode(answer) == body


def test_a_question_is_read_as_it_is_sent():
    found = read_args(ARGS)
    assert found.node_names == ["n1", "n2"]
    assert (found.pod.metadata.uid, found.pod.spec.scheduler_name) == ("u-1", "windward")
    assert found.pod.spec.containers[0].resources.requests == {"cpu": "500m"}
    assert read_args(ARGS.replace(b'["n1","n2"]', b"null")).node_names is None
    binding = read_binding(b'{"PodName":"p","PodNamespace":"shop","PodUID":"u-1","Node":"n1"}')
    assert (binding.pod_name, binding.pod_namespace, binding.pod_uid, binding.node) == ("p", "shop", "u-1", "n1")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"NodeNames":"n1"}', b'{"Pod":3}', b'{"Pod":{}}', b"{}"])
def test_a_body_that_is_none_is_refused(body):
    with pytest.raises(msgspec.DecodeError):
        read_args(body)


CERT, KEY, CA = "--listen-tls-cert-file", "--listen-tls-key-file", "--listen-client-ca-file"
REFUSED = [
    # name, flags, what the error says
    ("all addresses", ["--listen-host", "0.0.0.0"],
     "listen_tls_cert_file, listen_tls_key_file, listen_client_ca_file: required where listen_host is not loopback"),
    ("without authorities", [CERT, "a", KEY, "b"], "listen_client_ca_file: required beside"),
    ("without a key", ["--listen-host", "0.0.0.0", CERT, "a", CA, "b"], "listen_tls_key_file: required beside"),
    ("names without certificates", ["--client-names", "a"], "client_names: there are no certificates"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_does_not_start(flags, said):
    with pytest.raises(SettingsError, match=said):
        load_settings(ExtenderSettings, "extender", ["--kubernetes", "east", *flags], {})


def test_certificates_that_cannot_be_used_are_named(tmp_path):
    """No file, or none of a certificate; on loopback there may be none."""
    none = str(tmp_path / "none")
    settings = load_settings(ExtenderSettings, "extender", [CERT, none, KEY, none, CA, none], {})
    with pytest.raises(SettingsError, match="listen_tls_cert_file"):
        settings.server_tls()
    assert load_settings(ExtenderSettings, "extender", [], {}).server_tls() is None
