"""The page server: what a scraper may ask for, and what a client can hold of it."""

import base64
import gzip
import http.client
import os
import resource
import socket
import ssl
import struct
import time
from contextlib import closing, contextmanager, suppress

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from schemas.process import page_server
from schemas.process.metrics import Table, counter, gauge, histogram
from schemas.process.page_server import PageServer
from schemas.process.pages import Pages, metrics_of, serve_pages, while_accepting
from schemas.process.presence import always_ready
from schemas.process.settings import SettingsError
from tests.support.pages import certificate

THINGS = b'windward_test_things_total{fleet="windward"} 3.0'


@pytest.fixture
def registry():
    registry = CollectorRegistry()
    Counter("windward_test_things", "Things", registry=registry).inc(3)
    return registry


@pytest.fixture
def port(registry):
    with stopped(serve_pages(registry, "127.0.0.1", 0, lambda: (True, {}), fleet="windward")) as server:
        yield server.port


@contextmanager
def stopped(server):
    try:
        yield server
    finally:
        server.stop()


def ask(port, path, method="GET", **headers):
    """Ask once; return status, headers with lower-case names, and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def closed_after_s(connection, deadline_s):
    """Return after how long the other side closed a connection; fail at the deadline."""
    started = time.monotonic()
    connection.settimeout(deadline_s)
    while connection.recv(65_536):
        pass
    return time.monotonic() - started


def test_a_query_string_chooses_families(port):
    status, _, body = ask(port, "/metrics?name[]=windward_test_things_total")
    assert (status, THINGS in body, b"process_" in body) == (200, True, False)
    assert ask(port, "/metrics?name[]=x")[::2] == (200, b"")
    assert ask(port, "/ready?x=1")[0] == ask(port, "/live?x=1")[0] == 200


@pytest.mark.parametrize("path", ["/metrics?name[]=windward_test_things_total", "/live", "/ready", "/else"])
def test_head_is_get_without_the_body(port, path):
    """The same status and length, and nothing after the header."""
    status, headers, body = ask(port, path)
    for_head, its_headers, nothing = ask(port, path, "HEAD")
    assert (for_head, its_headers["content-length"], nothing) == (status, headers["content-length"], b"")
    assert int(headers["content-length"]) == len(body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "X"])
def test_other_methods_are_refused(port, method):
    status, headers, _ = ask(port, "/metrics", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_gzip_is_given_to_those_who_ask(port):
    _, headers, body = ask(port, "/metrics", **{"Accept-Encoding": "gzip"})
    assert headers["content-encoding"] == "gzip"
    assert THINGS in gzip.decompress(body)
    assert "content-encoding" not in ask(port, "/metrics")[1]


def test_every_series_says_its_fleet(registry):
    """Also those of the process itself; a label of that name that a metric has is not replaced."""
    Counter("windward_test_owned", "Has one", ["fleet"], registry=registry).labels("mine").inc()
    with stopped(serve_pages(registry, "127.0.0.1", 0, lambda: (True, {}), fleet="north")) as server:
        _, _, body = ask(server.port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    fleets = {
        one.name: one.labels["fleet"] for each in text_string_to_metric_families(body.decode()) for one in each.samples
    }
    assert fleets.pop("windward_test_owned_total") == "mine"
    assert {"windward_test_things_total", "process_resident_memory_bytes", "python_info"} <= fleets.keys()
    assert set(fleets.values()) == {"north"}


def test_open_metrics_is_given_to_those_who_ask(port):
    """Its parser reads the page to the end; text is the default."""
    _, headers, body = ask(port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in text_string_to_metric_families(body.decode())}
    assert {"windward_test_things", "process_resident_memory_bytes", "python_info", "python_gc_collections"} <= names
    assert ask(port, "/metrics")[1]["content-type"].startswith("text/plain; version=0.0.4")


def test_no_series_is_doubled_by_its_time_of_creation(port):
    for accept in ("text/plain", "application/openmetrics-text; version=1.0.0"):
        assert b"_created" not in ask(port, "/metrics", Accept=accept)[2]


def test_one_answer_is_one_write(port):
    """Header and body arrive in one read: two writes would wait for each other's acknowledgement."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        for _ in range(20):
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(65_536).endswith(b'\r\n\r\n{"live":true}')


def test_a_server_that_is_woken_while_it_is_told_to_stop(registry):
    """Its descriptors are closed after the last write to them: a number that is free again may be another file's."""
    server = serve_pages(registry, "127.0.0.1", 0, lambda: (True, {}), fleet="windward")
    trigger = server._server.trigger
    write = trigger._physical_pull

    def woken_by_another_too():
        write()
        server._thread.join(0.3)
        write()

    trigger._physical_pull = woken_by_another_too
    server.stop()
    assert not server._thread.is_alive()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n", b"413"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"GET http://[ HTTP/1.1\r\n\r\n", b""),
        (b"GET http://[x]/ HTTP/1.1\r\n\r\n", b""),
    ],
)
def test_a_bad_request_is_refused_and_the_next_is_served(port, request_, status, caplog):
    """Not HTTP, a header without end, a body nobody wants, TLS on a plain port, no address: the log says nothing."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(request_)
        assert connection.recv(100)[9:12] == status
    assert ask(port, "/live")[0] == 200
    assert not caplog.text


@pytest.fixture
def hurried():
    """A server with room for four connections, which waits a second for each."""
    server = PageServer(
        Pages(metrics_of(CollectorRegistry(), "windward"), lambda: (True, {})),
        "127.0.0.1",
        0,
        connections_max=4,
        timeout_s=1,
    )
    yield server
    server.stop()


@pytest.mark.parametrize("slowly", [b"", b"G", b"GET /live HTTP/1.1\r\nX: 1\r\n"])
def test_a_connection_that_asks_nothing_is_closed(hurried, slowly):
    """Silent, or with half a request, however often it sends a byte more of it."""
    with socket.create_connection(("127.0.0.1", hurried.port), 5) as connection:
        started = time.monotonic()
        connection.setblocking(False)
        ended = False
        while not ended and time.monotonic() < started + 10:
            try:
                if slowly:
                    connection.send(slowly[:1])
                ended = connection.recv(100) == b""
            except BlockingIOError:
                time.sleep(0.05)
            except ConnectionError:
                ended = True
        assert ended
        assert 0.9 < time.monotonic() - started < 8


def test_readers_that_do_not_read_hold_a_bounded_amount():
    """Those that wait longest are closed before another answer is made; one that reads has its whole page."""
    page, most = 16 * 2**20, 40 * 2**20

    def big(_, start_response):
        start_response("200 OK", [("Content-Length", str(page))])
        return [b"x" * page]

    server = PageServer(big, "127.0.0.1", 0, unsent_bytes_max=most)
    held, highest = [], 0
    try:
        for _ in range(12):
            held.append(socket.create_connection(("127.0.0.1", server.port)))
            held[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert held[-1].recv(1)
            highest = max(highest, server._server.unsent_bytes())
        assert len(ask(server.port, "/")[2]) == page
    finally:
        for one in held:
            one.close()
        server.stop()
    assert highest <= most + 2 * page


def test_a_connection_is_kept_between_scrapes(hurried):
    with socket.create_connection(("127.0.0.1", hurried.port), 5) as connection:
        for _ in range(3):
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in connection.recv(65_536)
        assert closed_after_s(connection, 8) > 0.8


def test_a_scrape_gets_past_idle_connections(hurried):
    """At the limit the longest idle one is closed, so the newest is always served."""
    idle = [socket.create_connection(("127.0.0.1", hurried.port), 5) for _ in range(40)]
    try:
        assert ask(hurried.port, "/live")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_a_reader_that_does_not_read_stops_no_other(registry):
    body = b"x" * 20_000_000

    def big(environ, start):
        start("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    server = PageServer(Pages(big, lambda: (True, {})), "127.0.0.1", 0, timeout_s=1)
    readers = [socket.create_connection(("127.0.0.1", server.port), 5) for _ in range(4)]
    try:
        for reader in readers:
            reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert ask(server.port, "/live")[0] == 200
        assert ask(server.port, "/metrics")[2] == body
        ended_at = time.monotonic() + 20
        while server._server.active_channels:  # what they asked is answered, and they read nothing
            assert time.monotonic() < ended_at
            time.sleep(0.05)
        assert all(closed_after_s(reader, 5) < 5 for reader in readers)
    finally:
        for reader in readers:
            reader.close()
        server.stop()


@pytest.mark.parametrize("given", ["", "Basic", "Basic !", "Bearer x", "Basic " + base64.b64encode(b"a:c").decode()])
def test_pages_with_a_password_want_it(registry, given):
    pages = Pages(metrics_of(registry, "windward"), lambda: (True, {}), ("a", "b"))
    with stopped(PageServer(pages, "127.0.0.1", 0)) as server:
        for path in ("/metrics", "/ready", "/"):
            assert ask(server.port, path, **({"Authorization": given} if given else {}))[0] == 401
        right = "Basic " + base64.b64encode(b"a:b").decode()
        assert ask(server.port, "/metrics", Authorization=right)[0] == ask(server.port, "/live")[0] == 200


def with_tls(folder):
    """Return a certificate for loopback, and a server's context with it."""
    cert, key = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # ssl itself drops what has left
@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_a_listener_with_tls_goes_on_after_clients_that_leave(tmp_path, said):
    """They reset before they are accepted, without TLS, or inside of the handshake: 500 times."""
    _, context = with_tls(tmp_path)
    with stopped(
        PageServer(Pages(metrics_of(CollectorRegistry(), "x"), always_ready), "127.0.0.1", 0, context=context)
    ) as server:
        for _ in range(500):
            with socket.create_connection(("127.0.0.1", server.port), 5) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with suppress(ConnectionError):
                    one.sendall(said)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, timeout=5, context=ssl._create_unverified_context()
        )
        connection.request("GET", "/live")
        assert connection.getresponse().status == 200
        connection.close()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_listener_goes_on_after_any_failure_of_a_connection(port, monkeypatch):
    for kind in (OSError, ssl.SSLError, MemoryError, ValueError, RuntimeError):

        def fails(*_, kind=kind, **__):
            raise kind

        with monkeypatch.context() as patched:
            patched.setattr(page_server._Channel, "__init__", fails)
            with socket.create_connection(("127.0.0.1", port), 5) as one:
                assert one.recv(1) == b""
        assert ask(port, "/live")[0] == 200


def test_a_process_whose_listener_ended_is_not_ready(registry):
    server = serve_pages(registry, "127.0.0.1", 0, always_ready, fleet="windward")
    ready = while_accepting(server, lambda: (True, {"machines": 3}))
    assert ready() == (True, {"machines": 3})
    server.stop()
    yes, details = ready()
    assert (yes, details["machines"]) == (False, 3)
    assert "accepts no connections" in details["error"]


def test_a_process_without_a_descriptor_for_one_more_connection_is_not_ready(registry):
    """As a connection that is open already is told; with descriptors it is ready again."""
    server = serve_pages(registry, "127.0.0.1", 0, always_ready, fleet="f")
    limits, said = resource.getrlimit(resource.RLIMIT_NOFILE), []
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)) as connection:
        connection.connect()
        os.close(first_free := os.dup(0))
        for most in (limits[0], first_free, limits[0]):
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
                connection.request("GET", "/ready")
                answer = connection.getresponse()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            said.append((answer.status, b"accepts no connections" in answer.read()))
    server.stop()
    assert said == [(200, False), (503, True), (200, False)]


def test_tls_is_spoken_and_a_silent_client_blocks_no_other(tmp_path):
    """A large page arrives whole; one that never shakes hands, and one without TLS, are dropped."""
    cert, context = with_tls(tmp_path)
    body = bytes(range(256)) * 20_000

    def big(environ, start):
        start("200 OK", [])
        return [body]

    server = PageServer(Pages(big, lambda: (True, {})), "127.0.0.1", 0, context=context, timeout_s=1)
    silent = socket.create_connection(("127.0.0.1", server.port), 5)
    plain = socket.create_connection(("127.0.0.1", server.port), 5)
    try:
        plain.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
        trusting = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=5, context=trusting)
        for _ in range(3):
            connection.request("GET", "/metrics")
            assert connection.getresponse().read() == body
        connection.close()
        assert closed_after_s(silent, 8) < 8
        with pytest.raises(ConnectionError):
            closed_after_s(plain, 8)
            plain.sendall(b"x")
            plain.sendall(b"x")
    finally:
        silent.close()
        plain.close()
        server.stop()


@pytest.mark.parametrize(("size", "status"), [(0, 200), (1_000_000, 200), (1_000_001, 413)])
def test_a_body_is_read_up_to_its_bound(size, status):
    def length(environ, start):
        start("200 OK", [])
        return [str(len(environ["wsgi.input"].read())).encode()]

    with stopped(PageServer(length, "127.0.0.1", 0, body_bytes_max=1_000_000)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.putrequest("POST", "/")
        connection.putheader("Content-Length", str(size))
        connection.endheaders(b"x" * size if status == 200 else None)
        answer = connection.getresponse()
        assert answer.status == status
        assert status != 200 or answer.read() == str(size).encode()
        connection.close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "256.1.1.1", "192.0.2.1"])
def test_a_wrong_address_is_a_wrong_setting(registry, host):
    with pytest.raises(SettingsError, match=r"^metrics_port: cannot listen on "):
        serve_pages(registry, host, 0, lambda: (True, {}), fleet="windward")


def test_a_stopped_server_frees_its_port(registry):
    server = serve_pages(registry, "127.0.0.1", 0, lambda: (True, {}), fleet="windward")
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        assert ask(server.port, "/live")[0] == 200
        server.stop()
        assert closed_after_s(connection, 5) < 5
    again = serve_pages(registry, "127.0.0.1", server.port, lambda: (True, {}), fleet="windward")
    again.stop()


class Metrics(Table):
    PROCESS = "try"

    done = counter("windward_try_done", "Done, by kind and result", kind=("a", "b"), result=("ok",))
    asked = counter("windward_try_asked", "Asked, by whom", who=())
    held = gauge("windward_try_held", "Held")
    seconds = histogram("windward_try_seconds", "Time", (1.0, 2.0), verb=("get",))


def test_known_labels_begin_at_0():
    """All combinations of them; a label whose values are not known has none, and a metric without labels is 0."""
    lines = generate_latest(Metrics("7").registry).decode().splitlines()
    shown = [line for line in lines if not line.startswith("#") and "_created" not in line]
    assert [line for line in shown if "done" in line] == [
        'windward_try_done_total{kind="a",result="ok"} 0.0', 'windward_try_done_total{kind="b",result="ok"} 0.0',
    ]  # fmt: skip
    assert not [line for line in shown if "asked" in line]
    assert "windward_try_held 0.0" in shown
    assert 'windward_try_seconds_bucket{le="2.0",verb="get"} 0.0' in shown
    assert 'windward_try_build_info{version="7"} 1.0' in shown


def test_each_table_counts_for_itself():
    one, other = Metrics(), Metrics()
    one.done.labels("a", "ok").inc()
    assert 'windward_try_done_total{kind="a",result="ok"} 0.0' in generate_latest(other.registry).decode()
