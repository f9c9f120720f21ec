"""What anyone who reaches a port can do at worst is the table of docs/security.md: each cell is tried."""

import base64
import http.client
import json
import socket
import ssl
import struct
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ops.stack.servers.process import LOOPBACK
from schemas.process.page_server import CONNECTIONS_MAX
from tests.integration.kubernetes.test_extender import certificates
from tests.integration.kubernetes.test_load_watcher import load_watcher
from tests.integration.observe.test_exporter import certificate, exporter, fill
from tests.support.extender_process import extender, pod
from tests.support.pages import eventually

PAGE = Path(__file__).parents[3] / "docs/security.md"
METHODS = ("POST", "PUT", "PATCH", "DELETE")
PATHS = ("/metrics", "/ready", "/live", "/watcher", "/prioritize", "/filter", "/bind")


@dataclass
class Port:
    """A port as one sees it who has no password and no certificate of a known name."""

    number: int
    context: ssl.SSLContext | None = None

    def ask(self, method, path, body=None):
        """Return status and body; 0 where the connection is refused or closed."""
        kind = http.client.HTTPConnection
        more = {} if self.context is None else {"context": self.context}
        if self.context is not None:
            kind = http.client.HTTPSConnection
        with closing(kind(LOOPBACK, self.number, timeout=8, **more)) as connection:
            try:
                connection.request(method, path, None if body is None else json.dumps(body))
                answer = connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                return 0, b""

    def reset(self):
        """Connect, and reset before anything is accepted."""
        with suppress(ConnectionError), socket.create_connection((LOOPBACK, self.number), 5) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def answers(self):
        """Whether the listener answers: by a status, or by closing a handshake without a certificate."""
        if self.ask("GET", "/live")[0]:
            return True
        with socket.create_connection((LOOPBACK, self.number), 5) as one:
            one.sendall(b"\x16\x03\x01\x00\x00")
            with suppress(ConnectionError):
                return one.recv(1000) is not None
        return True


def changes(port):
    """Say whether any other method than the verbs' POST is done."""
    return any(
        200 <= port.ask(method, path, {})[0] < 300
        for path in PATHS
        for method in METHODS
        if (method, path) not in (("POST", "/prioritize"), ("POST", "/filter"), ("POST", "/bind"))
    )


def ends(port):
    """Say whether it no longer answers after two hundred resets."""
    for _ in range(200):
        port.reset()
    return not port.answers()


def holds_up(port):
    """Say whether it no longer answers while more connections are open than it keeps."""
    with ExitStack() as held:
        for _ in range(CONNECTIONS_MAX + 8):
            held.enter_context(socket.create_connection((LOOPBACK, port.number), 5))
        return not port.answers()


QUESTION = {"Pod": pod("u"), "NodeNames": ["a"]}
WORST = {
    "reads what the process counts": lambda port: b"process_cpu_seconds" in port.ask("GET", "/metrics")[1],
    "reads the load of every machine": lambda port: (
        b'machine="a"' in port.ask("GET", "/metrics")[1] or b'"a"' in port.ask("GET", "/watcher")[1]
    ),
    "asks which nodes are best": lambda port: port.ask("POST", "/prioritize", QUESTION)[0] == 200,
    "by mode `bind` binds a pod": lambda port: port.ask("POST", "/bind", {"PodName": "x"})[0] == 200,
    "does anything else": changes,
    "ends the listener": ends,
    "keeps others from an answer": holds_up,
}


@pytest.fixture
def ports(valkey, names, tmp_path):
    """One process of each kind, on a fleet of one machine."""
    fill(valkey.url, names, ["a"])
    (tmp_path / "secret").write_text("pass\n")
    cert, key = certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=cert)
    secret = ["--metrics-tls-cert-file", cert, "--metrics-tls-key-file", key, "--metrics-username", "prometheus"]
    folder = certificates(tmp_path, ["server", "other"])
    tls = ["--listen-tls-cert-file", str(folder / "server.crt"), "--listen-tls-key-file", str(folder / "server.key")]
    tls += ["--listen-client-ca-file", str(folder / "ca.crt"), "--client-names", "scheduler"]
    other = ssl.create_default_context(cafile=folder / "ca.crt")
    other.load_cert_chain(folder / "other.crt", folder / "other.key")
    with ExitStack() as running:
        start, prefix = running.enter_context, ("--prefix", names.prefix)
        _, plain = start(exporter(valkey.url, *prefix))
        _, locked = start(exporter(valkey.url, *prefix, *secret, WINDWARD_METRICS_PASSWORD_FILE=f"{tmp_path}/secret"))
        _, watcher = start(load_watcher(valkey.url, names))
        _, verbs, pages = start(extender(valkey.url, names))
        _, guarded, _ = start(extender(valkey.url, names, *tls))
        yield {
            "pages": Port(urlsplit(pages).port or 0),
            "exporter": Port(urlsplit(plain).port or 0),
            "exporter, password": Port(urlsplit(locked).port or 0, trusted),
            "load watcher": Port(urlsplit(watcher).port or 0),
            "extender": Port(verbs),
            "extender, `client_names`": Port(guarded, other),
        }


def test_what_each_port_lets_do_at_worst_is_on_the_page(ports):
    """Each cell of the table is tried by one without a password, or with a certificate of another name."""
    lines = PAGE.read_text().split("| at worst, on the port of |")[1].splitlines()
    columns = [one.strip() for one in lines[0].strip("| ").split("|")]
    said = {
        what.strip(): dict(zip(columns, (cell.strip() for cell in cells), strict=True))
        for what, *cells in (line.strip("|").split("|") for line in lines[2 : lines.index("", 2)])
    }
    assert (columns, said.keys()) == (list(ports), WORST.keys())
    eventually(
        lambda: all(WORST["reads the load of every machine"](ports[one]) for one in ("exporter", "load watcher"))
    )
    eventually(lambda: WORST["asks which nodes are best"](ports["extender"]))
    tried = {what: {one: "yes" if act(port) else "" for one, port in ports.items()} for what, act in WORST.items()}
    assert tried == said

    # the cells of a closed column are empty by the password, not by a page that answers nobody
    locked = ports["exporter, password"]
    with closing(http.client.HTTPSConnection(LOOPBACK, locked.number, timeout=8, context=locked.context)) as connection:
        word = base64.b64encode(b"prometheus:pass").decode()
        connection.request("GET", "/metrics", headers={"Authorization": f"Basic {word}"})
        assert b'machine="a"' in connection.getresponse().read()
