"""What a prioritize costs over HTTP: the names of 5,000 nodes in, the scores of the best 500 out.

    python -m tests.bench.bench_extender [--nodes 5000] [--questions 300] [--kinds 1]

One connection, one question after the other, as kube-scheduler asks. The pods are of one ReplicaSet, or of ``--kinds``
in turn, so that no ranking made beforehand serves. The windows of all nodes are written anew each second meanwhile. A
bare server, which reads the same body and answers so many bytes, is asked in turn with the extender: the ratio is of
the two on the same machine at the same time. Then the same while Redis is frozen: from that moment on, and until
answers have been neutral for a while. Prints one JSON object; exit code 1 when a median is above 5 ms or a 99th
percentile above 25 ms.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager

import numpy as np

from schemas.names import Names
from tests.bench.pairs import read_options
from tests.bench.servers import own_server, processor_us, server_process
from tests.conftest import free_port, stop
from tests.integration.observe.test_exporter import get
from tests.kubernetes.processes import agents
from tests.support.extender_process import extender, pod
from tests.support.pages import eventually

P50_MS_MAX, P99_MS_MAX = 5.0, 25.0
FROZEN_S = 4.0
POD_BYTES = 5_700
"""A pod as a cluster has it, mostly managed fields."""
_BARE = """
import sys
from scorer.kubernetes.extender.__main__ import BODY_BYTES_MAX
from schemas.process.page_server import PageServer
answer = b"x" * int(sys.argv[2])
def echo(environ, start):
    environ["wsgi.input"].read()
    start("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]
server = PageServer(echo, "127.0.0.1", int(sys.argv[1]), body_bytes_max=BODY_BYTES_MAX)
sys.stdin.read()
"""


@contextmanager
def bare(answer_bytes):
    """Run a server that answers so many bytes; yields its port."""
    port = free_port()
    command = [sys.executable, "-c", _BARE, str(port), str(answer_bytes)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        eventually(lambda: _listens(port))
        yield port
    finally:
        stop(process)


def _listens(port):
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=1)) as connection:
            connection.connect()
    except OSError:
        return False
    return True


def question(number, names, kinds=1):
    """Return what the scheduler asks of a pod."""
    body = pod(f"uid-{number}", cpu=f"{500 + number % kinds}m")
    body["metadata"]["managedFields"] = [{"manager": "x" * POD_BYTES}]
    return json.dumps({"Pod": body, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()


def asked(connection, body):
    """Return the time of an answer, ms, and the answer."""
    began = time.perf_counter()
    connection.request("POST", "/prioritize", body)
    answer = connection.getresponse().read()
    return 1e3 * (time.perf_counter() - began), answer


def figures(times_ms):
    return {"p50_ms": round(float(np.median(times_ms)), 2), "p99_ms": round(float(np.percentile(times_ms, 99)), 2)}


def measure(nodes, questions, kinds):
    """Return the figures, as Redis answers and as it does not."""
    random = np.random.default_rng(1)
    names = [f"ip-10-{n // 250}-{n % 250}-17.eu-central-1.compute.internal" for n in range(nodes)]
    with ExitStack() as parts:
        url, wire = parts.enter_context(own_server())
        redis_pid = server_process(wire)
        parts.enter_context(
            agents(url, Names(), lambda: dict(zip(names, random.uniform(0.1, 0.8, nodes), strict=True)))
        )
        process, port, page = parts.enter_context(extender(url, Names(), "--refresh", "0.5"))
        eventually(lambda: get(f"{page}/ready")[0] == 200)
        connection = parts.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port)))
        _, answer = asked(connection, question(-1, names))
        bare_port = parts.enter_context(bare(len(answer)))
        beside = parts.enter_context(closing(http.client.HTTPConnection("127.0.0.1", bare_port)))
        usual, plain, frozen = [], [], []
        before_us = processor_us(process.pid)
        for number in range(questions):
            body = question(number, names, kinds)
            usual.append(asked(connection, body)[0])
            plain.append(asked(beside, body)[0])
            time.sleep(0.01)
        used_ms = (processor_us(process.pid) - before_us) / 1e3 / questions
        os.kill(redis_pid, signal.SIGSTOP)
        try:
            until, neutral, number = time.monotonic() + FROZEN_S, 0, questions
            while time.monotonic() < until:
                number += 1
                taken, scores = asked(connection, question(number, names))
                frozen.append(taken)
                neutral += scores == b"[]"
                time.sleep(0.01)
        finally:
            os.kill(redis_pid, signal.SIGCONT)
    return {
        "nodes": nodes, "asked_bytes": len(body), "answered_bytes": len(answer), "scores": len(json.loads(answer)),
        "extender": figures(usual) | {"cpu_ms_with_refresh": round(used_ms, 2)}, "bare": figures(plain),
        "ratio_p50": round(float(np.median(usual) / np.median(plain)), 2),
        "frozen": figures(frozen) | {"answers": len(frozen), "neutral": neutral},
    }  # fmt: skip


def main():
    asked_for = read_options(__doc__, nodes=5_000, questions=300, kinds=1)
    found = measure(asked_for.nodes, asked_for.questions, asked_for.kinds)
    print(json.dumps(found, indent=1))
    sides = [found["extender"], found["frozen"]]
    return int(any(one["p50_ms"] > P50_MS_MAX or one["p99_ms"] > P99_MS_MAX for one in sides))


if __name__ == "__main__":
    sys.exit(main())
