"""A target of the bridge that is served by TLS, and that asks for a certificate."""

import shutil
import ssl
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from streams.bridge.scraping import Page
from streams.bridge.settings import BridgeSettings
from tests.integration.kubernetes.test_extender import certificates
from tests.support.pages import Answering, serving

pytestmark = [pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl here to make a certificate")]
PAGE = b"node_load1 1\n"


class Handler(Answering, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        self.answer(200, PAGE)


@contextmanager
def target(folder):
    """Serve it to whoever has a certificate of the authority; yields the URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.load_verify_locations(folder / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        yield f"https://127.0.0.1:{server.server_port}/metrics"


def test_a_target_with_an_authority_and_client_certificates(tmp_path):
    """Read with both; refused without the bridge's certificate, and where the authority is not known or is another."""
    folder = certificates(tmp_path, ["server", "bridge"])
    other = tmp_path / "other"
    other.mkdir()
    certificates(other, ["bridge"])
    own = {"scrape_tls_cert_file": str(folder / "bridge.crt"), "scrape_tls_key_file": str(folder / "bridge.key")}
    rows = (
        ({"scrape_tls_ca_file": str(folder / "ca.crt"), **own}, True),
        ({"scrape_tls_ca_file": str(folder / "ca.crt")}, False),
        (own, False),
        ({"scrape_tls_ca_file": str(other / "ca.crt"), **own}, False),
        ({}, False),
    )
    with target(folder) as url:
        for given, read in rows:
            page = Page(url, BridgeSettings(target=(url,), **given).how)
            if read:
                assert page.get() == page.get() == PAGE
            else:
                with pytest.raises((OSError, EOFError)):
                    page.get()
            page.close()
