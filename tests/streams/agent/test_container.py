"""Containers are told by what their engine left in /proc."""

import pytest

from streams.agent.container import has_random_name, in_container
from tests.rows import each_row

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


@each_row(
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
def test_which_process_an_engine_runs(mountinfo: str, cgroup: str, inside: bool):
    """By the mount on /etc/hostname, or the name of the cgroup."""
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
def test_which_host_name_is_made_up(name: str, mountinfo: str, physical: bool, random: bool):
    """That of a container, unless it sees the host's interfaces."""
    assert has_random_name(name, mountinfo, "0::/", physical=physical) is random
