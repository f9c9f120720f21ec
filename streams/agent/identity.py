"""The identity of a machine: one name, the same after every restart and upgrade; and the id of its host.

The name is, in this order:

1. the setting ``machine``;
2. the name in the state file, when this host wrote it;
3. the host's name, fully qualified if it has a domain; without a name its machine-id.

**The state file** is ``machine.json`` in the unit's state directory (``STATE_DIRECTORY``). The first start writes the
name there, so a new domain or a lost name server changes nothing. It holds the host's id, too: a copied disk image is
another host and gets its own name. After the file is deleted the host's name is read again. When that is a second name
of a known host, ``windward doctor`` reports it with the command that joins the two.

In a container without the host's network the host name is random: without ``machine`` it is refused
(`streams.agent.container`).
"""

import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from schemas.values.hosts import host_id
from schemas.values.read_json import read_as
from streams.agent.collectors.base import text_of
from streams.agent.container import has_random_name

MACHINE_ID_FILE = Path("/etc/machine-id")
STATE_FILE = "machine.json"
PROC = Path("/proc/self")
SYSFS = Path("/sys/class/net")
RANDOM = (
    "machine: this container does not have the host's network, so its host name is random: give --machine"
    " (WINDWARD_MACHINE), or run it in the host's network (docker run --network host, hostNetwork: true)"
)


class Kept(msgspec.Struct, frozen=True):
    """The state file: a machine's name, and the host that wrote it."""

    machine: str
    host_id: str


class Identity(NamedTuple):
    """A machine's name and its source, the id of its host ("": it has no machine-id); or why it has no name."""

    machine: str
    source: str
    host_id: str
    problem: str = ""


def host_name(full_name: str) -> str:
    """Return the host's name; "" for a default name that many hosts have.

    >>> host_name("db1.example.com"), host_name("db1"), host_name("localhost.localdomain")
    ('db1.example.com', 'db1', '')
    """
    return "" if full_name.partition(".")[0] in ("", "localhost") else full_name


def choose(full_name: str, machine_id_text: str, kept: Kept | None) -> tuple[str, str]:
    """Return the machine's name and its source, from the second and third item of the list above.

    Raises ValueError when there is no name.
    """
    if kept and kept.host_id == host_id(machine_id_text):
        return kept.machine, "state file"
    if name := host_name(full_name):
        return name, "host name"
    if name := machine_id_text.strip():
        return name, "machine-id"
    raise ValueError("machine: this machine has neither a host name nor a machine id; give it a name by --machine")


def read_identity(environ: Mapping[str, str]) -> Identity:
    """Return the identity of this machine when the setting is not given, and keep the name in the state file."""
    machine_id_text = text_of(MACHINE_ID_FILE)
    host = host_id(machine_id_text)
    state = Path(path) if (path := environ.get("STATE_DIRECTORY", "").partition(":")[0]) else None
    kept = _kept(state / STATE_FILE) if state else None
    physical = any((link / "device").exists() for link in SYSFS.iterdir()) if SYSFS.is_dir() else False
    mounts, groups = text_of(PROC / "mountinfo"), text_of(PROC / "cgroup")
    if kept is None and has_random_name(socket.gethostname(), mounts, groups, physical=physical):
        return Identity(socket.gethostname(), "container", host, RANDOM)
    try:
        full_name = host_name(socket.getfqdn()) or socket.gethostname()  # /etc/hosts may begin with localhost
        name, source = choose(full_name, machine_id_text, kept)
    except ValueError as error:
        return Identity("", "", host, str(error))
    if state and source != "state file":
        _keep(state / STATE_FILE, Kept(name, host))
    return Identity(name, source, host)


def _kept(path: Path) -> Kept | None:
    try:
        return read_as(path.read_bytes(), Kept)
    except (OSError, msgspec.DecodeError):
        return None


def _keep(path: Path, kept: Kept) -> None:
    """Write the state file atomically; when it cannot be written, the name is determined again at each start."""
    written = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        written.write_bytes(msgspec.json.encode(kept))
        written.replace(path)
