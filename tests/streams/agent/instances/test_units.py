"""Which control groups are instances, and their ids."""

from __future__ import annotations

import re

import pytest

from streams.agent.instances.units import find_instances, instance_of, vendor_units
from tests.streams.agent.instances.tree import Tree

CONTAINER = "ab" * 32
POD = "0d1c2b3a-1111-2222-3333-444455556666"
VENDOR = frozenset(("cron.service", "dbus.service", "redis-server@.service"))
PATHS: list[tuple[str, str, str | None]] = [
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
    ("podman", f"machine.slice/libpod-{CONTAINER}.scope", CONTAINER),
    ("a pod by systemd", f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice",
     POD),
    ("a guaranteed pod", f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice", POD),
    ("a pod by itself", f"kubepods/burstable/pod{POD}", POD),
    ("the pods' slice", "kubepods.slice/kubepods-burstable.slice", None),
    ("an id with a space", r"system.slice/a\x20b.service", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "instance_id"), PATHS)
def test_a_control_group_is_an_instance_by_its_name(name: str, path: str, instance_id: str | None) -> None:
    """The table of `streams.agent.instances.units`."""
    assert instance_of(path, VENDOR) == instance_id, name


def test_the_operators_pattern_comes_first() -> None:
    """Group 1 is the id; without a group, the whole name."""
    template = re.compile(r"/redis-server@(\d+)\.service$")
    path = "system.slice/redis-server@7001.service"
    assert instance_of(path, VENDOR, [template]) == "7001"
    assert instance_of("system.slice/cron.service", VENDOR, [re.compile("cron")]) == "cron.service"
    assert instance_of("system.slice/proxy.service", VENDOR, [template]) == "proxy"


def test_units_of_the_system_are_those_with_a_file_there(tree: Tree) -> None:
    """In either folder of distributions; a machine without systemd has none."""
    assert vendor_units(tree.root) == frozenset()
    tree.unit("cron.service")
    tree.unit("dbus.service", "lib/systemd/system")
    tree.unit("redis-1.service", "etc/systemd/system")
    assert vendor_units(tree.root) == {"cron.service", "dbus.service"}


def test_no_instance_is_found_inside_another(tree: Tree) -> None:
    """A pod's containers are the pod's; what a service divides itself into is the service's."""
    pod = f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice"
    for path in (f"{pod}/cri-containerd-{CONTAINER}.scope", "system.slice/redis-1.service/a.service", "system.slice/x"):
        tree.group(path)
    found = dict(find_instances(tree.groups, VENDOR))
    assert found == {POD: tree.groups / pod, "redis-1": tree.groups / "system.slice/redis-1.service"}


def test_a_root_that_is_not_there_is_an_error(tree: Tree) -> None:
    """A group that vanishes is none; the root must be there."""
    with pytest.raises(OSError, match="nowhere"):
        list(find_instances(tree.root / "nowhere", VENDOR))
