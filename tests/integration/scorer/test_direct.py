"""The commands' own connection: it answers, refuses and fails as the client with redis-py does."""

import socket
import subprocess
import sys
import threading

import msgspec
import pytest
import redis

from scorer.client import Client, WindwardError
from scorer.commands.shared.ask import DirectClient, can_reach
from tests.conftest import free_port, start_valkey, stop

PREFIX = "direct"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with a user, a default user with a password, and a socket: its port, the socket."""
    folder = tmp_path_factory.mktemp("direct")
    port = free_port()
    process = start_valkey(port, folder, "--unixsocket", str(folder / "socket"))
    with redis.Redis(port=port) as client:
        client.acl_setuser("op", enabled=True, passwords=["+s%cret"], keys=["*"], commands=["+@all"])
    yield port, folder / "socket"
    stop(process)


@pytest.fixture
def answering(server):
    """Return a function that makes somebody answer the next query in a database with its own parameters."""
    threads = []

    def answer(database):
        with redis.Redis(port=server[0], db=database) as client:
            query = msgspec.json.decode(client.brpop([f"{PREFIX}:v1:queries"], 20)[1])
            reply = {"v": 1, "id": query["id"], "ok": True, "result": query["params"]}
            client.lpush(f"{PREFIX}:v1:reply:{query['id']}", msgspec.json.encode(reply))

    def start(database):
        threads.append(threading.Thread(target=answer, args=(database,)))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("url", "more", "database"),
    [
        pytest.param("redis://127.0.0.1:{port}", {}, 0, id="no database"),
        pytest.param("redis://127.0.0.1:{port}/0", {}, 0, id="the first"),
        pytest.param("redis://127.0.0.1:{port}/7", {}, 7, id="another"),
        pytest.param("redis://localhost:{port}/", {}, 0, id="by name"),
        pytest.param("unix://{socket}", {}, 0, id="socket"),
        pytest.param("redis://127.0.0.1:{port}/2", {"username": "op", "password": "s%cret"}, 2, id="a user"),
        pytest.param("redis://op:s%25cret@127.0.0.1:{port}/0", {}, 0, id="a user in the URL"),
    ],
)
def test_a_query_is_answered(server, answering, url, more, database):
    """However the server is named; twice over one connection; a long answer comes whole."""
    where = url.format(port=server[0], socket=server[1])
    assert can_reach({"url": where, **more})
    with DirectClient(where, PREFIX, 20.0, **more) as direct:
        for params in ({"cpu": 2.5, "labels": {"a": "ä"}}, {"long": "x" * 300_000}):
            answering(database)
            assert direct.call("rank", params) == params


def failure(kind, url, timeout_s, **more):
    """Return code, message and whether it may be tried again of a call that fails."""
    with kind(url, PREFIX, timeout_s, **more) as client, pytest.raises(WindwardError) as error:
        client.call("health", {})
    return error.value.code, error.value.message, error.value.retryable


@pytest.mark.parametrize(
    ("url", "more"),
    [
        pytest.param("redis://127.0.0.1:1/0", {}, id="nobody listens"),
        pytest.param("redis://127.0.0.1:{port}/0", {}, id="nobody answers"),
        pytest.param("redis://127.0.0.1:{port}/99", {}, id="no such database"),
    ],
)
def test_failures_are_those_of_redis_py(server, url, more):
    """Code, message and whether the call may be tried again."""
    where = url.format(port=server[0])
    assert failure(DirectClient, where, 0.3, **more) == failure(Client, where, 0.3, **more)


def test_a_wrong_password_is_refused_at_once(server):
    code, message, retryable = failure(
        DirectClient, f"redis://127.0.0.1:{server[0]}", 5.0, username="op", password="wrong!"
    )
    assert (code, retryable) == ("UNAUTHENTICATED", False)
    assert "invalid username-password pair" in message
    assert "wrong!" not in message


@pytest.mark.parametrize(
    ("said", "message"),
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak the protocol of Redis", id="another server"),
        pytest.param(b"", "Connection closed by server", id="one that hangs up"),
    ],
)
def test_a_server_that_is_none_is_told(said, message):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        done = threading.Event()

        def talk():
            while not done.is_set():
                try:
                    taken, _ = listening.accept()
                except TimeoutError:
                    continue
                with taken:
                    taken.recv(1000)
                    taken.sendall(said)

        thread = threading.Thread(target=talk)
        thread.start()
        try:
            code, found, retryable = failure(DirectClient, f"redis://127.0.0.1:{listening.getsockname()[1]}", 0.4)
        finally:
            done.set()
            thread.join()
    assert (code, retryable) == ("UNAVAILABLE", True)
    assert message in found


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["place", "--cpu", "2", "--timeout", "100ms", "--redis-url", "redis://127.0.0.1:1/0"],
         {"redis", "asyncio", "numpy", "tomllib", "rich"}),
        (["rank", "--cpu", "2", "--timeout", "100ms", "--redis-url", "redis://127.0.0.1:1/0"],
         {"redis", "asyncio", "numpy", "tomllib", "rich"}),
        (["--version"], {"msgspec", "argparse", "importlib.metadata", "typing"}),
    ],
)  # fmt: skip
def test_a_command_imports_what_it_uses(command, heavy):
    """`tests/bench/bench_start.py` has what a start costs: most of it would be redis-py and asyncio."""
    code = "import sys; known = set(sys.modules); from ops.cli.main import main; main(sys.argv[1:])"
    code += "; print(*(set(sys.modules) - known), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    assert not heavy & set(done.stdout.split())
