"""Who a machine is, and which container it may be in."""

from pathlib import Path

import pytest

from schemas.process.settings import SettingsError
from schemas.values.hosts import host_id
from streams.agent import identity
from streams.agent.__main__ import build_sampler
from streams.agent.container import has_random_name, in_container
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
def test_the_name(full_name, machine_id_text, kept, found):
    assert choose(full_name, machine_id_text, kept)[0] == found


@pytest.mark.parametrize("full_name", ["localhost", "localhost.localdomain", ""])
def test_a_machine_without_any_name_is_refused(full_name):
    with pytest.raises(ValueError, match=r"^machine: .*--machine"):
        choose(full_name, "", None)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Return a function that makes up a host and returns the agent's environment on it."""

    def make(name="db1", machine_id="3d12\n", mounts="", physical=True):
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


def test_a_host_whose_full_name_is_localhost_has_its_short_name(host, monkeypatch):
    """As where /etc/hosts begins with ``127.0.0.1 localhost``; without a short name the machine-id is left."""
    environ = host("vm")
    monkeypatch.setattr(identity.socket, "getfqdn", lambda: "localhost")
    assert read_identity({})[:2] == ("vm", "host name")
    monkeypatch.setattr(identity.socket, "gethostname", lambda: "localhost")
    assert read_identity(environ)[:2] == ("3d12", "machine-id")


def test_a_new_host_keeps_the_name_it_first_took(host):
    """Another host name later changes nothing, a copied disk does."""
    environ = host("db1")
    assert read_identity(environ) == ("db1", "host name", HOST, "")
    host("renamed")
    assert read_identity(environ) == ("db1", "state file", HOST, "")
    host("copy", machine_id="4e\n")
    assert read_identity(environ)[:2] == ("copy", "host name")


def test_without_a_state_directory_the_name_is_the_hosts(host):
    """Nothing is written; a file that cannot be read, or a directory that cannot be written, is as none."""
    host("db1")
    assert read_identity({})[:2] == ("db1", "host name")
    environ = host("db1")
    (Path(environ["STATE_DIRECTORY"]) / STATE_FILE).write_text("{")
    assert read_identity(environ)[:2] == ("db1", "host name")
    assert read_identity({"STATE_DIRECTORY": environ["STATE_DIRECTORY"] + "/none"})[:2] == (
        "db1", "host name",
    )  # fmt: skip


def test_a_container_needs_a_name_or_the_hosts_network(host):
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


def test_samples_and_facts_say_the_host(host):
    sampler = build_sampler(AgentSettings(), read_identity(host()))
    assert sampler.facts(STARTED_S).host_id == HOST != "3d12"


ID = "0af3" * 16
HOST_MOUNTS = """22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard"""
DOCKER = f"""533 532 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A
540 533 259:1 /var/lib/docker/containers/{ID}/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/nvme0n1p1 rw
541 533 259:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/nvme0n1p1 rw"""
PODMAN = (
    f"""812 800 0:25 /containers/overlay-containers/{ID}/userdata/hostname /etc/hostname rw,nosuid - tmpfs tmpfs rw"""
)
CRI = f"""22 21 8:1 /var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/{ID}/hostname /etc/hostname rw - xfs a rw
2202 2190 8:1 /var/lib/kubelet/pods/6d9e/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw"""


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "inside"),
    [
        pytest.param(HOST_MOUNTS, "0::/system.slice/windward-agent.service", False, id="unit of systemd"),
        pytest.param(HOST_MOUNTS, "9:name=systemd:/\n0::/", False, id="plain process"),
        pytest.param(HOST_MOUNTS, "0::/user.slice/user-1000.slice/session-3.scope", False, id="somebody's shell"),
        pytest.param(DOCKER, "0::/", True, id="Docker"),
        pytest.param(PODMAN, "0::/", True, id="Podman"),
        pytest.param(CRI, "0::/", True, id="containerd under Kubernetes"),
        pytest.param(HOST_MOUNTS, f"4:memory:/docker/{ID}", True, id="Docker with cgroup v1"),
        pytest.param(HOST_MOUNTS, "0::/kubepods.slice/kubepods-pod6d9e.slice/crio-1.scope", True, id="CRI-O"),
        pytest.param("", "", False, id="nothing can be read"),
        pytest.param("1 2\n\nrubbish", "0::/", False, id="rubbish"),
    ],
)
def test_which_process_an_engine_runs(mountinfo, cgroup, inside):
    assert in_container(mountinfo, cgroup) is inside


@pytest.mark.parametrize(
    ("name", "mountinfo", "physical", "random"),
    [
        pytest.param("db1", HOST_MOUNTS, False, False, id="a host, whatever its interfaces"),
        pytest.param("db1", DOCKER, True, False, id="in the host's network"),
        pytest.param(ID[:12], DOCKER, False, True, id="in a network of its own"),
        pytest.param("windward-agent-x7k2p", CRI, False, True, id="a pod without hostNetwork"),
        pytest.param("node-4", CRI, True, False, id="a pod with hostNetwork"),
        pytest.param(ID[:12], DOCKER, True, True, id="given a device, but named by its id"),
    ],
)
def test_which_host_name_is_made_up(name, mountinfo, physical, random):
    assert has_random_name(name, mountinfo, "0::/", physical=physical) is random
