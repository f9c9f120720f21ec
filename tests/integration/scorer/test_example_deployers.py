"""The examples for Ansible and Nomad against a real scorer. Ansible is real; Nomad is a stub that records."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ops.stack.servers.process import wait_until
from scorer.client import Client
from tests.integration.scorer.test_rpc import FRESH_S, MACHINES, scorer_process
from tests.window_tables import publish, window_table

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs" / "examples"
NOMAD = """#!/bin/sh
echo "$@" >>"$NOMAD_SEEN"
exit ${NOMAD_CODE:-0}
"""
PLAYBOOK = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,"]


@pytest.fixture(scope="module")
def client(valkey, module_names):
    publish(valkey.url, module_names, [window_table(MACHINES, at=time.time() + FRESH_S)])
    with scorer_process(valkey.url, module_names), Client(valkey.url, module_names.prefix, timeout_s=60) as client:
        yield client


@pytest.fixture
def run(client, valkey, module_names, tmp_path):
    """A function that runs a program where `windward`, `windward_client` and a stub of `nomad` are."""
    commands = {
        "windward": f'#!/bin/sh\nexec "{sys.executable}" -m ops.cli.main "$@"\n',
        "nomad": NOMAD,
        "windward_client.py": "from scorer.client import *\n",
    }
    for name, script in commands.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(stat.S_IRWXU)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("WINDWARD_", "ANSIBLE_"))}
    environ = clean | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "WINDWARD_REDIS_URL": valkey.url,
        "WINDWARD_PREFIX": module_names.prefix,
        "NOMAD_SEEN": str(tmp_path / "nomad-seen"),
        "ANSIBLE_HOME": str(tmp_path / "ansible"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "LC_ALL": "C.UTF-8",
    }

    def run(*words, **more):
        return subprocess.run(
            words, env=environ | more, check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path
        )

    return run


def play(run, instance, *words, **variables):
    """Run the playbook; each machine is this one, by another name."""
    given = {"instance": instance, "ansible_connection": "local", **variables}
    return run(*PLAYBOOK, str(EXAMPLES / "ansible" / "place.yml"), "-e", json.dumps(given), *words)


def state(client, instance):
    """What the ledger says of an instance; "" where it knows none."""
    found = client.instances(id=instance)["instances"]
    return found[0]["state"] if found else ""


@pytest.mark.slow
def test_a_playbook_places_starts_and_confirms(run, client, tmp_path):
    """On the machine of the answer; a dry run reserves nothing, and a second run changes nothing."""
    tried = play(run, "ansible-1", "--check")
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert state(client, "ansible-1") == ""
    done = play(run, "ansible-1", start=f"touch {tmp_path}/started")
    assert done.returncode == 0, done.stdout + done.stderr
    (seen,) = client.instances(id="ansible-1")["instances"]
    assert (seen["state"], seen["labels"]) == ("confirmed", {"deployer": "ansible"})
    assert f"localhost -> {seen['machine']}" in done.stdout
    assert (tmp_path / "started").exists()
    again = play(run, "ansible-1")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "changed=0" in again.stdout


@pytest.mark.slow
def test_a_playbook_gives_back_what_did_not_start(run, client):
    failed = play(run, "ansible-2", start="false")
    assert failed.returncode != 0
    assert "its place is given back" in failed.stdout
    assert state(client, "ansible-2") == "released"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "said"),
    [({"cpu": "4000"}, "no machine fits"), ({"cpu": "many"}, "cpu: ")],
    ids=["no room", "wrong amount"],
)
def test_a_playbook_says_why_nothing_was_placed(run, variables, said):
    failed = play(run, "ansible-3", **variables)
    assert failed.returncode != 0
    assert said in failed.stdout


def job():
    import hcl2

    return hcl2.loads((EXAMPLES / "nomad" / "web.nomad.hcl").read_text())


def plain(text):
    return text.strip('"')


@pytest.mark.slow
def test_the_job_of_nomad_is_bound_to_the_variable():
    """Its constraint compares the node's name with the variable that the program gives."""
    parsed = job()
    variables = [plain(name) for each in parsed["variable"] for name in each]
    assert variables == ["machine", "instance"]
    (web,) = (body for each in parsed["job"] for body in each.values())
    (constraint,) = web["constraint"]
    assert plain(constraint["attribute"]) == "${node.unique.name}"
    assert plain(constraint["operator"]) == "="
    assert constraint["value"].strip("${}") == "var.machine"


def nomad_run(run, instance, *more, **environ):
    words = [str(EXAMPLES / "nomad" / "place.py"), str(EXAMPLES / "nomad" / "web.nomad.hcl"), instance]
    return run(sys.executable, *words, "--memory", "10G", *(more or ("--cpu", "2")), **environ)


def test_nomad_is_told_the_machine_of_the_answer(run, client, tmp_path):
    """The variable is the machine where the instance is confirmed; a failed job gives the place back."""
    done = nomad_run(run, "nomad-1")
    assert done.returncode == 0, done.stderr
    (seen,) = client.instances(id="nomad-1")["instances"]
    assert seen["state"] == "confirmed"
    words = (tmp_path / "nomad-seen").read_text().split()
    assert words[:2] == ["job", "run"]
    assert f"machine={seen['machine']}" in words
    assert nomad_run(run, "nomad-2", NOMAD_CODE="2").returncode == 2
    assert state(client, "nomad-2") == "released"


@pytest.mark.slow
def test_nomad_is_not_asked_when_no_machine_fits(run, tmp_path):
    """The exit code is 3, as that of the command; without a scorer it is 4."""
    full = nomad_run(run, "nomad-3", "--cpu", "4000")
    assert (full.returncode, full.stdout) == (3, ""), full.stderr
    assert not (tmp_path / "nomad-seen").exists()
    away = nomad_run(run, "nomad-4", WINDWARD_REDIS_URL="redis://127.0.0.1:1/0")
    assert away.returncode == 4, away.stderr


HOST = """#!/bin/sh
case $1 in
runs) test -e "$2-$3" ;;
start) [ "$DIES" = before ] && kill -9 $PPID && exit 1; echo >>"$2-$3"; [ "$DIES" = after ] && kill -9 $PPID; exit 0 ;;
esac
"""


@pytest.mark.parametrize("dies", ["before", "after"])
@pytest.mark.parametrize("expires", [False, True], ids=["held", "expired"])
def test_an_instance_runs_once_whatever_its_deployer_died_of(run, client, tmp_path, dies, expires):
    """Killed before or after the start, its reservation alive or not: another run ends with one copy, where it is."""
    host, name = tmp_path / "host", f"once-{dies}-{expires}"
    host.write_text(HOST)
    host.chmod(stat.S_IRWXU)
    words = [sys.executable, str(EXAMPLES / "deploy_once.py"), str(host), name, "--cpu", "0.5", "--memory", "1G"]
    assert run(*words, DIES=dies, DEPLOY_TTL_S="1" if expires else "600").returncode == -9
    if expires:
        wait_until(lambda: state(client, name) == "expired", 20, "the reservation ends")
        client.place(cpu=3, memory="1G")  # so that another machine is best now
    else:
        assert state(client, name) == "reserved"
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob(f"*-{name}")] == [f"{done.stdout.strip()}-{name}"]
    assert (tmp_path / f"{done.stdout.strip()}-{name}").read_text() == "\n", "it was started once"
    (there,) = client.instances(id=name).instances
    assert (there.state, there.machine) == ("confirmed", done.stdout.strip())
    again = run(*words)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    client.release(name)
