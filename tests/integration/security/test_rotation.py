"""A password of Redis is rotated while all goes on, by the shipped users and the commands of docs/security.md."""

import asyncio
import hashlib
import json
import re
import stat
import subprocess
import sys

import pytest

from scorer.client import AsyncClient, Client, WindwardError
from tests.conftest import free_port, start_valkey, stop
from tests.integration.scorer.test_rpc import scorer_process
from tests.integration.security.test_redis_users import NAMES, USERS, password, url, users_file
from tests.ops.code_blocks import BLOCKS
from tests.support.in_process import run_command
from tests.support.pages import eventually

pytestmark = pytest.mark.integration

REDIS_CLI = """#!{python}
import sys, redis
with redis.Redis(port={port}, username=sys.argv[2], password={password!r}) as client:
    print(client.execute_command(*sys.argv[3:]))
"""
"""Stands in for redis-cli with REDISCLI_AUTH."""


class Rotated:
    """A server with the shipped users, and a file with the password of each."""

    def __init__(self, folder):
        self.folder, self.port, self.users = folder, free_port(), users_file(folder, USERS)
        for user in USERS:
            self.file(user).write_text(password(user) + "\n")
        cli = folder / "redis-cli"
        cli.write_text(REDIS_CLI.format(python=sys.executable, port=self.port, password=password("admin")))
        cli.chmod(stat.S_IRWXU)
        self.start()

    def start(self):
        """Start the server, with the users' file as it is; it keeps its data."""
        kept = ("--appendonly", "yes", "--appendfsync", "always")
        self.process = start_valkey(self.port, self.folder, "--aclfile", str(self.users), *kept)

    def file(self, user):
        return self.folder / f"{user}-password"

    def environ(self, user):
        return {
            "WINDWARD_REDIS_URL": url(self.port), "WINDWARD_REDIS_USERNAME": user,
            "WINDWARD_REDIS_PASSWORD_FILE": str(self.file(user)),
        }  # fmt: skip

    def run(self, step, user):
        """Run a block of the page for a user, with the paths of this server in place of the page's."""
        (code,) = [one.code for one in BLOCKS if one.page == "docs/security.md" and f"\n# {step}." in one.code]
        code = code.replace("user=scorer", f"user={user}").replace("/etc/redis/users.acl", str(self.users))
        code = code.replace("/etc/windward/secrets/redis_password", str(self.file(user)))
        path = {"PATH": f"{self.folder}:/usr/local/bin:/usr/bin:/bin"}
        done = subprocess.run(["sh", "-euc", code], env=path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    def findings(self):
        """What doctor says is wrong with scorers and passwords, asked as the shipped user."""
        done = run_command("doctor", "--no-broker", "--json", "--timeout", "1", environ=self.environ("doctor"))
        found = json.loads(done.stdout)["findings"]
        assert [one for one in found if one["area"] == "ACL"] == []
        return [one for one in found if one["area"] in ("scorer", "passwords") and one["level"] in ("error", "warning")]


@pytest.fixture(scope="module")
def rotated(tmp_path_factory):
    found = Rotated(tmp_path_factory.mktemp("rotated"))
    yield found
    stop(found.process)


def test_a_password_is_rotated_while_all_goes_on(rotated):
    """By the page's commands: the process and each client go on, also over connections made after the last step."""
    where = {"url": url(rotated.port), "username": "deployer", "password_file": str(rotated.file("deployer"))}

    async def ready():
        async with AsyncClient(**where) as client:
            return bool((await client.health()).scorer)

    with scorer_process(url(rotated.port), NAMES, env=rotated.environ("scorer")), Client(timeout_s=30, **where) as kept:
        eventually(lambda: kept.health().scorer)
        for user in ("scorer", "deployer"):
            before = rotated.file(user).read_text()
            rotated.run("1", user)
            rotated.run("3", user)
            assert rotated.file(user).read_text() != before
            rotated.process.kill()  # no connection stays
            rotated.process.wait()
            rotated.start()
        assert kept.health().scorer
        assert asyncio.run(ready())
        done = run_command("health", "--timeout", "30", environ=rotated.environ("deployer"))
        assert "in the ledger" in done.stdout, done.stderr
        assert [one for one in rotated.findings() if re.search("refuses|not running|no answer", one["found"])] == []


def test_who_is_refused_by_a_password_is_told_from_who_does_not_run(rotated):
    """Without the first step: doctor names the scorer, and the deployer; a changed file brings the scorer back."""
    known = rotated.file("scorer").read_text().strip()
    of_scorer = r"(?<=user scorer on #)[0-9a-f]+"
    with scorer_process(url(rotated.port), NAMES, env=rotated.environ("scorer")) as process:
        eventually(lambda: "not running" not in str(rotated.findings()))
        with Client(url(rotated.port), username="deployer", password_file=rotated.file("deployer")) as client:
            eventually(lambda: client.health().scorer)
        text, digest = rotated.users.read_text(), hashlib.sha256(b"new").hexdigest()
        rotated.users.write_text(re.sub(of_scorer, digest, text))
        rotated.process.kill()
        rotated.process.wait()
        rotated.start()
        said = eventually(lambda: [one for one in rotated.findings() if "refuses the password" in one["found"]])
        assert f"(process {process.pid} of " in said[0]["found"]
        assert said[0]["area"] == "scorer"
        with (
            Client(url(rotated.port), username="deployer", password="old") as wrong,
            pytest.raises(WindwardError) as no,
        ):
            wrong.health()
        assert (no.value.code, no.value.retryable) == ("UNAUTHENTICATED", False)
        assert any("password of 'deployer'" in one["found"] for one in rotated.findings())
        rotated.file("scorer").write_text("new\n")
        with Client(url(rotated.port), username="deployer", password_file=rotated.file("deployer")) as client:
            assert eventually(lambda: client.health().scorer)
        eventually(lambda: "refuses the password of '" not in str(rotated.findings()))
        process.kill()
        process.wait()
        said = eventually(lambda: [one for one in rotated.findings() if "not running" in one["found"]])
        assert f"(process {process.pid} of " in said[0]["found"]
    rotated.file("scorer").write_text(known + "\n")
    rotated.users.write_text(text)
