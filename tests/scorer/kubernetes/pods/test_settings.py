"""How the API server is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas.process.settings import SettingsError, load_settings
from scorer.kubernetes import kubernetes_settings as module
from scorer.kubernetes.pods.settings import PodsSettings


def made(*flags: str) -> PodsSettings:
    """Return the settings by these flags."""
    return load_settings(PodsSettings, "pods", ["--kubernetes", "east", *flags], {})


def test_in_a_pod_it_is_that_of_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encrypted, with the account's token and authority."""
    monkeypatch.setattr(module, "ACCOUNT", tmp_path)
    monkeypatch.setattr("ssl.create_default_context", lambda cafile: f"trusts {cafile}")
    (tmp_path / "token").write_text("one")
    api: Any = made().api({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"})
    assert (api.host, api.port, api.tls, api.token_file) == (
        "10.0.0.1", 6443, f"trusts {tmp_path / 'ca.crt'}", tmp_path / "token",
    )  # fmt: skip


def test_elsewhere_it_is_the_one_named() -> None:
    """A proxy on loopback needs neither token nor TLS."""
    api = made("--api-url", "http://127.0.0.1:8001").api({})
    assert (api.host, api.port, api.tls, api.token_file) == ("127.0.0.1", 8001, None, None)
    assert made("--api-url", "https://[fd00::1]").api({}).port == 443


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        ((), "api_url: required outside of a pod"),
        (("--api-url", "ftp://a"), "api_url: expected"),
        (("--api-url", "https://me:secret@a"), "api_url: expected"),
        (("--api-url", "http://a:x"), "api_url: expected"),
        (("--api-url", "http://a", "--token-file", "/dev/null"), "a token is sent over https:// only"),
        (("--api-url", "https://a", "--token-file", "/nowhere"), "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_named(flags: tuple[str, ...], about: str) -> None:
    """Before anything is asked; no secret is shown."""
    with pytest.raises(SettingsError, match=about) as error:
        made(*flags).api({})
    assert "secret" not in str(error.value)


def test_classes_and_cluster() -> None:
    """A class must be one of ours; the cluster must have a name."""
    assert made("--classes", "night=batch").reading.classes == {"night": "batch"}
    with pytest.raises(SettingsError, match="classes: 'night=low'"):
        made("--classes", "night=low")
    with pytest.raises(SettingsError, match="kubernetes: required"):
        _ = load_settings(PodsSettings, "pods", [], {}).reading
