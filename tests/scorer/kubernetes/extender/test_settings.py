"""Who may ask the extender: nobody beyond loopback without a certificate."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.process.settings import SettingsError, load_settings
from scorer.kubernetes.extender.settings import ExtenderSettings

CERT, KEY, CA = "--listen-tls-cert-file", "--listen-tls-key-file", "--listen-client-ca-file"
REFUSED: list[tuple[str, list[str], str]] = [
    # name, flags, what the error says
    ("all addresses", ["--listen-host", "0.0.0.0"],
     "listen_tls_cert_file, listen_tls_key_file, listen_client_ca_file: required where listen_host is not loopback"),
    ("without authorities", [CERT, "a", KEY, "b"], "listen_client_ca_file: required beside"),
    ("without a key", ["--listen-host", "0.0.0.0", CERT, "a", CA, "b"], "listen_tls_key_file: required beside"),
    ("names without certificates", ["--client-names", "a"], "client_names: there are no certificates"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_does_not_start(flags: list[str], said: str) -> None:
    """The error names the settings."""
    with pytest.raises(SettingsError, match=said):
        load_settings(ExtenderSettings, "extender", ["--kubernetes", "east", *flags], {})


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """No file, or none of a certificate; on loopback there may be none."""
    none = str(tmp_path / "none")
    settings = load_settings(ExtenderSettings, "extender", [CERT, none, KEY, none, CA, none], {})
    with pytest.raises(SettingsError, match="listen_tls_cert_file"):
        settings.server_tls()
    assert load_settings(ExtenderSettings, "extender", [], {}).server_tls() is None
