"""Which control groups are instances: services that are not part of the system, containers, pods.

| control group | instance | its id |
|---|---|---|
| ``redis-7001.service`` | yes, unless the unit came with the system | ``redis-7001`` |
| ``redis@7001.service`` | yes, unless the template is one of systemd's own | ``redis@7001`` |
| ``redis-7001.scope`` | yes; not ``init.scope``, nor a login's | ``redis-7001`` |
| ``docker-ID.scope``, ``libpod-``, ``cri-containerd-``, ``crio-``, ``nerdctl-``; ``PARENT/ID`` | yes | its own id |
| ``kubepods-burstable-podUID.slice``, ``kubelet-kubepods-podUID.slice`` | yes, with its containers | the pod's uid |
| ``kubepods/podUID``, ``kubepods/besteffort/podUID`` | yes, with its containers | the pod's uid |
| ``kubepods-podUID.slice:cri-containerd:ID`` | added to its pod; kubelet and runtime differ | the pod's uid |

A unit came with the system when its file is in one of the folders of distributions: units of a deployer or an
administrator are elsewhere (``/etc``, ``/run``). Chosen over a list of names of system services, which would be long
and never complete. A pattern of the operator comes before the table: its group 1 is the id.

A kubelet's slices (driver systemd) have ``_`` for ``-``, and the names of the slices they are in as a prefix. A static
pod has no uid there, but the hash of its configuration (annotation ``kubernetes.io/config.hash``). A container on a
node has no folder of units to read, so all services of the host would be instances: hence ``pods_only``.
"""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from schemas.messages.sample import INSTANCE_ID_PATTERN

VENDOR_FOLDERS = ("usr/lib/systemd/system", "lib/systemd/system")
SYSTEM_TEMPLATES = frozenset(
    ("autovt", "console-getty", "container-getty", "dbus", "dpkg", "getty", "ifup", "lvm2-pvscan", "modprobe",
     "quotaon", "serial-getty", "sshd", "ssh", "user", "user-runtime-dir")
)  # fmt: skip
GROUPS_MAX = 20_000
"""The most control groups read: more are a misconfiguration and would take long."""
DEPTH_MAX = 10

_CONTAINER = re.compile(
    r"(?:docker|libpod|cri-containerd|crio|nerdctl)-([0-9a-f]{12,64})(?:\.scope)?|(?:.*/)?([0-9a-f]{64})"
)
_POD = re.compile(
    r"(?:(?:.+-)?kubepods(?:-burstable|-besteffort)?-)?pod([0-9a-f]{8}[0-9a-f_-]{20,40})(?:\.slice)?(?::.*)?"
)
_NO_SCOPE = re.compile(r"init\.scope|(?:crio|libpod)-conmon-.*|session-.*\.scope|.*\.(?:socket|mount|swap)")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_ID = re.compile(INSTANCE_ID_PATTERN)


def vendor_units(root: Path) -> frozenset[str]:
    """Return the names of the units that came with the system, below a file system's root."""
    found: set[str] = set()
    for folder in VENDOR_FOLDERS:
        try:
            found.update(path.name for path in (root / folder).iterdir())
        except OSError:
            continue
    return frozenset(found)


def find_instances(
    root: Path, vendor: Collection[str], patterns: Sequence[re.Pattern[str]] = (), *, pods_only: bool = False
) -> Iterator[tuple[str, Path]]:
    """Yield id and path of each control group below ``root`` that is an instance; groups inside one are skipped.

    A group that vanishes meanwhile, or may not be read, is skipped. Raises OSError when the root may not be read.
    """
    looked_at = 0
    waiting = [("", 0)]
    while waiting:
        inside, depth = waiting.pop()
        try:
            with os.scandir(root / inside) as entries:
                children = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            if not inside:
                raise
            continue
        for name in children:
            path = f"{inside}/{name}" if inside else name
            looked_at += 1
            instance_id = instance_of(path, vendor, patterns, pods_only=pods_only)
            if instance_id is not None:
                yield instance_id, root / path
            elif depth < DEPTH_MAX and looked_at < GROUPS_MAX:
                waiting.append((path, depth + 1))


def instance_of(
    path: str, vendor: Collection[str], patterns: Sequence[re.Pattern[str]] = (), *, pods_only: bool = False
) -> str | None:
    r"""Return the id of the instance that a control group is; None for any other group.

    With ``pods_only`` only the table's pods are instances.

    >>> instance_of("system.slice/redis-7001.service", vendor={"cron.service"})
    'redis-7001'
    >>> instance_of("system.slice/cron.service", vendor={"cron.service"})
    >>> instance_of("a.slice/x.service", (), [re.compile(r"a\.slice/(.*)\.service")])
    'x'
    """
    for pattern in patterns:
        if match := pattern.search(path):
            return _valid(match[1] if pattern.groups and match[1] is not None else path.rpartition("/")[2])
    name = path.rpartition("/")[2]
    if match := _POD.fullmatch(name):
        return match[1].replace("_", "-")
    if pods_only:
        return None
    if match := _CONTAINER.fullmatch(name) or _CONTAINER.fullmatch(path):
        return match[1] or match[2]
    stem, dot, kind = name.rpartition(".")
    if not dot or kind not in ("service", "scope") or stem.startswith("windward-") or _NO_SCOPE.fullmatch(name):
        return None
    template, at, _ = stem.partition("@")
    own = template in SYSTEM_TEMPLATES or template.startswith("systemd-")
    came = own if at else name in vendor
    return None if came else _valid(_ESCAPED.sub(lambda found: chr(int(found[1], 16)), stem))


def _valid(instance_id: str) -> str | None:
    return instance_id if _ID.search(instance_id) and len(instance_id) <= 253 else None
