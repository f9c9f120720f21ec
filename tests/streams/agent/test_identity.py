"""Who a machine is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.process.settings import SettingsError
from schemas.values.hosts import host_id
from streams.agent import identity
from streams.agent.__main__ import build_sampler
from streams.agent.identity import RANDOM, STATE_FILE, Kept, choose, read_identity
from streams.agent.settings import AgentSettings

HOST = host_id("3d12")
STARTED_S = 1_790_000_000.0


@pytest.mark.parametrize(
    ("full_name", "machine_id_text", "kept", "ran_before", "found"),
    [
        pytest.param("h.example.com", "3d12\n", None, False, "h.example.com", id="full host name"),
        pytest.param("h", "3d12\n", None, False, "h", id="a bare name is a name"),
        pytest.param("localhost.localdomain", "3d12\n", None, False, "3d12", id="localhost is nobody"),
        pytest.param("h", "3d12\n", Kept("old", HOST), False, "old", id="kept"),
        pytest.param("h", "3d12\n", Kept("old", HOST), True, "old", id="kept in an old directory"),
        pytest.param("h", "3d12\n", Kept("old", host_id("4e")), True, "h", id="a copied image is another host"),
        pytest.param("h", "", Kept("old", ""), False, "old", id="kept by a host without machine-id"),
        pytest.param("h", "3d12\n", None, True, "3d12", id="known by its machine-id"),
        pytest.param("h.example.com", "3d12\n", None, True, "h.example.com", id="known by its full name"),
        pytest.param("h", " \n", None, True, "h", id="known by its bare name"),
    ],
)
def test_the_name(full_name: str, machine_id_text: str, kept: Kept | None, ran_before: bool, found: str):
    """The state file's, else that of the previous release where it ran, else the host's."""
    assert choose(full_name, machine_id_text, kept, ran_before=ran_before)[0] == found


@pytest.mark.parametrize("full_name", ["localhost", "localhost.localdomain", ""])
def test_a_machine_without_any_name_is_refused(full_name: str):
    """The error names the setting."""
    with pytest.raises(ValueError, match=r"^machine: .*--machine"):
        choose(full_name, "", None, ran_before=False)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Return a function that makes up a host and returns the agent's environment on it."""

    def make(name: str = "db1", machine_id: str = "3d12\n", mounts: str = "", physical: bool = True) -> dict[str, str]:
        (tmp_path / "machine-id").write_text(machine_id)
        proc, links, state = tmp_path / "proc", tmp_path / "net", tmp_path / "state"
        for folder in (proc, links / "lo", state):
            folder.mkdir(parents=True, exist_ok=True)
        if physical:
            (links / "eth0" / "device").mkdir(parents=True, exist_ok=True)
        (proc / "mountinfo").write_text(mounts)
        for attribute, value in (("MACHINE_ID_FILE", tmp_path / "machine-id"), ("PROC", proc), ("SYSFS", links)):
            monkeypatch.setattr(identity, attribute, value)
        for function in ("gethostname", "getfqdn"):
            monkeypatch.setattr(identity.socket, function, lambda: name)
        return {"STATE_DIRECTORY": str(state)}

    return make


def age(environ: dict[str, str], by_s: float) -> None:
    """Make the state directory this much older than the start of the process."""
    os.utime(environ["STATE_DIRECTORY"], (STARTED_S - by_s, STARTED_S - by_s))


def test_a_new_host_keeps_the_name_it_first_took(host: Callable[..., dict[str, str]]):
    """The unit's directory is new at the first start; another host name later changes nothing, a copied disk does."""
    environ = host("db1")
    age(environ, 1)
    assert read_identity(environ, STARTED_S) == ("db1", "host name", HOST, "")
    host("renamed")
    age(environ, 1e6)
    assert read_identity(environ, STARTED_S) == ("db1", "state file", HOST, "")
    host("copy", machine_id="4e\n")
    assert read_identity(environ, STARTED_S)[:2] == ("copy", "host name")


def test_a_host_of_the_previous_release_keeps_its_machine_id(host: Callable[..., dict[str, str]]):
    """Its directory is older than the process and has no file. It stays so at the starts after."""
    environ = host("db1")
    age(environ, 3600)
    assert read_identity(environ, STARTED_S)[:2] == ("3d12", "previous release")
    assert read_identity(environ, STARTED_S)[:2] == ("3d12", "state file")


def test_without_a_state_directory_the_name_is_the_hosts(host: Callable[..., dict[str, str]]):
    """Nothing is written; a file that cannot be read, or a directory that cannot be written, is as none."""
    host("db1")
    assert read_identity({}, STARTED_S)[:2] == ("db1", "host name")
    environ = host("db1")
    (Path(environ["STATE_DIRECTORY"]) / STATE_FILE).write_text("{")
    age(environ, 1)
    assert read_identity(environ, STARTED_S)[:2] == ("db1", "host name")
    assert read_identity({"STATE_DIRECTORY": environ["STATE_DIRECTORY"] + "/none"}, STARTED_S)[:2] == (
        "db1", "host name",
    )  # fmt: skip


def test_a_container_needs_a_name_or_the_hosts_network(host: Callable[..., dict[str, str]]):
    """Without, the agent refuses to start and says both ways out; a dry run publishes nothing and goes on."""
    mounts = "5 4 0:3 /var/lib/docker/containers/" + "3f" * 32 + "/hostname /etc/hostname rw - ext4 /dev/sda1 rw"
    environ = host("3f3f3f3f3f3f", mounts=mounts, physical=False)
    found = read_identity(environ, STARTED_S)
    assert found.problem == RANDOM
    assert not (Path(environ["STATE_DIRECTORY"]) / STATE_FILE).exists()
    with pytest.raises(SettingsError, match=r"--machine.*--network host"):
        build_sampler(AgentSettings(), found)
    named = build_sampler(AgentSettings(machine="db1"), found)
    assert (named.machine, named.host_id) == ("db1", HOST)
    assert build_sampler(AgentSettings(dry_run=True), found).machine == "3f3f3f3f3f3f"
    assert read_identity(host("db1", mounts=mounts), STARTED_S)[:2] == ("db1", "host name")


def test_samples_and_facts_say_the_host(host: Callable[..., dict[str, str]]):
    """As a digest: the machine-id stays on the host."""
    sampler = build_sampler(AgentSettings(), read_identity(host(), STARTED_S))
    assert sampler.facts(STARTED_S).host_id == HOST != "3d12"
