"""Who a machine is."""

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
    ("full_name", "machine_id_text", "kept", "found"),
    [
        pytest.param("h.example.com", "3d12\n", None, "h.example.com", id="full host name"),
        pytest.param("h", "3d12\n", None, "h", id="a bare name is a name"),
        pytest.param("localhost.localdomain", "3d12\n", None, "3d12", id="localhost is nobody"),
        pytest.param("h", "3d12\n", Kept("old", HOST), "old", id="kept"),
        pytest.param("h", "3d12\n", Kept("old", host_id("4e")), "h", id="a copied image is another host"),
        pytest.param("h", "", Kept("old", ""), "old", id="kept by a host without machine-id"),
    ],
)
def test_the_name(full_name: str, machine_id_text: str, kept: Kept | None, found: str):
    """The state file's, else the host's."""
    assert choose(full_name, machine_id_text, kept)[0] == found


@pytest.mark.parametrize("full_name", ["localhost", "localhost.localdomain", ""])
def test_a_machine_without_any_name_is_refused(full_name: str):
    """The error names the setting."""
    with pytest.raises(ValueError, match=r"^machine: .*--machine"):
        choose(full_name, "", None)


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


def test_a_host_whose_full_name_is_localhost_has_its_short_name(
    host: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
):
    """As where /etc/hosts begins with ``127.0.0.1 localhost``; without a short name the machine-id is left."""
    environ = host("vm")
    monkeypatch.setattr(identity.socket, "getfqdn", lambda: "localhost")
    assert read_identity({})[:2] == ("vm", "host name")
    monkeypatch.setattr(identity.socket, "gethostname", lambda: "localhost")
    assert read_identity(environ)[:2] == ("3d12", "machine-id")


def test_a_new_host_keeps_the_name_it_first_took(host: Callable[..., dict[str, str]]):
    """Another host name later changes nothing, a copied disk does."""
    environ = host("db1")
    assert read_identity(environ) == ("db1", "host name", HOST, "")
    host("renamed")
    assert read_identity(environ) == ("db1", "state file", HOST, "")
    host("copy", machine_id="4e\n")
    assert read_identity(environ)[:2] == ("copy", "host name")


def test_without_a_state_directory_the_name_is_the_hosts(host: Callable[..., dict[str, str]]):
    """Nothing is written; a file that cannot be read, or a directory that cannot be written, is as none."""
    host("db1")
    assert read_identity({})[:2] == ("db1", "host name")
    environ = host("db1")
    (Path(environ["STATE_DIRECTORY"]) / STATE_FILE).write_text("{")
    assert read_identity(environ)[:2] == ("db1", "host name")
    assert read_identity({"STATE_DIRECTORY": environ["STATE_DIRECTORY"] + "/none"})[:2] == (
        "db1", "host name",
    )  # fmt: skip


def test_a_container_needs_a_name_or_the_hosts_network(host: Callable[..., dict[str, str]]):
    """Without, the agent refuses to start and says both ways out; a dry run publishes nothing and goes on."""
    mounts = "5 4 0:3 /var/lib/docker/containers/" + "3f" * 32 + "/hostname /etc/hostname rw - ext4 /dev/sda1 rw"
    environ = host("3f3f3f3f3f3f", mounts=mounts, physical=False)
    found = read_identity(environ)
    assert found.problem == RANDOM
    assert not (Path(environ["STATE_DIRECTORY"]) / STATE_FILE).exists()
    with pytest.raises(SettingsError, match=r"--machine.*--network host"):
        build_sampler(AgentSettings(), found)
    named = build_sampler(AgentSettings(machine="db1"), found)
    assert (named.machine, named.host_id) == ("db1", HOST)
    assert build_sampler(AgentSettings(dry_run=True), found).machine == "3f3f3f3f3f3f"
    assert read_identity(host("db1", mounts=mounts))[:2] == ("db1", "host name")


def test_samples_and_facts_say_the_host(host: Callable[..., dict[str, str]]):
    """As a digest: the machine-id stays on the host."""
    sampler = build_sampler(AgentSettings(), read_identity(host()))
    assert sampler.facts(STARTED_S).host_id == HOST != "3d12"
