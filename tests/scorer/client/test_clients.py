"""The client by itself."""

import ast
import inspect
import pickle
import subprocess
import sys

import msgspec
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from ops.packages import client_files
from schemas.client_keywords import KEYWORDS, client_keywords
from schemas.rpc.envelope import Error, Reply
from schemas.rpc.parameters import RPC
from scorer import client as client_module
from scorer.client import AsyncClient, AsyncPlacement, Client, Placement, WindwardError
from scorer.client import clients as clients_module
from scorer.client.call import Call, instance_id, read
from scorer.placement.choosing.plan import run_to_end
from scorer.rpc.methods.placements import read_batch


def test_its_files_alone_are_a_package(tmp_path):
    """What its wheel holds, in an empty folder, needs redis and msgspec only; no name but its own is at top level."""
    files = client_files.files()
    assert {name.partition("/")[0] for name in files} == {"windward_client"}
    imported = {
        name.name.split(".")[0] if isinstance(node, ast.Import) else (node.module or "").split(".")[0]
        for source in files.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported - set(sys.stdlib_module_names) == {"redis", "msgspec", "windward_client"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    refuse = "sys.modules.update(dict.fromkeys(['schemas', 'streams', 'scorer', 'ops']))"
    code = f"import sys; {refuse}; sys.path.insert(0, {str(tmp_path)!r}); import windward_client as own"
    told = f"{code}; print(dir(own))"
    done = subprocess.run([sys.executable, "-I", "-c", told], check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    found = ast.literal_eval(done.stdout)
    assert found == dir(client_module)
    assert {"AsyncClient", "Client", "PlaceFields", "PlaceResult", "WindwardError"} < set(found)


def test_a_traceback_names_its_error_by_the_client():
    assert WindwardError.__module__ == client_module.__name__


def test_an_error_reaches_another_process_whole():
    error = pickle.loads(pickle.dumps(WindwardError("UNAVAILABLE", "no scorer", retryable=True)))
    assert (str(error), error.code, error.message, error.retryable) == (
        "UNAVAILABLE: no scorer", "UNAVAILABLE", "no scorer", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "word"),
    [({"timeout_s": 0}, "timeout_s"), ({"timeout_s": -1}, "timeout_s"), ({"query_id": "a b"}, "query_id"),
     ({"query_id": "x" * 129}, "query_id"), ({"params": {"cpu": object()}}, "params")],
)  # fmt: skip
def test_wrong_calls_are_refused_before_anything_is_sent(options, word):
    with Client("redis://127.0.0.1:1/0") as client, pytest.raises(WindwardError) as refused:
        client.call("health", **({"params": {}} | options))
    assert refused.value.code == "INVALID_ARGUMENT"
    assert word in refused.value.message


@pytest.mark.parametrize("url", ["redis+cluster://u:secret@h:7000", "http+sentinel://h/m", "u:secret@h:6379"])
def test_clusters_are_refused_by_name(url):
    for kind in (Client, AsyncClient):
        with pytest.raises(WindwardError, match="a cluster is not supported") as refused:
            kind(url)
        assert refused.value.code == "INVALID_ARGUMENT"
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("code", "retryable", "sent"),
    [
        ("UNAVAILABLE", True, 3),
        ("UNAVAILABLE", False, 1),
        ("RESOURCE_EXHAUSTED", True, 1),
        ("DEADLINE_EXCEEDED", True, 1),
        ("INTERNAL", False, 1),
    ],
)
def test_a_query_that_cannot_be_answered_now_is_sent_again(code, retryable, sent, monkeypatch):
    """The same query, by its id; any other refusal is the caller's at once."""
    refusal = Reply(id="q", ok=False, error=Error(code=code, message="not now", retryable=retryable))
    answers = [
        msgspec.json.encode(one) for one in (refusal, refusal, Reply(id="q", ok=True, result=msgspec.Raw(b"{}")))
    ]
    queries, client = list[bytes](), Client()

    def do(step):
        if not step.commands:
            return []
        assert [command[0] for command in step.commands] == ["LPUSH", "BLPOP"]
        queries.append(step.commands[0][2])
        return [1, (b"key", answers[len(queries) - 1])]

    monkeypatch.setattr(client, "_do", do)
    if sent == 3:
        assert client.call("health", {}) == {}
    else:
        with pytest.raises(WindwardError, match="not now") as refused:
            client.call("health", {})
        assert refused.value.code == code
    assert (len(queries), len(set(queries))) == (sent, 1)


def test_why_a_deadline_passed_is_told(monkeypatch):
    """A query that was refused for now, and then taken too late, failed for what it was refused for."""
    errors = [
        Error(code="UNAVAILABLE", message="full", retryable=True),
        Error(code="DEADLINE_EXCEEDED", message="late"),
    ]
    answers = [msgspec.json.encode(Reply(id="q", ok=False, error=error)) for error in errors]
    client = Client()
    monkeypatch.setattr(client, "_do", lambda step: [1, (b"key", answers.pop(0))] if step.commands else [])
    with pytest.raises(WindwardError, match="full"):
        client.call("health", {})


@given(st.floats(1.75e9, 2.7e9), st.floats(1.0, 1e8), *[st.binary(min_size=5, max_size=5)] * 2)
def test_ids_of_instances_sort_by_time(at_s, later_s, first, second):
    """Fourteen characters; of one second they differ by what was drawn, all 40 bits of it."""
    early, late = instance_id(at_s, first), instance_id(at_s + later_s, second)
    assert early < late
    assert len(early) == len(late) == 14
    assert (instance_id(at_s, second) == early) == (first == second)


@pytest.mark.parametrize(
    ("params", "ids"),
    [({"cpu": 1}, [""]), ({"id": "a"}, ["a"]), ({"id": ""}, [""]), ({"instances": 3}, None), ({"instances": [3]}, None),
     ({"instances": [{"cpu": 1}, {"id": "b"}, {}]}, ["", "b", ""]), ({"count": 3}, [""] * 3),
     ({"id": "a", "count": 2}, ["a-1", "a-2"]),
     ({"instances": [{"count": 40}, {"id": "b", "count": 2}, {}]}, [*[""] * 40, "b-1", "b-2", ""])],
)  # fmt: skip
def test_an_instance_without_an_id_gets_one_before_it_is_sent(params, ids):
    """A short one; what is no list of objects goes to the scorer as it is, which says so."""
    sent = msgspec.json.decode(Call("p", "place", params, 1.0, "").query)["params"]
    assert msgspec.json.decode(Call("p", "place", params, 1.0, "mine").query)["params"] == params
    assert msgspec.json.decode(Call("p", "rank", params, 1.0, "").query)["params"] == params
    if ids is None:
        assert sent == params
        return
    found = [one.id for one in run_to_end(read_batch(sent, "query")).requests]
    made = [one for one in found if one[0] not in "ab"]
    assert made == sorted({*made})
    assert [one if one[0] in "ab" else one[14:] for one in found] == ids


def test_a_password_is_not_shown():
    with Client("redis://user:secret@127.0.0.1:1/0", timeout_s=0.1) as client, pytest.raises(WindwardError) as away:
        client.health()
    assert "secret" not in str(away.value)
    assert "127.0.0.1:1" in str(away.value)


def test_its_keywords_are_current():
    assert KEYWORDS.read_text() == client_keywords(), "run python -m schemas.client_keywords"


@pytest.mark.parametrize("method", RPC)
@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_method_returns_the_struct_of_its_result(client, method):
    """The very class that the scorer builds, or one made of it; awaited, where the client is asyncio's."""
    function = getattr(client, method)
    returned = eval(function.__annotations__["return"], vars(client_module))
    assert issubclass(returned, RPC[method].result)
    assert returned.__struct_fields__ == RPC[method].result.__struct_fields__
    assert inspect.iscoroutinefunction(function) == (client is AsyncClient)
    assert next(iter(inspect.signature(function).parameters)) == "self"


PLACED = {"id": "a-1", "machine": "m", "state": "reserved", "reserved_at": 1.0, "version": 7, "generation": 7}


def answer(kind, **fields):
    return read(kind, msgspec.Raw(msgspec.json.encode(fields)))


def test_a_result_reads_like_the_dict_it_was():
    found = answer(Placement, machine="m", placed=[PLACED], later_field=1)
    assert (found["machine"], found.get("machine"), found.machine) == ("m", "m", "m")
    assert found["placed"][0]["id"] == found.placed[0].id == "a-1"
    assert "machine" in found
    assert "later_field" not in found
    assert found.get("later_field", 5) == 5
    assert found.get("confirm") is None
    assert set(dict(found)) == set(RPC["place"].result.__struct_fields__) == set(found.keys())
    assert dict(found.items())["asked"] == 0
    assert len(found) == len(found.values())
    assert msgspec.to_builtins(found)["placed"][0]["machine"] == "m"
    with pytest.raises(KeyError):
        found["confirm"]


@pytest.mark.parametrize("kind", [Placement, AsyncPlacement])
def test_a_placement_steps_on_its_own_reservation(kind):
    sent = []

    class Scorer:
        def confirm(self, instance_id, **more):
            sent.append((instance_id, more))
            return self

        def __await__(self):
            return iter(())

    found = answer(kind, machine="m", id="a", generation=7, placed=[PLACED])
    found._of(Scorer())
    many = answer(kind, placed=[PLACED, PLACED | {"id": "a-2", "generation": 0}])
    many._of(Scorer())
    for one in (found, *many.placed):
        step = one.confirm(started_at=5)
        if kind is AsyncPlacement:
            with pytest.raises(StopIteration):
                step.send(None)
    assert sent == [
        ("a", {"timeout_s": None, "generation": 7, "started_at": 5}),
        ("a-1", {"timeout_s": None, "generation": 7, "started_at": 5}),
        ("a-2", {"timeout_s": None, "started_at": 5}),
    ]
    with pytest.raises(WindwardError, match="FAILED_PRECONDITION"):
        step = many.confirm()
        if kind is AsyncPlacement:
            step.send(None)


def test_an_answer_of_another_shape_is_an_error_in_words():
    with pytest.raises(WindwardError, match="INTERNAL: the answer cannot be read"):
        answer(Placement, machine=7)


class Pool:
    def __init__(self):
        self.connection_pool = self
        self.given = self.returned = 0
        self.fails = False

    def get_connection(self):
        self.given += 1
        return self

    def release(self, _connection):
        self.returned += 1

    def send_packed_command(self, _packed, check_health):
        if self.fails:
            raise redis.ConnectionError("gone")
        assert not check_health

    def read_response(self, timeout):
        assert timeout > 0
        return [b"reply", b'{"id": "q", "ok": true, "result": {}}']

    def disconnect(self):
        """End one."""

    close = disconnect


def test_a_connection_goes_back_to_the_pool_when_it_is_idle_broken_or_of_another_process(monkeypatch):
    """Calls one after the other share one; the pool tests and renews all others, and has all of them after `close`."""
    client, pool = Client(timeout_s=0.05), Pool()
    monkeypatch.setattr(client, "_redis", pool)
    for _ in range(3):
        client.call("health", {})
    assert (pool.given, pool.returned) == (1, 0)
    monkeypatch.setattr(clients_module.os, "getpid", lambda: -1)
    client.call("health", {})
    assert (pool.given, pool.returned) == (2, 1)
    monkeypatch.setattr(clients_module, "_FRESH_S", 0.0)
    client.call("health", {})
    assert (pool.given, pool.returned) == (3, 2)
    pool.fails = True
    with pytest.raises(WindwardError, match="UNAVAILABLE"):
        client.call("health", {})
    assert pool.given == pool.returned
    pool.fails = False
    client.call("health", {})
    assert pool.given == pool.returned + 1
    client.close()
    assert pool.given == pool.returned


FIRST_ANSWERS = """
import sys, threading
import msgspec
from scorer import client
from scorer.client.call import read

kinds = [kind for kind in vars(client).values() if isinstance(kind, type) and issubclass(kind, client.Result)]
answer = msgspec.Raw(b'{"placed": [{}], "machines": [{}], "moving": {}, "usage": {}}')
sys.setswitchinterval(1e-6)
together = threading.Barrier(6)

def first(place):
    together.wait()
    for kind in kinds[:: 1 if place % 2 else -1]:
        try:
            read(kind, answer)
        except client.WindwardError:
            pass

threads = [threading.Thread(target=first, args=(place,)) for place in range(6)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_threads_may_read_their_first_answers_at_once():
    """A thread met a type that another was preparing, and the process ended: in 10 of 12 runs of these lines."""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", FIRST_ANSWERS], stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


RIGHT = """
from scorer.client import AsyncClient, Client

def asked(client: Client) -> str | None:
    client.place(cpu=2, memory="10G", labels={"app": "shop"}, tolerations=[{"key": "gpu"}], timeout_s=3)
    client.place(instances=[{"cpu": 1}, {"memory": "4G"}])
    client.update("a", cpu="500m", cancel_move=False)
    client.machines(names=["m1"])
    return client.place(cpu=1).machine

async def awaited(client: AsyncClient) -> None:
    await client.capacity(cpu=1, by="rack")
"""
WRONG = {
    "client.place(cpuu=2)": 'Unexpected keyword argument "cpuu" for "place" of "Client"; did you mean "cpu"?',
    "client.rank(memory=[1])": 'Argument "memory" has incompatible type "list[int]"',
    'client.confirm("a", machina="m1")': 'Unexpected keyword argument "machina"',
    'client.update("a", priority="prod")': 'Unexpected keyword argument "priority"',
    'client.place(priority_class="production")': "incompatible type \"Literal['production']\"",
    "client.machines(limits=3)": 'Unexpected keyword argument "limits"',
    'client.place(instances=[{"cpuu": 1}])': 'Extra key "cpuu" for TypedDict "RequestFields"',
}


@pytest.mark.slow
def test_a_wrong_keyword_is_found_before_the_program_runs(tmp_path):
    """Each wrong call is an error of mypy on its line, and there is no other."""
    file = tmp_path / "calls.py"
    first = RIGHT.count("\n") + 3
    file.write_text(RIGHT + "\ndef wrong(client: Client) -> None:\n    " + "\n    ".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    errors = [line for line in said.splitlines() if "error:" in line]
    assert len(errors) == len(WRONG), said
    for at, (error, wanted) in enumerate(zip(errors, WRONG.values(), strict=True), first):
        assert f":{at}: " in error
        assert wanted in error
