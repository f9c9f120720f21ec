"""Detects a host name that is a container's and not the machine's. Pure: the texts of ``/proc`` are arguments.

A container engine mounts a file of its own on ``/etc/hostname``, or puts its processes into a cgroup of its name. Such
a process is in the host's network when it sees a physical interface: then engines give it the host's name, too. Docker
names any other container by the start of its id. Containers of systemd-nspawn and LXC have permanent names; they count
as machines.
"""

import re

_CGROUP = re.compile(r"docker|kubepods|libpod|containerd|crio|buildkit")
_CONTAINER_ID = re.compile(r"\b[0-9a-f]{64}\b")
_SHORT_ID_LENGTH = 12
_MOUNT_POINT = 4


def in_container(mountinfo: str, cgroup: str) -> bool:
    """Return whether a container engine runs this process, by ``/proc/self/mountinfo`` and ``/proc/self/cgroup``.

    >>> in_container("22 27 0:21 / /proc rw - proc proc rw", "0::/system.slice/windward-agent.service")
    False
    >>> in_container("", "4:memory:/kubepods/burstable/pod1/ab")
    True
    """
    points = (line.split() for line in mountinfo.splitlines())
    return any(point[_MOUNT_POINT : _MOUNT_POINT + 1] == ["/etc/hostname"] for point in points) or bool(
        _CGROUP.search(cgroup)
    )


def has_random_name(host_name: str, mountinfo: str, cgroup: str, *, physical: bool) -> bool:
    """Return whether an engine made the host name; ``physical``: the process sees a physical interface.

    >>> mounts = "540 533 0:3 /var/lib/docker/containers/" + "3f" * 32 + "/hostname /etc/hostname rw - ext4 /dev/sda rw"
    >>> has_random_name("3f3f3f3f3f3f", mounts, "0::/", physical=False)
    True
    >>> has_random_name("db1", mounts, "0::/", physical=True)
    False
    """
    if not in_container(mountinfo, cgroup):
        return False
    ids = _CONTAINER_ID.findall(mountinfo + cgroup)
    return not physical or any(host_name == found[:_SHORT_ID_LENGTH] for found in ids)
