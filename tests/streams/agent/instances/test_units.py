"""Which control groups are instances, and their ids."""

import re

import pytest

from streams.agent.instances.units import find_instances, instance_of, vendor_units

CONTAINER = "ab" * 32
POD = "0d1c2b3a-1111-2222-3333-444455556666"
SLICE = POD.replace("-", "_")
HASH = "3b6e1c0f9a8d7e6f5a4b3c2d1e0f9a8b"
NESTED = "kubelet-kubepods-burstable"
VENDOR = frozenset(("cron.service", "dbus.service", "redis-server@.service"))
PATHS = [
    # name, path, id
    ("a unit of the deployer", "system.slice/redis-7001.service", "redis-7001"),
    ("a unit of the system", "system.slice/cron.service", None),
    ("a unit of a template", "system.slice/system-redis.slice/redis-server@7001.service", "redis-server@7001"),
    ("an escaped name", r"system.slice/redis\x2d7001.service", "redis-7001"),
    ("a terminal", "system.slice/system-getty.slice/getty@tty1.service", None),
    ("systemd's own template", "system.slice/systemd-fsck@dev.service", None),
    ("a user's manager", "user.slice/user-1000.slice/user@1000.service", None),
    ("a unit of a user", "user.slice/user-1000.slice/user@1000.service/app.slice/proxy.service", "proxy"),
    ("a login", "user.slice/user-1000.slice/session-3.scope", None),
    ("the first process", "init.scope", None),
    ("a scope", "system.slice/redis-1.scope", "redis-1"),
    ("this agent", "system.slice/windward-agent.service", None),
    ("a slice", "system.slice", None),
    ("a socket", "system.slice/redis.socket", None),
    ("docker by systemd", f"system.slice/docker-{CONTAINER}.scope", CONTAINER),
    ("docker by itself", f"docker/{CONTAINER}", CONTAINER),
    ("docker below a parent", f"ci-jobs/{CONTAINER}", CONTAINER),
    ("docker below two parents", f"batch/ci/{CONTAINER}", CONTAINER),
    ("nerdctl by systemd", f"system.slice/nerdctl-{CONTAINER}.scope", CONTAINER),
    ("nerdctl by itself", f"default/{CONTAINER}", CONTAINER),
    ("a task of Amazon ECS", f"ecs/{'0' * 32}/{CONTAINER}", CONTAINER),
    ("a pod of podman", f"machine.slice/machine-libpod_pod_{CONTAINER}.slice/libpod-{CONTAINER}.scope", CONTAINER),
    ("podman's watcher of a container", f"machine.slice/libpod-conmon-{CONTAINER}.scope", None),
    ("the same of CRI-O", f"machine.slice/crio-conmon-{CONTAINER}.scope", None),
    ("a pod's container of Docker", f"kubepods.slice/kubepods-pod{SLICE}.slice:docker:{CONTAINER}", POD),
    ("podman by itself", f"libpod_parent/libpod-{CONTAINER}", CONTAINER),
    ("a pod's container", f"system.slice/kubepods-burstable-pod{SLICE}.slice:cri-containerd:{CONTAINER}", POD),
    ("the same of CRI-O", f"kubepods-pod{SLICE}.slice:crio:{CONTAINER}", POD),
    ("the same at the top", f"kubelet-kubepods-besteffort-pod{SLICE}.slice:cri-containerd:{CONTAINER}", POD),
    ("podman", f"machine.slice/libpod-{CONTAINER}.scope", CONTAINER),
    ("a pod by systemd", f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice",
     POD),
    ("a guaranteed pod", f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice", POD),
    ("a pod by itself", f"kubepods/burstable/pod{POD}", POD),
    ("a pod below a slice of the kubelet's", f"kubelet.slice/{NESTED}.slice/{NESTED}-pod{SLICE}.slice", POD),
    ("a guaranteed pod below slices", f"a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-pod{SLICE}.slice", POD),
    ("a pod by itself below a folder", f"kubelet/kubepods/besteffort/pod{POD}", POD),
    ("a guaranteed pod by itself", f"kubepods/pod{POD}", POD),
    ("a static pod by systemd", f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{HASH}.slice", HASH),
    ("a static pod by itself", f"kubepods/burstable/pod{HASH}", HASH),
    ("a slice that only ends like a pod's", f"machine.slice/machine-pod{SLICE}.slice", None),
    ("the pods' slice", "kubepods.slice/kubepods-burstable.slice", None),
    ("the pods' slice below another", f"kubelet.slice/kubelet-kubepods.slice/{NESTED}.slice", None),
    ("the pods' folder", "kubepods/burstable", None),
    ("an id with a space", r"system.slice/a\x20b.service", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "instance_id"), PATHS)
def test_a_control_group_is_an_instance_by_its_name(name, path, instance_id):
    """The table of `streams.agent.instances.units`.

    Sources: the control groups in the documentation of systemd, Kubernetes, containerd, CRI-O, podman, nerdctl, LXC
    and Amazon ECS; the rest is made.
    """
    assert instance_of(path, VENDOR) == instance_id, name


NODE = {
    "systemd": (
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice",
        f"kubepods.slice/kubepods-pod{HASH}.slice",
    ),
    "systemd, nested": (
        f"kubelet.slice/kubelet-kubepods.slice/{NESTED}.slice/{NESTED}-pod{SLICE}.slice",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{HASH}.slice",
    ),
    "cgroupfs": (f"kubepods/burstable/pod{POD}", f"kubepods/pod{HASH}"),
}
HOST = (
    "init.scope", "user.slice/user-1000.slice/user@1000.service/app.slice/proxy.service", "system.slice/cron.service",
    "system.slice/containerd.service", "system.slice/kubelet.service", f"system.slice/crio-conmon-{CONTAINER}.scope",
)  # fmt: skip


@pytest.mark.parametrize("driver", NODE)
def test_of_a_node_only_pods_are_instances(tree, driver):
    """Not the host's services, without any folder of units, nor a pod's containers."""
    for path in (*HOST, *NODE[driver]):
        tree.group(path)
    for pod in NODE[driver]:
        tree.group(f"{pod}/cri-containerd-{CONTAINER}.scope")
        tree.group(f"{pod}/{CONTAINER}")
    found = dict(find_instances(tree.groups, (), pods_only=True))
    assert found == dict(zip((POD, HASH), (tree.groups / pod for pod in NODE[driver]), strict=True))


def test_a_pattern_holds_beside_pods():
    pattern = re.compile("containerd")
    assert instance_of("system.slice/containerd.service", (), [pattern], pods_only=True) == "containerd.service"


def test_the_operators_pattern_comes_first():
    """Group 1 is the id; without a group, the whole name."""
    template = re.compile(r"/redis-server@(\d+)\.service$")
    assert instance_of("system.slice/redis-server@7001.service", VENDOR, [template]) == "7001"
    assert instance_of("system.slice/cron.service", VENDOR, [re.compile("cron")]) == "cron.service"
    assert instance_of("system.slice/proxy.service", VENDOR, [template]) == "proxy"


def test_units_of_the_system_are_those_with_a_file_there(tree):
    assert vendor_units(tree.root) == frozenset()
    tree.unit("cron.service")
    tree.unit("dbus.service", "lib/systemd/system")
    tree.unit("redis-1.service", "etc/systemd/system")
    assert vendor_units(tree.root) == {"cron.service", "dbus.service"}


def test_no_instance_is_found_inside_another(tree):
    """A pod's containers are the pod's; what a service divides itself into is the service's."""
    pod = f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice"
    for path in (f"{pod}/cri-containerd-{CONTAINER}.scope", "system.slice/redis-1.service/a.service", "system.slice/x"):
        tree.group(path)
    found = dict(find_instances(tree.groups, VENDOR))
    assert found == {POD: tree.groups / pod, "redis-1": tree.groups / "system.slice/redis-1.service"}


def test_a_root_that_is_not_there_is_an_error(tree):
    """A group that vanishes is none; the root must be there."""
    with pytest.raises(OSError, match="nowhere"):
        list(find_instances(tree.root / "nowhere", VENDOR))
